/* The host's side of a generated model: samples are shared out to threads, gradients summed, parameters updated.
 *
 * A step's samples are cut into shards. Whoever takes a shard brings its samples forward and backward, SAMPLES at a time,
 * while they are in its own cache, and sums their gradients by themselves; then shards are added up in pairs, and pairs
 * of pairs. When all are done, the parameters are updated, slice by slice. The gradient of a weight that is too large for a
 * copy in every shard is cut by columns instead, that of a table by rows, each over all samples. Neither shards nor slices
 * nor columns nor rows depend on the number of threads, so a run repeats to the bit with any (phases.h). Memory comes from
 * the caller: nothing is allocated here. */
#ifndef GF_HOST_H
#define GF_HOST_H

#include <stdint.h>

#include "cross_entropy.h"
#include "optimisers.h"

#ifndef GF_INPUT
#define GF_INPUT uint8_t
#endif
typedef GF_INPUT input; /* a pixel, a number of a row, or a word of a text */
#ifndef GF_LABELS
#define GF_LABELS 1
#endif

#define ROUND_UP(n) (((n) + 15) / 16 * 16)
enum { BYTES = ROUND_UP((SAMPLES * PIXELS * (int)sizeof(input) + 3) / 4), GRADIENT = ROUND_UP(PARAMETERS) };

#ifndef GF_FORWARD_ONLY

#include "phases.h"
#include "table_part.h"

enum { SGD, MOMENTUM, ADAMW };
enum { MOST_SHARDS = 64, MOST_SLICES = 1024 };
enum { SLICE = PARAMETERS / MOST_SLICES < 8192 ? 8192 : PARAMETERS / MOST_SLICES + 1 };
enum { SLICES = (PARAMETERS + SLICE - 1) / SLICE };
#ifndef GF_TABLES /* no table is large */
enum { TABLE_PARTS = 0, TABLE_WORK = 0 };
static void take_rows(float *g, const float *p, const float *arenas, int groups, int part, table_part *rows)
{
    (void)g, (void)p, (void)arenas, (void)groups, (void)part, (void)rows;
}
#endif
enum { KEPT_PARTS = (int)COLUMN_PARTS + (int)TABLE_PARTS }; /* where there are any, activations of all groups are kept */
_Static_assert((int)KEPT_PARTS <= (int)MOST_ITEMS, "more columns and rows than a phase has items");

typedef struct {
    const input *images;    /* (samples, PIXELS) */
    const int32_t *labels;  /* (samples, GF_LABELS) */
    const float *shares;    /* (samples, GF_LABELS): of each label in the loss; NULL: all the same */
    const int32_t *order;   /* (count): which sample comes when */
    const int32_t *shifts;  /* (count, 2): rows and columns by which each is moved, or NULL */
    const float *affine;    /* (count, 6): where its pixel at (row, column, 1) comes from, the moves in it; or NULL */
    const int32_t *erased;  /* (count, 4), with it: first row and column that are erased, and those after the last */
    const float *rates;     /* (last): learning rate of each step */
    const int32_t *ends;    /* of spans of parameters that are treated alike; the last is PARAMETERS */
    const float *factors;   /* of each span, times the learning rate; 0: frozen, they stay as they are */
    const float *decays;    /* of each span: its weight decay */
    float *params, *m, *v;  /* (PARAMETERS) each; m and v where the optimiser has them */
    float *ema;             /* (PARAMETERS), averaged weights, or NULL */
    float *losses;          /* (last) */
    float *space;           /* gf_training_space() floats, aligned to 64 bytes */
    int32_t count, batch;   /* samples in an epoch, and in a step but for the last */
    int32_t first, last;    /* steps of this call, the last one not included */
    int32_t done;           /* updates before this call, which Adam counts */
    int32_t threads, shards, optimiser;
    float smoothing, momentum, eps, clip;
    float renewed;          /* the share of the averaged weights that a step renews */
    double b1, b2;
} job;

typedef struct {
    const job *work;
    float *arenas;    /* one for each thread; where columns or rows are cut, one for each group of samples */
    float *own;       /* (threads): transposed weights, augmented images, and room for rows of a table */
    int groups;       /* of samples, in a step but for the last */
    int transposed[MOST_THREADS];  /* the step whose weights a thread has transposed, and 1 more */
    atomic_int done[2 * MOST_SHARDS];  /* of a pair of shards, and of pairs of pairs */
    float losses[MOST_SHARDS];         /* each one's part of the loss */
    double squares[MOST_SLICES];   /* each one's part of the gradient's squared norm */
} training;

