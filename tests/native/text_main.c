/* text_stack.h with arrays of exactly the size that is needed: under sanitizers. */
#include "text_stack.h"
#include <stdio.h>
#include <stdlib.h>

enum { B = 3, C = 100, H = 6, J = 2, D = 18, F = 130, L = 2, V = 71, CONTEXT = 37 }; /* every thread has panels */

static void *room(size_t bytes)
{
    void *made;
    if (posix_memalign(&made, 64, bytes)) exit(3);
    memset(made, 0, bytes);
    return made;
}

static char *weights;
static int64_t used;

/* A matrix of numbers from 0 to 0.1, in panels behind those before; without `weights` only its size is counted. */
static int64_t part(int K, int O, int kind)
{
    const int64_t at = used;
    used += gf_bytes_of_matrix(K, O, kind);
    if (!weights) return at;
    float *w = room((size_t)(K * O) * sizeof *w);
    for (int i = 0; i < K * O; i++) w[i] = 0.1f * (float)(i * 2654435761u % 1000) / 1000.0f;
    packing work = {weights + at, w, O, 1, K, O, kind, 2};
    gf_pack(&work);
    free(w);
    return at;
}

static void all_parts(int64_t *parts, int kind, int gated)
{
    for (int i = 0; i < (L + 1) * PARTS; i++) parts[i] = -1;
    for (int l = 0; l < L; l++, parts += PARTS) {
        parts[GAIN1] = part(1, C, 0), parts[BIAS1] = part(1, C, 0), parts[W_QKV] = part(C, H * D, kind);
        part(C, J * D, kind), part(C, J * D, kind);
        parts[GAIN_Q] = part(1, D, 0), parts[GAIN_K] = part(1, D, 0);
        parts[W_O] = part(H * D, C, kind), parts[B_O] = part(1, C, 0);
        parts[GAIN2] = part(1, C, 0), parts[BIAS2] = part(1, C, 0);
        if (gated) parts[W_GATE] = part(C, F, kind);
        parts[W_UP] = part(C, F, kind), parts[B_UP] = part(1, F, 0), parts[W_DOWN] = part(F, C, kind);
    }
    parts[GAIN1] = parts[GAIN2] = part(1, C, 0), parts[BIAS1] = parts[BIAS2] = part(1, C, 0);
    parts[W_QKV] = part(C, V, kind);
}

/* A model that writes, or, post-norm, an encoder: of one kind of weights. */
static int tried(int kind, int window, int post, int threads)
{
    const int slots = PANELS(window ? window + 32 : CONTEXT) * PANEL, lengths[B] = {20, 1, 11}, cache = kind ? BF16 : FLOAT32;
    int32_t owner[32], place[32], wanted[32], length[B];
    int64_t parts[(L + 1) * PARTS];
    const size_t heads = (size_t)(L * B * J), size = cache == BF16 ? 2 : 4;
    weights = NULL, used = 0;
    all_parts(parts, kind, !post);
    weights = room((size_t)used), used = 0;
    all_parts(parts, kind, !post);
    float *rotations = room(CONTEXT * D * sizeof *rotations), *y = room(B * sizeof *y * (size_t)(post ? C : PANELS(V) * PANEL));
    char *keys = room(heads * size * (size_t)(slots * D)), *values = room(heads * size * (size_t)(PANELS(D) * PANEL * slots));
    text_work work = {.weights = weights, .parts = parts, .rotations = rotations, .keys = keys, .values = values, .y = y,
                      .owner = owner, .place = place, .wanted = wanted, .length = post ? length : NULL, .tokens = 32,
                      .wants = B, .sequences = B, .slots = slots, .width = C, .heads = H, .key_heads = J, .head_width = D,
                      .hidden = F, .depth = L, .vocabulary = post ? 0 : V, .kind = kind, .cache_kind = cache,
                      .cache_layers = post ? 1 : L, .norm = post ? LAYER_NORM : RMS_NORM, .post_norm = post,
                      .window = window, .threads = threads, .eps = 1e-5f, .head_eps = 1e-5f, .scale = 0.4f};
    int n = 0, good = 1;
    for (int b = 0; b < B; b++)
        for (int t = 0; t < lengths[b]; t++, n++) owner[n] = b, place[n] = t;
    for (int b = 0; b < B; b++) length[b] = lengths[b];
    wanted[0] = 19, wanted[1] = 20, wanted[2] = 31;
    for (int step = 0; step < (post ? 1 : CONTEXT - 20); step++) {
        float *x = room((size_t)(work.tokens * C) * sizeof *x);
        for (int i = 0; i < work.tokens * C; i++) x[i] = (float)(i % 17) - 8.0f;
        work.x = x, work.activation = step % 4;
        work.space = room((size_t)gf_text_space(&work) * sizeof(float));
        gf_text_stack(&work);
        for (int i = 0; i < B * (post ? C : PANELS(V) * PANEL); i++) good &= isfinite(y[i]) != 0;
        free(x), free(work.space);
        work.tokens = B;
        for (int b = 0; b < B; b++) owner[b] = wanted[b] = b, place[b] = lengths[b] + step;
    }
    free(keys), free(values), free(weights), free(rotations), free(y);
    return good;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    for (int kind = FLOAT32; kind <= INT8; kind++)
        for (int post = 0; post < 2; post++)
            if (!tried(kind, post ? 0 : 5 * kind, post, threads)) return 1;
    return 0;
}
