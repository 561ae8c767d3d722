/* Blocks of attention and feed-forward over tokens of any number of texts, which share one pass over the weights: a
 * language model that writes (models/gpt.py, models/llama.py), an encoder that reads (models/bert.py).
 *
 * pre-norm     x += attention(norm1(x));  x += feed_forward(norm2(x));  behind the last block a norm, and the head
 * post-norm    x = norm1(x + attention(x));  x = norm2(x + feed_forward(x));  a norm before the first block
 *
 * What a single token costs is reading the weights, so they lie in panels (weight_panels.h), and threads take the panels
 * of every matrix as they are free (phases.h). What is computed does not depend on their number. */
#ifndef GF_TEXT_STACK_H
#define GF_TEXT_STACK_H

#include "cached_attention.h"
#include "text_activation.h"

enum { MOST_PARTS = 256 }; /* of a phase */

/* The stages of a block, and those before and behind all of them. */
enum { NORM1, QKV, REMEMBER, ATTEND, ROUND_JOINED, OUT, NORM2, UP, ROUND_HIDDEN, DOWN, EMBED, LAST_NORM, HEAD, COPY, END };

typedef struct {
    const text_work *work;
    int tiles, count, of_block[DOWN + 1]; /* the stages of a block, in their order */
    text_buffers threads[MOST_THREADS];
} text_threads;

static inline void plan_stages(text_threads *all)
{
    const int rounds = all->work->kind == INT8, post = all->work->post_norm;
    const int stages[] = {post ? -1 : NORM1, QKV,   REMEMBER, ATTEND, rounds ? ROUND_JOINED : -1,
                          OUT, post ? NORM1 : NORM2, UP, rounds ? ROUND_HIDDEN : -1, DOWN, post ? NORM2 : -1};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (stages[i] >= 0) all->of_block[all->count++] = stages[i];
}

/* The stage of a phase, and its block. */
static inline int stage_of(const text_threads *all, int phase, int *block)
{
    const int depth = all->work->depth, behind = phase - 1 - depth * all->count;
    *block = behind < 0 && phase ? (phase - 1) / all->count : depth;
    if (phase == 0) return EMBED;
    if (behind < 0) return all->of_block[(phase - 1) % all->count];
    if (!all->work->vocabulary) return behind ? END : COPY;
    return behind == 0 ? LAST_NORM : behind == 1 ? HEAD : END;
}

/* Into how many items work is cut. */
INLINE int at_most_parts(int n) { return n < MOST_PARTS ? n : MOST_PARTS; }
INLINE int groups_of_rows(int N) { return at_most_parts((N + 3) / 4); }
INLINE int panels_of_qkv(const text_work *work) { return (qkv_of(work).row - 16) / PANEL; }

static int items_of_phase(void *argument, int phase)
{
    const text_threads *all = argument;
    const text_work *work = all->work;
    int block;
    switch (stage_of(all, phase, &block)) {
    case QKV: return at_most_parts(panels_of_qkv(work));
    case ATTEND: return at_most_parts(all->tiles * work->key_heads);
    case OUT:
    case DOWN: return at_most_parts(PANELS(work->width));
    case UP: return at_most_parts(PANELS(work->hidden));
    case LAST_NORM:
    case COPY: return groups_of_rows(work->wants);
    case HEAD: return at_most_parts(PANELS(work->vocabulary));
    case END: return 0;
    default: return groups_of_rows(work->tokens);
    }
}

/* Row n of what the next product reads, where that is of int8. */
INLINE void round_row(const text_buffers *own, const float *x, int n, int K)
{
    const int groups = QUANT_GROUPS(K);
    if (own->work->kind != INT8) return;
    quantise_row(own->q + (size_t)n * quantised_row(K), own->scales + (size_t)n * groups, own->sums + (size_t)n * groups, x, K);
}

INLINE product_rows rows_of(const text_buffers *own, const float *x, int row)
{
    return (product_rows){x, row, {own->q, own->scales, own->sums}};
}

/* y  <-  x, normed by two parts of a block, and rounded for the next product. */
static inline void norm_row(const text_buffers *own, float *y, const float *x, int n, int l, int gain, int bias)
{
    const text_work *work = own->work;
    const int C = work->width, row = row_of(C);
    const float *g = floats_of(work, l, gain), *b = floats_of(work, l, bias);
    if (work->norm == RMS_NORM) rms_norm_token(y + (size_t)n * row, g, x, C, work->eps);
    else layer_norm_token(y + (size_t)n * row, g, b, x, C, work->eps);
    round_row(own, y + (size_t)n * row, n, C);
}