enum { OWN = ROUND_UP(TRANSPOSED) + BYTES + ROUND_UP(TABLE_WORK) };

static float *gradient_of(const job *work, int shard) { return work->space + (size_t)shard * GRADIENT; }

static int groups_of(int samples) { return (samples + SAMPLES - 1) / SAMPLES; }

static int size_of(const job *work, int step)
{
    const int rest = work->count - step * work->batch;
    return rest < work->batch ? rest : work->batch;
}

static training begin(const job *work)
{
    training all = {.work = work, .groups = groups_of(work->batch)};
    all.arenas = gradient_of(work, work->shards);
    all.own = all.arenas + (size_t)(KEPT_PARTS > 0 ? all.groups : work->threads) * ARENA;
    return all;
}

/* An image moved by (down, right) pixels; what comes in at the border is 0. */
static void move(input *y, const input *x, int down, int right)
{
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            for (int channel = 0; channel < CHANNELS; channel++) {
                const int r = row + down, c = column + right, inside = r >= 0 && r < ROWS && c >= 0 && c < COLUMNS;
                *y++ = inside ? x[(r * COLUMNS + c) * CHANNELS + channel] : 0;
            }
}

static float pixel(const input *x, int row, int column, int channel)
{
    const int inside = row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;
    return inside ? (float)x[(row * COLUMNS + column) * CHANNELS + channel] : 0.0f;
}

/* An image under an affine map, bilinear; what comes in at the border is 0, and so is what is erased. */
static void warp(input *y, const input *x, const float *affine, const int32_t *erased)
{
    const float half = (input)0.5f == 0 ? 0.5f : 0.0f; /* bytes are rounded */
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            const float r = fminf(fmaxf(affine[0] * (float)row + affine[1] * (float)column + affine[2], -1.0f), ROWS);
            const float c = fminf(fmaxf(affine[3] * (float)row + affine[4] * (float)column + affine[5], -1.0f), COLUMNS);
            const int top = (int)floorf(r), left = (int)floorf(c);
            const float down = r - (float)top, right = c - (float)left;
            const int seen = row < erased[0] || column < erased[1] || row >= erased[2] || column >= erased[3];
            for (int channel = 0; channel < CHANNELS; channel++) {
                const float above = (1.0f - right) * pixel(x, top, left, channel) + right * pixel(x, top, left + 1, channel);
                const float below = (1.0f - right) * pixel(x, top + 1, left, channel) + right * pixel(x, top + 1, left + 1, channel);
                *y++ = (input)(seen ? (1.0f - down) * above + down * below + half : 0.0f);
            }
        }
}

#ifndef GF_HEAD_LOSS /* all logits of a group are there */
static float loss_of_group(float *a, const float *p, const int32_t *labels, const float *share, float smoothing)
{
    (void)p;
    return cross_entropy(a + DLOGITS, a + LOGITS, labels, share, SAMPLES * GF_LABELS, CLASSES, smoothing);
}
#endif

/* Shards are added up in pairs, then pairs of pairs, into the first of them: by whoever has the second one ready. So the
 * sum is the same whoever it was, and most of it is still in its cache. */
static void add_to_others(training *all, int shard)
{
    const int shards = all->work->shards;
    for (int width = 1, level = 0; width < shards; width *= 2) {
        const int pair = shard / (2 * width), left = pair * 2 * width, right = left + width;
        if (right < shards) {
            if (atomic_fetch_add(&all->done[level + pair], 1) % 2 == 0) return; /* the first one; the other will add */
            float *sum = gradient_of(all->work, left);
            const float *other = gradient_of(all->work, right);
            for (int r = 0; r < SUMMED; r++)
                for (int i = summed[r][0]; i < summed[r][1]; i++) sum[i] += other[i];
        }
        shard = left;
        level += (shards + 2 * width - 1) / (2 * width);
    }
}

