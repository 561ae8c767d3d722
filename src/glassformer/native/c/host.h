/* The host's side of a generated model: samples are shared out to threads, gradients summed, parameters updated.
 *
 * Each thread takes its samples forward and backward, SAMPLES at a time, while they are in its own cache, and sums
 * gradients by itself. Then all meet, and each adds up and updates its slice of the parameters. Who does what depends on
 * the number of threads alone, so a run repeats to the bit. Memory comes from the caller: nothing is allocated here. */
#ifndef GF_HOST_H
#define GF_HOST_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "cross_entropy.h"
#include "optimisers.h"

#ifndef GF_INPUT
#define GF_INPUT uint8_t
#endif
typedef GF_INPUT input; /* a pixel, or a number of a row */

enum { SGD, MOMENTUM, ADAMW };
enum { MOST_THREADS = 256 };

typedef struct {
    const input *images;    /* (samples, PIXELS) */
    const int32_t *labels;  /* (samples) */
    const int32_t *order;   /* (count): which sample comes when */
    const int32_t *shifts;  /* (count, 2): rows and columns by which each is moved, or NULL */
    const float *rates;     /* (last): learning rate of each step */
    float *params, *m, *v;  /* (PARAMETERS) each; m and v where the optimiser has them */
    float *losses;          /* (last) */
    float *space;           /* threads * space_per_thread() floats, aligned to 64 bytes */
    int32_t count, batch;   /* samples in an epoch, and in a step but for the last */
    int32_t first, last;    /* steps of this call, the last one not included */
    int32_t done;           /* updates before this call, which Adam counts */
    int32_t threads, optimiser;
    int32_t patience;       /* how often a thread that waits for the others looks before it lets somebody else run */
    float smoothing, momentum, eps, weight_decay, clip;
    double b1, b2;
} job;

#define ROUND_UP(n) (((n) + 15) / 16 * 16)
enum { BYTES = ROUND_UP((SAMPLES * PIXELS * (int)sizeof(input) + 3) / 4), GRADIENT = ROUND_UP(PARAMETERS) };

#ifndef GF_FORWARD_ONLY

typedef struct {
    atomic_uint arrived, round;
    unsigned size;
    int patience;
} barrier;

/* Wait until all threads are here. Steps take fractions of a millisecond: looking again and again is quicker than
 * sleeping, and who gives up his core on a busy machine has to wait for it. But where threads outnumber cores, the ones
 * waited for must get their turn. */
static void barrier_wait(barrier *all)
{
    if (all->size == 1) return;
    const unsigned round = atomic_load(&all->round);
    if (atomic_fetch_add(&all->arrived, 1) + 1 == all->size) {
        atomic_store(&all->arrived, 0);
        atomic_fetch_add(&all->round, 1);
        return;
    }
    for (int looks = 0; atomic_load(&all->round) == round;) {
        if (looks < all->patience) looks++;
        else sched_yield();
    }
}

/* Slice `part` of `parts` of n things: [*from, *to). */
static void share_out(int n, int part, int parts, int *from, int *to)
{
    *from = (int)((int64_t)n * part / parts);
    *to = (int)((int64_t)n * (part + 1) / parts);
}

typedef struct worker {
    const job *work;
    void *(*take)(struct worker *);
    atomic_int *gate;
    barrier *all;
    float *losses;    /* (threads): each one's part of the loss */
    double *squares;  /* (threads): each one's part of the gradient's squared norm */
    int part;
} worker;

enum { SPACE = ROUND_UP(ARENA) + GRADIENT + ROUND_UP(TRANSPOSED) + BYTES };

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

/* This thread's samples of one step: their gradient is added to `gradient`, their part of the loss is returned. */
static float own_samples(const job *work, int step, int part, float *space)
{
    float *arena = space, *gradient = space + ROUND_UP(ARENA), *transposed = gradient + GRADIENT;
    input *moved = (input *)(transposed + ROUND_UP(TRANSPOSED));
    const int begin = step * work->batch, rest = work->count - begin, size = rest < work->batch ? rest : work->batch;
    int from, to;
    float loss = 0.0f;
    share_out((size + SAMPLES - 1) / SAMPLES, part, work->threads, &from, &to);
    for (int group = from; group < to; group++) {
        const input *images[SAMPLES];
        int32_t labels[SAMPLES];
        float share[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) {
            const int place = group * SAMPLES + i, exists = place < size, at = begin + (exists ? place : size - 1);
            const int32_t sample = work->order[at];
            images[i] = work->images + (size_t)sample * PIXELS;
            labels[i] = work->labels[sample];
            share[i] = exists ? 1.0f / (float)size : 0.0f;
            if (work->shifts) {
                move(moved + i * PIXELS, images[i], work->shifts[2 * at], work->shifts[2 * at + 1]);
                images[i] = moved + i * PIXELS;
            }
        }
        forward(arena, work->params, images);
        loss += cross_entropy(arena + DLOGITS, arena + LOGITS, labels, share, SAMPLES, CLASSES, work->smoothing);
        backward(arena, gradient, work->params, transposed);
    }
    return loss;
}

