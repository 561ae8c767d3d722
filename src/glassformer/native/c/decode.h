/* GPT one token after the other (models/gpt.py), with the keys and values of all tokens before kept: any number of
 * tokens, of any number of sequences, go through together, and all share one pass over the weights.
 *
 * What a single token costs is reading the weights, so they lie in panels (panels.h) in the order in which they are
 * read, and threads take the panels of every matrix as they are free (phases.h). Keys and values lie in panels too: those of a head as a
 * matrix (D, slots) and a matrix (slots, D). Sizes come at run time: one library serves all models.
 * Memory comes from the caller: nothing is allocated here. */
#ifndef GF_DECODE_H
#define GF_DECODE_H

#include "gelu.h"
#include "gelu_tanh.h"
#include "layer_norm.h"
#include "panels.h"
#include "phases.h"
#include "softmax.h"

enum { MOST_PARTS = 256 };                        /* of a phase */
enum { BY_GELU, BY_GELU_TANH, BY_RELU, BY_SILU }; /* activations */

typedef struct {
    const float *weights;  /* of all blocks, then the last norm, then the head: `block_of` reads them in their order */
    const float *rotations;    /* (context, D): cosines, then sines, of rotary positions; or NULL */
    float *keys, *values;  /* (depth, sequences, H, the panels of a head) */
    const float *x;        /* (tokens, C): embedded */
    float *logits;         /* (wanted, PANELS(V) * PANEL) */
    float *space;          /* gf_decode_space() floats, aligned to 64 bytes */
    const int32_t *owner;  /* (tokens): the sequence of each; those of one sequence lie side by side, in their order */
    const int32_t *place;  /* (tokens): where in it */
    const int32_t *wanted; /* (wants): tokens whose logits are asked for */
    int32_t tokens, wants, sequences, slots; /* slots: places in the cache, whole panels */
    int32_t width, heads, hidden, depth, vocabulary, activation;
    int32_t threads;
    float eps, scale;
} decoding;

typedef struct {
    const float *gain1, *bias1, *w_qkv, *b_qkv, *w_o, *b_o;
    const float *gain2, *bias2, *w_up, *b_up, *w_down, *b_down;
} decoder_block;

/* Rows of activations: whole panels, and one line of memory more, so that rows do not all fall into the same corner of
 * the cache. */
INLINE int row_of(int n) { return PANELS(n) * PANEL + 16; }
INLINE size_t panels_of(int K, int O) { return (size_t)PANELS(O) * PANEL * (size_t)K; }

INLINE const float *next(const float **weights, size_t floats)
{
    const float *here = *weights;
    *weights += floats;
    return here;
}

INLINE decoder_block block_of(const float **at, int C, int F)
{
    decoder_block w;
    w.gain1 = next(at, panels_of(1, C)), w.bias1 = next(at, panels_of(1, C));
    w.w_qkv = next(at, panels_of(C, 3 * C)), w.b_qkv = next(at, panels_of(1, 3 * C));
    w.w_o = next(at, panels_of(C, C)), w.b_o = next(at, panels_of(1, C));
    w.gain2 = next(at, panels_of(1, C)), w.bias2 = next(at, panels_of(1, C));
    w.w_up = next(at, panels_of(C, F)), w.b_up = next(at, panels_of(1, F));
    w.w_down = next(at, panels_of(F, C)), w.b_down = next(at, panels_of(1, C));
    return w;
}

/* Floats of a block's weights. */
INLINE size_t floats_of_block(const decoding *work)
{
    const float *at = work->weights;
    block_of(&at, work->width, work->hidden);
    return (size_t)(at - work->weights);
}

typedef struct {
    const decoding *work;
    float *resid, *normed, *qkv, *joined, *hidden; /* shared: (tokens, row_of(C)), …, (tokens, row_of(F)) */
    float *scores, *z, *xhat;                      /* own: (TILE_ROWS, slots), (TILE_ROWS, row_of(D)), (C) */
} decoder;

/* Returns the floats needed in all. */
static inline int64_t lay_out(decoder *own, const decoding *work, int thread)
{
    const int64_t N = work->tokens, C = row_of(work->width);
    const int64_t scores = (int64_t)TILE_ROWS * work->slots, z = TILE_ROWS * row_of(work->width / work->heads);
    const int64_t room = (scores + z + C + 15) / 16 * 16;
    const int64_t shared = N * (3 * C + row_of(3 * work->width) + row_of(work->hidden));
    float *at = work->space;
    own->resid = at, at += N * C;
    own->normed = at, at += N * C;
    own->joined = at, at += N * C;
    own->qkv = at, at += N * row_of(3 * work->width);
    own->hidden = at, at += N * row_of(work->hidden);
    own->work = work;
    at += thread * room;
    own->scores = at, own->z = at + scores, own->xhat = at + scores + z;
    return shared + work->threads * room;
}