/* The samples of one shard of a step: their gradient, and their part of the loss. */
static void take_shard(training *all, int thread, int step, int shard)
{
    const job *work = all->work;
    float *transposed = all->own + (size_t)thread * OWN, *gradient = gradient_of(work, shard), loss = 0.0f;
    input *augmented = (input *)(transposed + ROUND_UP(TRANSPOSED));
    const int begin = step * work->batch, size = size_of(work, step);
    int from, to;
    if (all->transposed[thread] != step + 1) transpose_weights(transposed, work->params);
    all->transposed[thread] = step + 1;
    for (int i = 0; i < SUMMED; i++) memset(gradient + summed[i][0], 0, (size_t)(summed[i][1] - summed[i][0]) * sizeof *gradient);
    share_out(groups_of(size), shard, work->shards, &from, &to);
    for (int group = from; group < to; group++) {
        float *arena = all->arenas + (size_t)(KEPT_PARTS > 0 ? group : thread) * ARENA;
        const input *images[SAMPLES];
        int32_t labels[SAMPLES * GF_LABELS];
        float share[SAMPLES * GF_LABELS];
        for (int i = 0; i < SAMPLES; i++) {
            const int place = group * SAMPLES + i, exists = place < size, at = begin + (exists ? place : size - 1);
            const int32_t sample = work->order[at];
            images[i] = work->images + (size_t)sample * PIXELS;
            for (int l = 0; l < GF_LABELS; l++) {
                const size_t label = (size_t)sample * GF_LABELS + (size_t)l;
                labels[i * GF_LABELS + l] = work->labels[label];
                share[i * GF_LABELS + l] = !exists ? 0.0f : work->shares ? work->shares[label] : 1.0f / (float)size;
            }
            if (work->affine) warp(augmented + i * PIXELS, images[i], work->affine + 6 * (size_t)at, work->erased + 4 * (size_t)at);
            else if (work->shifts) move(augmented + i * PIXELS, images[i], work->shifts[2 * at], work->shifts[2 * at + 1]);
            if (work->affine || work->shifts) images[i] = augmented + i * PIXELS;
        }
        forward(arena, work->params, images);
        loss += loss_of_group(arena, work->params, labels, share, work->smoothing);
        backward(arena, gradient, work->params, transposed);
    }
    all->losses[shard] = loss;
    add_to_others(all, shard);
}

/* Columns of a large weight's gradient, or rows of a table's. */
static void take_part(training *all, int thread, int step, int part)
{
    const job *work = all->work;
    const int groups = groups_of(size_of(work, step));
    table_part rows = {.smoothing = work->smoothing, .work = all->own + (size_t)(thread + 1) * OWN - ROUND_UP(TABLE_WORK)};
    if (part < COLUMN_PARTS) take_columns(gradient_of(work, 0), all->arenas, groups, part);
    else take_rows(gradient_of(work, 0), work->params, all->arenas, groups, part - COLUMN_PARTS, &rows);
}

/* n parameters from `at` on, which are treated alike. */
static void update_span(const job *work, int step, const float *gradient, int at, int n, float factor, float decay)
{
    const float lr = work->rates[step] * factor;
    float *p = work->params + at;
    if (factor == 0.0f) return;
    if (work->optimiser == SGD) sgd(p, gradient + at, n, lr);
    else if (work->optimiser == MOMENTUM) momentum(p, work->m + at, gradient + at, n, lr, work->momentum);
    else
        adamw(p, work->m + at, work->v + at, gradient + at, n, lr, work->b1, work->b2, work->eps, decay,
              work->done + step - work->first + 1);
}

/* The span in which a parameter lies. */
static int span_of(const job *work, int at)
{
    int span = 0;
    while (work->ends[span] <= at) span++;
    return span;
}

static void update(const job *work, int step, const float *gradient, int from, int to)
{
    for (int at = from, end, span = span_of(work, from); at < to; at = end, span++) {
        end = work->ends[span] < to ? work->ends[span] : to;
        update_span(work, step, gradient, at, end - at, work->factors[span], work->decays[span]);
    }
    if (work->ema)
        for (int i = from; i < to; i++) work->ema[i] += work->renewed * (work->params[i] - work->ema[i]);
}

/* Of what learns: a frozen parameter's gradient counts for nothing. */
static double squares_of(const job *work, const float *gradient, int from, int to)
{
    double sum = 0.0;
    for (int at = from, end, span = span_of(work, from); at < to; at = end, span++) {
        end = work->ends[span] < to ? work->ends[span] : to;
        if (work->factors[span] != 0.0f) sum += sum_of_squares(gradient + at, end - at);
    }
    return sum;
}