/* Some rows, by stage. */
static inline void some_rows(const text_buffers *own, int stage, int l, int from, int to)
{
    const text_work *work = own->work;
    const int C = work->width, c = row_of(C), A = work->heads * work->head_width, F = work->hidden;
    for (int n = from; n < to; n++) {
        float *resid = own->resid + (size_t)n * c;
        switch (stage) {
        case EMBED:
            memcpy(resid, work->x + (size_t)n * C, (size_t)C * sizeof *resid);
            if (work->post_norm) norm_row(own, own->resid, resid, n, l, GAIN2, BIAS2);
            break;
        case NORM1: norm_row(own, own->normed, resid, n, l, GAIN1, BIAS1); break;
        case NORM2: norm_row(own, own->normed, resid, n, l, GAIN2, BIAS2); break;
        case REMEMBER: remember_token(own, l, n); break;
        case ROUND_JOINED: round_row(own, own->joined + (size_t)n * row_of(A), n, A); break;
        case ROUND_HIDDEN: round_row(own, own->hidden + (size_t)n * row_of(F), n, F); break;
        case LAST_NORM: norm_row(own, own->normed, own->resid + (size_t)work->wanted[n] * c, n, l, GAIN1, BIAS1); break;
        case COPY:
            memcpy(work->y + (size_t)n * C, own->resid + (size_t)work->wanted[n] * c, (size_t)C * sizeof *resid);
            break;
        }
    }
}

/* Panel p of y (N, …)  <-  b + x (N, K) @ w, parts of block l, into `columns`.  Overwrites, or adds. */
static inline void one_panel(const text_buffers *own, float *columns, int y_row, int l, int w, int b, const product_rows *x,
                             int K, int N, int add, int p)
{
    const int kind = own->work->kind;
    const float *bias = b < 0 ? NULL : floats_of(own->work, l, b);
    weight_panel(columns, y_row, part_of(own->work, l, w) + (size_t)p * bytes_of_panel(K, kind),
                 bias ? bias + p * PANEL : NULL, x, K, N, add, kind);
}

static inline void some_panels(const text_buffers *own, float *y, int y_row, int l, int w, int b, product_rows x, int K,
                               int N, int add, int from, int to)
{
    for (int p = from; p < to; p++) one_panel(own, y + p * PANEL, y_row, l, w, b, &x, K, N, add, p);
}

/* hidden  <-  activation(x @ w_up + b_up), or activation(x @ w_gate + b_gate) * (x @ w_up + b_up) */
static inline void some_hidden(const text_buffers *own, int l, product_rows x, int from, int to)
{
    const text_work *work = own->work;
    const int N = work->tokens, C = work->width, f = row_of(work->hidden), gated = part_of(work, l, W_GATE) != NULL;
    for (int p = from; p < to; p++) {
        float *hidden = own->hidden + p * PANEL;
        one_panel(own, hidden, f, l, gated ? W_GATE : W_UP, gated ? B_GATE : B_UP, &x, C, N, 0, p);
        if (gated) one_panel(own, own->up, PANEL, l, W_UP, B_UP, &x, C, N, 0, p);
        for (int n = 0; n < N; n++)
            for (int v = 0; v < PANEL; v += LANES) {
                float *place = hidden + (size_t)n * f + v;
                const vec active = activated(vec_load(place), work->activation);
                vec_store(place, gated ? active * vec_load(own->up + n * PANEL + v) : active);
            }
    }
}

static void take_text_item(void *argument, int thread, int phase, int item)
{
    const text_threads *all = argument;
    const text_buffers *own = &all->threads[thread];
    const text_work *work = own->work;
    const int N = work->tokens, C = work->width, A = work->heads * work->head_width, F = work->hidden, c = row_of(C);
    const product_rows input = rows_of(own, own->normed, c);
    int l, from, to;
    const int stage = stage_of(all, phase, &l), items = items_of_phase(argument, phase);
    switch (stage) {
    case QKV:
        share_out(panels_of_qkv(work), item, items, &from, &to);
        some_panels(own, own->qkv, qkv_of(work).row, l, W_QKV, B_QKV, input, C, N, 0, from, to);
        break;
    case ATTEND:
        share_out(all->tiles * work->key_heads, item, items, &from, &to);
        for (int i = from; i < to; i++) attend_tile(own, l, i / work->key_heads, i % work->key_heads);
        break;
    case OUT:
        share_out(PANELS(C), item, items, &from, &to);
        some_panels(own, own->resid, c, l, W_O, B_O, rows_of(own, own->joined, row_of(A)), A, N, 1, from, to);
        break;
    case UP:
        share_out(PANELS(F), item, items, &from, &to);
        some_hidden(own, l, input, from, to);
        break;
    case DOWN:
        share_out(PANELS(C), item, items, &from, &to);
        some_panels(own, own->resid, c, l, W_DOWN, B_DOWN, rows_of(own, own->hidden, row_of(F)), F, N, 1, from, to);
        break;
    case HEAD:
        share_out(PANELS(work->vocabulary), item, items, &from, &to);
        some_panels(own, work->y, PANELS(work->vocabulary) * PANEL, l, W_QKV, -1, input, C, work->wants, 0, from, to);
        break;
    default:
        share_out(stage == LAST_NORM || stage == COPY ? work->wants : N, item, items, &from, &to);
        some_rows(own, stage, l, from, to);
    }
}

/* All tokens through all blocks. */
void gf_text_stack(const text_work *work)
{
    text_threads all = {.work = work};
    for (int t = 0; t < work->threads && t < MOST_THREADS; t++) lay_out_text(&all.threads[t], work, t);
    all.tiles = cut_into_tiles(all.threads[0].tiles, work);
    plan_stages(&all);
    in_phases(&all, items_of_phase, take_text_item, work->threads);
}

int64_t gf_text_space(const text_work *work)
{
    text_buffers any;
    return lay_out_text(&any, work, 0);
}

int gf_text_work_size(void) { return (int)sizeof(text_work); }

#endif