/* Into how many items work is cut. */
INLINE int at_most_parts(int n) { return n < MOST_PARTS ? n : MOST_PARTS; }
INLINE int parts_of(int O) { return at_most_parts(PANELS(O)); }
INLINE int groups_of_rows(int N) { return at_most_parts((N + 7) / 8); }

INLINE vec activated(vec x, int kind)
{
    switch (kind) {
    case BY_GELU: return x * vec_normal(x).cdf;
    case BY_GELU_TANH: return x * vec_gate(x);
    case BY_RELU: return vec_select(vec_less(x, vec_all(0.0f)), vec_all(0.0f), x);
    default: return x / (vec_all(1.0f) + vec_exp(-x)); /* SiLU */
    }
}

/* Part `item` of the panels of y (tokens, O)  <-  b + x (tokens, K) @ w.  Overwrites, or adds. */
static inline void some_panels(int item, float *y, int y_row, const float *w, const float *b, const float *x, int x_row,
                               int K, int O, int N, int add, int activation)
{
    int from, to;
    share_out(PANELS(O), item, parts_of(O), &from, &to);
    for (int p = from; p < to; p++) {
        float *columns = y + p * PANEL;
        panel_product(columns, y_row, w + (size_t)p * K * PANEL, b ? b + p * PANEL : NULL, x, x_row, K, N, add);
        if (activation >= 0)
            for (int n = 0; n < N; n++)
                for (int v = 0; v < PANEL; v += LANES) {
                    float *place = columns + n * y_row + v;
                    vec_store(place, activated(vec_load(place), activation));
                }
    }
}

/* Some rows of y  <-  rows of x, or those that `which` lists. */
static inline void some_norms(const decoder *own, int item, float *y, const float *gain, const float *bias,
                              const float *x, const int32_t *which, int N)
{
    const int C = own->work->width, row = row_of(C);
    int from, to;
    float std_inv;
    share_out(N, item, groups_of_rows(N), &from, &to);
    for (int n = from; n < to; n++)
        layer_norm_forward(y + n * row, own->xhat, &std_inv, gain, bias, x + (which ? which[n] : n) * row, 1, C,
                           own->work->eps);
}

/* Rotary positions, in place: a, b = the halves of x;  a * cos - b * sin,  b * cos + a * sin. */
static inline void rotate_halves(float *x, const float *rotation, int D)
{
    for (int i = 0; i < D / 2; i++) {
        const float a = x[i], b = x[i + D / 2], c = rotation[i], s = rotation[i + D / 2];
        x[i] = a * c - b * s;
        x[i + D / 2] = b * c + a * s;
    }
}

/* One head of R tokens that follow each other in a sequence, the first of them at `place`: all keys are there. */
static inline void attend(const decoder *own, float *joined, const float *q, const float *keys, const float *values,
                          int place, int R)
{
    const int C = own->work->width, D = C / own->work->heads, S = place + R, slots = own->work->slots, z_row = row_of(D);
    for (int p = 0; p < PANELS(S); p++)
        panel_product(own->scores + p * PANEL, slots, keys + (size_t)p * D * PANEL, NULL, q, row_of(3 * C), D, R, 0);
    for (int r = 0; r < R; r++) {
        float *row = own->scores + r * slots;
        const int seen = place + r + 1;
        softmax_forward(row, 1, seen, own->work->scale);
        for (int s = PADDED(seen); s < S; s++) row[s] = 0.0f; /* the future */
    }
    for (int p = 0; p < PANELS(D); p++)
        panel_product(own->z + p * PANEL, z_row, values + (size_t)p * slots * PANEL, NULL, own->scores, slots, S, R, 0);
    for (int r = 0; r < R; r++) memcpy(joined + r * row_of(C), own->z + r * z_row, (size_t)D * sizeof *joined);
}

/* Head h of block l: keys and values go into the cache, then every token looks back. */
static inline void one_head(const decoder *own, int l, int h)
{
    const decoding *work = own->work;
    const int C = work->width, H = work->heads, D = C / H, row = row_of(3 * C), slots = work->slots;
    const size_t keys_of = (size_t)slots * D, values_of = panels_of(slots, D);
    float *q = own->qkv + h * D;
    for (int n = 0; n < work->tokens; n++) {
        const size_t head = ((size_t)l * work->sequences + work->owner[n]) * H + h;
        const int t = work->place[n];
        const float *rotation = work->rotations ? work->rotations + (size_t)t * D : NULL;
        float *k = q + n * row + C, *v = k + C;
        float *key = work->keys + head * keys_of + (size_t)(t / PANEL) * D * PANEL + t % PANEL;
        float *value = work->values + head * values_of + (size_t)t * PANEL;
        if (rotation) rotate_halves(q + n * row, rotation, D), rotate_halves(k, rotation, D);
        for (int d = 0; d < D; d++) key[d * PANEL] = k[d];
        for (int d = 0; d < D; d++) value[(size_t)(d / PANEL) * slots * PANEL + d % PANEL] = v[d];
    }
    for (int n = 0, R; n < work->tokens; n += R) {
        const size_t head = ((size_t)l * work->sequences + work->owner[n]) * H + h;
        for (R = 1; R < TILE_ROWS && n + R < work->tokens && work->owner[n + R] == work->owner[n];) R++;
        attend(own, own->joined + n * row_of(C) + h * D, q + n * row, work->keys + head * keys_of,
               work->values + head * values_of, work->place[n], R);
    }
}

