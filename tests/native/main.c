/* A generated model is included before this: train it in every way for a few steps, then predict.
 * Arrays have exactly the size that host.h asks for, so that a sanitizer sees every step too far.
 * Returns 0 if all numbers are finite and the weights have moved. */
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 11, BATCH = 4, STEPS = 3, SHARDS = 3 };

static void *room(size_t bytes)
{
    void *made;
    if (posix_memalign(&made, 64, bytes)) exit(3);
    return memset(made, 0, bytes);
}

static uint32_t drawn(void) /* xorshift */
{
    static uint32_t x = 2463534242u;
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return x >> 8;
}

static int all_finite(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

#ifndef GF_FORWARD_ONLY
static int learn(job *work)
{
    float *before = room(PARAMETERS * sizeof *before), *gradient = room(PARAMETERS * sizeof *gradient);
    float first = 0.0f;
    int good = 1;
    memcpy(before, work->params, PARAMETERS * sizeof *before);
    for (work->optimiser = SGD; work->optimiser <= ADAMW; work->optimiser++) {
        memcpy(work->params, before, PARAMETERS * sizeof *before);
        memset(work->m, 0, PARAMETERS * sizeof *work->m);
        memset(work->v, 0, PARAMETERS * sizeof *work->v);
        for (int epoch = 0; epoch < 4; epoch++) {
            work->done = epoch * STEPS;
            work->clip = epoch % 2 ? 0.5f : 0.0f;
            gf_train(work);
            good &= all_finite(work->losses, STEPS);
            if (epoch == 0) first = work->losses[0];
        }
        printf("optimiser %d: loss %.6f to %.6f\n", (int)work->optimiser, (double)first, (double)work->losses[0]);
        good &= memcmp(before, work->params, PARAMETERS * sizeof *before) != 0;
    }
    gf_gradient(work, gradient);
    good &= all_finite(gradient, PARAMETERS);
    free(before), free(gradient);
    return good;
}
#endif

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    (void)threads;
    input *images = room(COUNT * PIXELS * sizeof *images);
    float *params = room(PARAMETERS * sizeof *params), *logits = room(COUNT * GF_LABELS * CLASSES * sizeof *logits);
    float *space = room((size_t)gf_space() * sizeof *space);
    int good = 1;
    const int is_text = _Generic((input)0, int32_t: 1, default: 0); /* small words: ids, yes or no, a place, keys */
    for (int i = 0; i < COUNT * PIXELS; i++) images[i] = (input)(is_text ? drawn() % 3 : drawn() & 255);
    for (int i = 0; i < PARAMETERS; i++) params[i] = 0.2f * ((float)drawn() / 8388608.0f - 1.0f);
#ifndef GF_FORWARD_ONLY
    int32_t *labels = room(COUNT * GF_LABELS * sizeof *labels), *order = room(COUNT * sizeof *order);
    int32_t *shifts = room(COUNT * 2 * sizeof *shifts), *erased = room(COUNT * 4 * sizeof *erased);
    float *affine = room(COUNT * 6 * sizeof *affine);
    float *m = room(PARAMETERS * sizeof *m), *v = room(PARAMETERS * sizeof *v), *ema = room(PARAMETERS * sizeof *ema);
    float *shares = room(COUNT * GF_LABELS * sizeof *shares);
    float *rates = room(STEPS * sizeof *rates), *losses = room(STEPS * sizeof *losses);
    for (int i = 0; i < COUNT * GF_LABELS; i++) labels[i] = i % CLASSES, shares[i] = i % 3 ? 0.1f : 0.0f;
    for (int i = 0; i < COUNT; i++) {
        order[i] = COUNT - 1 - i;
        shifts[2 * i] = i % 5 - 2;
        shifts[2 * i + 1] = i % 3 - 1;
        for (int k = 0; k < 6; k++) affine[6 * i + k] = (float)drawn() / 8388608.0f - 1.0f; /* far outside, too */
        affine[6 * i + 5] *= i % 2 ? 1e30f : 1.0f;
        erased[4 * i + 2] = i % (ROWS + 1), erased[4 * i + 3] = COLUMNS;
    }
    for (int i = 0; i < STEPS; i++) rates[i] = 0.02f;
    int32_t *ends = room(3 * sizeof *ends);
    float *factors = room(3 * sizeof *factors), *decays = room(3 * sizeof *decays); /* decayed, frozen, slower */
    factors[0] = 1.0f, factors[2] = 0.5f, decays[0] = 0.01f;
    ends[0] = PARAMETERS / 3, ends[1] = PARAMETERS / 2, ends[2] = PARAMETERS;
    job work = {.images = images, .labels = labels, .order = order, .rates = rates, .ends = ends, .factors = factors, .decays = decays, .params = params,
                .m = m, .v = v, .losses = losses, .count = COUNT, .batch = BATCH, .last = STEPS, .threads = threads, .shards = SHARDS,
                .smoothing = 0.1f, .momentum = 0.5f, .b1 = 0.9f, .b2 = 0.99f, .eps = 1e-8f, .ema = ema, .renewed = 0.1f};
    work.space = room((size_t)gf_training_space(&work) * sizeof *work.space);
    good &= learn(&work);
#if GF_LABELS == 1
    work.shifts = shifts;
    good &= learn(&work);
    work.affine = affine, work.erased = erased;
    good &= learn(&work);
#else
    work.shares = shares;
    good &= learn(&work);
#endif
    free(ema), free(shares), free(factors), free(decays);
    free(labels), free(order), free(shifts), free(erased), free(affine), free(m), free(v), free(rates), free(ends), free(losses), free(work.space);
#endif
#ifndef GF_HEAD_LOSS
    gf_predict(logits, params, images, space, COUNT);
#endif
    good &= all_finite(logits, COUNT * GF_LABELS * CLASSES);
    free(images), free(params), free(logits), free(space);
    return good ? 0 : 1;
}