/* Slice [from, to) of the gradient, summed over the threads into that of the first. */
static float *summed(const job *work, int from, int to)
{
    float *sum = work->space + ROUND_UP(ARENA);
    for (int t = 1; t < work->threads; t++) {
        const float *other = sum + (size_t)t * SPACE;
        for (int i = from; i < to; i++) sum[i] += other[i];
    }
    return sum;
}

static void update(const job *work, int step, float *gradient, int from, int to)
{
    const int n = to - from;
    const float lr = work->rates[step];
    float *p = work->params + from, *g = gradient + from;
    if (work->optimiser == SGD) sgd(p, g, n, lr);
    else if (work->optimiser == MOMENTUM) momentum(p, work->m + from, g, n, lr, work->momentum);
    else
        adamw(p, work->m + from, work->v + from, g, n, lr, work->b1, work->b2, work->eps, work->weight_decay,
              work->done + step - work->first + 1);
}

static void *take_steps(worker *own)
{
    const job *work = own->work;
    float *space = work->space + (size_t)own->part * SPACE;
    int from, to;
    share_out(PARAMETERS, own->part, work->threads, &from, &to);
    for (int step = work->first; step < work->last; step++) {
        memset(space + ROUND_UP(ARENA), 0, PARAMETERS * sizeof *space);
        transpose_weights(space + ROUND_UP(ARENA) + GRADIENT, work->params);
        own->losses[own->part] = own_samples(work, step, own->part, space);
        barrier_wait(own->all);
        float *gradient = summed(work, from, to);
        if (work->clip > 0.0f) {
            double squares = 0.0;
            own->squares[own->part] = sum_of_squares(gradient + from, to - from);
            barrier_wait(own->all);
            for (int t = 0; t < work->threads; t++) squares += own->squares[t];
            const float factor = clip_factor(squares, work->clip);
            for (int i = from; i < to; i++) gradient[i] *= factor;
        }
        update(work, step, gradient, from, to);
        if (own->part == 0) {
            work->losses[step] = 0.0f;
            for (int t = 0; t < work->threads; t++) work->losses[step] += own->losses[t];
        }
        barrier_wait(own->all);
    }
    return NULL;
}

enum { WAIT, GO, LEAVE };

static void *when_all_are_there(void *argument)
{
    worker *own = argument;
    int word;
    while ((word = atomic_load(own->gate)) == WAIT) sched_yield();
    return word == GO ? own->take(own) : NULL;
}

/* Runs `take` on every thread; the caller is one of them. If a thread cannot be had, nothing is done: 1 is returned. */
static int on_threads(const job *work, void *(*take)(worker *))
{
    float losses[MOST_THREADS];
    double squares[MOST_THREADS];
    pthread_t others[MOST_THREADS];
    worker workers[MOST_THREADS];
    atomic_int gate = WAIT;
    barrier all = {0, 0, (unsigned)work->threads, work->patience};
    int there = 1;
    if (work->threads > MOST_THREADS) return 1;
    for (int t = 0; t < work->threads; t++) workers[t] = (worker){work, take, &gate, &all, losses, squares, t};
    while (there < work->threads && !pthread_create(&others[there], NULL, when_all_are_there, &workers[there])) there++;
    atomic_store(&gate, there == work->threads ? GO : LEAVE);
    if (there == work->threads) take(&workers[0]);
    for (int t = 1; t < there; t++) pthread_join(others[t], NULL);
    return there < work->threads;
}

int gf_job_size(void) { return (int)sizeof(job); }

int gf_train(const job *work) { return on_threads(work, take_steps); }

/* The gradient of step `first`, summed over all threads, as it lies in the first one's space; and its loss. */
static void *take_gradient(worker *own)
{
    float *space = own->work->space + (size_t)own->part * SPACE;
    int from, to;
    memset(space + ROUND_UP(ARENA), 0, PARAMETERS * sizeof *space);
    transpose_weights(space + ROUND_UP(ARENA) + GRADIENT, own->work->params);
    own->losses[own->part] = own_samples(own->work, own->work->first, own->part, space);
    barrier_wait(own->all);
    share_out(PARAMETERS, own->part, own->work->threads, &from, &to);
    summed(own->work, from, to);
    if (own->part == 0) {
        own->work->losses[0] = 0.0f;
        for (int t = 0; t < own->work->threads; t++) own->work->losses[0] += own->losses[t];
    }
    return NULL;
}

int gf_gradient(const job *work, float *gradient)
{
    const int failed = on_threads(work, take_gradient);
    if (!failed) memcpy(gradient, work->space + ROUND_UP(ARENA), PARAMETERS * sizeof *gradient);
    return failed;
}

#else
enum { SPACE = ROUND_UP(ARENA) + BYTES };
#endif

/* Logits (count, CLASSES) of images (count, PIXELS), on this thread.  space: space_per_thread() floats. */
void gf_predict(float *logits, const float *params, const input *images, float *space, int64_t count)
{
    for (int64_t i = 0; i < count; i += SAMPLES) {
        const input *group[SAMPLES];
        const int64_t left = count - i < SAMPLES ? count - i : SAMPLES;
        for (int s = 0; s < SAMPLES; s++) group[s] = images + (i + (s < left ? s : left - 1)) * PIXELS;
        forward(space, params, group);
        memcpy(logits + i * CLASSES, space + LOGITS, (size_t)(left * CLASSES) * sizeof *logits);
    }
}

int gf_space(void) { return SPACE; }

#endif