static float loss_of(const training *all)
{
    float loss = 0.0f;
    for (int shard = 0; shard < all->work->shards; shard++) loss += all->losses[shard];
    return loss;
}

/* The phases of a step: columns and rows where there are any, squares where the gradient is clipped. */
enum { TAKE_SHARDS, TAKE_PARTS, SQUARES, UPDATE };

static int stages(const job *work) { return 2 + (KEPT_PARTS > 0) + (work->clip > 0.0f); }

static int stage_of(const job *work, int phase)
{
    const int stage = phase % stages(work);
    if (stage == TAKE_SHARDS) return stage;
    if (stage == stages(work) - 1) return UPDATE;
    return stage == 1 && KEPT_PARTS > 0 ? TAKE_PARTS : SQUARES;
}

static int items_of_step(void *argument, int phase)
{
    const training *all = argument;
    if (phase / stages(all->work) >= all->work->last - all->work->first) return 0;
    switch (stage_of(all->work, phase)) {
    case TAKE_SHARDS: return all->work->shards;
    case TAKE_PARTS: return KEPT_PARTS;
    default: return SLICES;
    }
}

static void take_item(void *argument, int thread, int phase, int item)
{
    training *all = argument;
    const job *work = all->work;
    const int step = work->first + phase / stages(work), stage = stage_of(work, phase);
    if (stage == TAKE_SHARDS) {
        take_shard(all, thread, step, item);
        return;
    }
    if (stage == TAKE_PARTS) {
        take_part(all, thread, step, item);
        return;
    }
    const int from = item * SLICE, to = from + SLICE < PARAMETERS ? from + SLICE : PARAMETERS;
    float *gradient = gradient_of(work, 0);
    if (stage == SQUARES) {
        all->squares[item] = squares_of(work, gradient, from, to);
        return;
    }
    if (work->clip > 0.0f) {
        double squares = 0.0;
        for (int i = 0; i < SLICES; i++) squares += all->squares[i];
        const float factor = clip_factor(squares, work->clip);
        for (int i = from; i < to; i++) gradient[i] *= factor;
    }
    update(work, step, gradient, from, to);
    if (item == 0) work->losses[step] = loss_of(all);
}

int gf_job_size(void) { return (int)sizeof(job); }

int64_t gf_training_space(const job *work)
{
    const int64_t arenas = KEPT_PARTS > 0 ? groups_of(work->batch) : work->threads;
    return (int64_t)work->shards * GRADIENT + arenas * ARENA + (int64_t)work->threads * OWN;
}

void gf_train(const job *work)
{
    training all = begin(work);
    in_phases(&all, items_of_step, take_item, work->threads);
}

/* The gradient of step `first`, and its loss. */
static int items_of_gradient(void *argument, int phase)
{
    const training *all = argument;
    return phase == 0 ? all->work->shards : phase == 1 ? KEPT_PARTS : 0;
}

static void take_gradient(void *argument, int thread, int phase, int item)
{
    training *all = argument;
    const int step = all->work->first;
    if (phase == 0) take_shard(all, thread, step, item);
    else take_part(all, thread, step, item);
}

void gf_gradient(const job *work, float *gradient)
{
    training all = begin(work);
    in_phases(&all, items_of_gradient, take_gradient, work->threads);
    work->losses[0] = loss_of(&all);
    memcpy(gradient, gradient_of(work, 0), PARAMETERS * sizeof *gradient);
}

#endif

#ifndef GF_HEAD_LOSS

/* Logits (count, GF_LABELS, CLASSES) of images (count, PIXELS), on this thread.  space: gf_space() floats. */
void gf_predict(float *logits, const float *params, const input *images, float *space, int64_t count)
{
    for (int64_t i = 0; i < count; i += SAMPLES) {
        const input *group[SAMPLES];
        const int64_t left = count - i < SAMPLES ? count - i : SAMPLES;
        for (int s = 0; s < SAMPLES; s++) group[s] = images + (i + (s < left ? s : left - 1)) * PIXELS;
        forward(space, params, group);
        memcpy(logits + i * GF_LABELS * CLASSES, space + LOGITS, (size_t)(left * GF_LABELS * CLASSES) * sizeof *logits);
    }
}

#endif

int gf_space(void) { return ARENA; }

#endif