/* The phases: the tokens' rows; NORM1 to DOWN of every block; the last norm, and the head. */
enum { NORM1, QKV, HEADS, OUT, NORM2, UP, DOWN, STAGES };
enum { EMBED = -1, LAST_NORM = STAGES, HEAD };

typedef struct {
    const decoding *work;
    decoder threads[MOST_THREADS];
} decoding_threads;

/* The stage of a phase, and its block. */
static inline int stage_of(const decoding *work, int phase, int *block)
{
    *block = (phase - 1) / STAGES;
    if (phase == 0) return EMBED;
    return *block < work->depth ? (phase - 1) % STAGES : LAST_NORM + (phase - 1) % STAGES;
}

static int items_of_phase(void *argument, int phase)
{
    const decoding *work = ((const decoding_threads *)argument)->work;
    int block;
    switch (stage_of(work, phase, &block)) {
    case EMBED: return groups_of_rows(work->tokens);
    case NORM1:
    case NORM2: return groups_of_rows(work->tokens);
    case QKV: return parts_of(3 * work->width);
    case HEADS: return at_most_parts(work->heads);
    case OUT:
    case DOWN: return parts_of(work->width);
    case UP: return parts_of(work->hidden);
    case LAST_NORM: return groups_of_rows(work->wants);
    case HEAD: return parts_of(work->vocabulary);
    default: return 0;
    }
}

static void take_item(void *argument, int thread, int phase, int item)
{
    const decoder *own = &((const decoding_threads *)argument)->threads[thread];
    const decoding *work = own->work;
    const int N = work->tokens, C = work->width, F = work->hidden, V = work->vocabulary, c = row_of(C), f = row_of(F);
    int l, from, to;
    const int stage = stage_of(work, phase, &l);
    const float *at = work->weights + (size_t)l * floats_of_block(work);
    const decoder_block w = l < work->depth ? block_of(&at, C, F) : (decoder_block){0};
    const float *gain = at, *bias = gain + panels_of(1, C), *head = bias + panels_of(1, C); /* behind the last block */
    switch (stage) {
    case EMBED:
        share_out(N, item, groups_of_rows(N), &from, &to);
        for (int n = from; n < to; n++) memcpy(own->resid + n * c, work->x + (size_t)n * C, (size_t)C * sizeof *work->x);
        break;
    case NORM1: some_norms(own, item, own->normed, w.gain1, w.bias1, own->resid, NULL, N); break;
    case QKV: some_panels(item, own->qkv, row_of(3 * C), w.w_qkv, w.b_qkv, own->normed, c, C, 3 * C, N, 0, -1); break;
    case HEADS:
        share_out(work->heads, item, at_most_parts(work->heads), &from, &to);
        for (int h = from; h < to; h++) one_head(own, l, h);
        break;
    case OUT: some_panels(item, own->resid, c, w.w_o, w.b_o, own->joined, c, C, C, N, 1, -1); break;
    case NORM2: some_norms(own, item, own->normed, w.gain2, w.bias2, own->resid, NULL, N); break;
    case UP: some_panels(item, own->hidden, f, w.w_up, w.b_up, own->normed, c, C, F, N, 0, work->activation); break;
    case DOWN: some_panels(item, own->resid, c, w.w_down, w.b_down, own->hidden, f, F, C, N, 1, -1); break;
    case LAST_NORM: some_norms(own, item, own->normed, gain, bias, own->resid, work->wanted, work->wants); break;
    case HEAD:
        some_panels(item, work->logits, PANELS(V) * PANEL, head, NULL, own->normed, c, C, V, work->wants, 0, -1);
        break;
    }
}

/* All tokens through all blocks. */
void gf_decode(const decoding *work)
{
    decoding_threads all = {.work = work};
    for (int t = 0; t < work->threads && t < MOST_THREADS; t++) lay_out(&all.threads[t], work, t);
    in_phases(&all, items_of_phase, take_item, work->threads);
}

int64_t gf_decode_space(const decoding *work)
{
    decoder any;
    return lay_out(&any, work, 0);
}

int gf_panel(void) { return PANEL; }
int gf_decoding_size(void) { return (int)sizeof(decoding); }

#endif
