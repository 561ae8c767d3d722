/* Attention by rows of tiles, every head by itself (layers/attention.py, grouped_query.py): scores of ATTENTION_ROWS
 * tokens are there at a time, never all T x T of them. Forward keeps the logarithm of each row's sum, from which backward
 * computes the same weights again.
 * B samples, T tokens, H heads of width D, which share J heads of keys and values; q and z lie as (B, T, H, D), k and v as
 * (B, T, J, D). causal: a token sees itself and what came before, and tiles behind it are left out. window, if above 0: it
 * sees those less than so many places away, and tiles further off are left out.
 * unseen (B, SOURCES(T)) or NULL is added to scores: 0, or -infinity at padding. A row that sees nothing gives zeros.
 * rate: of weights that are dropped out, by keys (B, words) or NULL, of which this layer is number `layer` (dropout.h). */
#ifndef GF_TILED_ATTENTION_H
#define GF_TILED_ATTENTION_H

#include "dropout.h"
#include "exp.h"
#include "matmul.h"
#include "transpose.h"

#define ATTENTION_ROWS 32
#define SOURCES(n) (((n) + 2 * LANES - 1) / (2 * LANES) * (2 * LANES)) /* whole pairs of vectors, as a tile takes them */

/* y (SOURCES(T) of each of the D rows)  <-  the transpose of x (T, D) with rows of x_row; zeros behind T. */
INLINE void transposed_head(float *y, const float *x, int x_row, int T, int D)
{
    for (int d = 0; d < D; d++)
        for (int t = T; t < SOURCES(T); t++) y[d * SOURCES(T) + t] = 0.0f;
    transpose(y, SOURCES(T), x, x_row, T, D);
}

/* y (R, S)  <-  x (R, D) with rows of x_row @ w (D, S).  S is one of whole pairs of vectors. */
INLINE void tile_products(float *y, const float *x, int x_row, const float *w, int row, int R, int D, int S)
{
    for (int s = 0; s < S; s += 2 * LANES)
        matmul_columns(y + s, row, NULL, 0, x, x_row, 1, w + s, row, R, D, 2, LANES);
}

/* Up to which source the rows up to `last` see. */
INLINE int seen_by(int last, int T, int causal, int window)
{
    const int end = causal ? last : window ? last - 1 + window : T;
    return end < T ? end : T;
}

/* From which source rows from `first` on see, and up to which: in whole tiles. */
INLINE int tiles_from(int first, int window)
{
    return window && first >= window ? (first - window + 1) / ATTENTION_ROWS * ATTENTION_ROWS : 0;
}
INLINE int tiles_to(int last, int T, int causal, int window)
{
    const int end = seen_by(last, T, causal, window);
    const int whole = causal || !window ? end : (end + ATTENTION_ROWS - 1) / ATTENTION_ROWS * ATTENTION_ROWS;
    return whole < T ? whole : T;
}

/* The first n scores are outside the window. */
INLINE void hide_first(float *scores, int n)
{
    for (int s = 0; s < n; s++) scores[s] = -INFINITY;
}

/* Which of a head's T x T weights are dropped: its keys, and the place of its first weight among those of the batch. */
typedef struct {
    uint32_t key0, key1;
    uint64_t place;
    float kept;
} attention_drops;

INLINE attention_drops drops_of(const float *keys, int words, int layer, int b, int h, int T, int H, float rate)
{
    if (!keys) return (attention_drops){0, 0, 0, 1.0f};
    const float *own = keys + b * words;
    const uint64_t head = (uint64_t)id_at(own, 0) * (uint64_t)H + (uint64_t)h;
    return (attention_drops){(uint32_t)id_at(own, 1 + 2 * layer), (uint32_t)id_at(own, 2 + 2 * layer),
                             head * (uint64_t)T * (uint64_t)T, 1.0f - rate};
}

/* What weights of token t from source s on are multiplied by: 0, or 1 over the share that is kept. */
INLINE vec drop_factor(attention_drops drops, int t, int s, int T)
{
    const vec u = vec_uniform(drops.key0, drops.key1, drops.place + (uint64_t)t * (uint64_t)T + (uint64_t)s);
    return vec_select(vec_less(u, vec_all(drops.kept)), vec_all(1.0f / drops.kept), vec_all(0.0f));
}

/* The scores of one row, scaled, with what it does not see at -infinity. */
INLINE vec visible(const float *scores, const float *unseen, int s, int seen, float scale)
{
    vec v = vec_load(scores + s) * vec_all(scale);
    if (unseen) v += vec_load(unseen + s);
    return s + LANES > seen ? vec_fill_from(v, seen - s > 0 ? seen - s : 0, -INFINITY) : v;
}

/* scores (S)  <-  their softmax, and the logarithm of its sum is returned; infinity where nothing is seen. */
INLINE float row_softmax(float *scores, const float *unseen, int seen, int S, float scale)
{
    const int end = (seen + LANES - 1) / LANES * LANES;
    vec highest = vec_all(-INFINITY), total = vec_all(0.0f);
    for (int s = 0; s < end; s += LANES) {
        const vec v = visible(scores, unseen, s, seen, scale);
        vec_store(scores + s, v);
        highest = vec_max(highest, v);
    }
    const float top = vec_highest(highest), shift = top == -INFINITY ? 0.0f : top;
    for (int s = 0; s < end; s += LANES) {
        const vec weight = vec_exp(vec_load(scores + s) - vec_all(shift));
        vec_store(scores + s, weight);
        total += weight;
    }
    const float sum = vec_sum(total), share = 1.0f / (sum == 0.0f ? 1.0f : sum);
    for (int s = 0; s < end; s += LANES) vec_store(scores + s, vec_load(scores + s) * vec_all(share));
    for (int s = end; s < S; s += LANES) vec_store(scores + s, vec_all(0.0f));
    return sum == 0.0f ? INFINITY : shift + logf(sum);
}

/* R rows of one head from row `first` on: z, and the logarithms of their sums. */
INLINE void attention_rows_forward(float *z, float *log_sum, float *scores, const float *q, const float *k_t,
                                   const float *v, const float *unseen, attention_drops drops, int first, int R, int T,
                                   int H, int J, int D, int causal, int window, float scale, float rate)
{
    const int from = tiles_from(first, window), seen = tiles_to(first + R, T, causal, window) - from;
    const int S = SOURCES(seen), row = SOURCES(T);
    tile_products(scores, q + first * H * D, H * D, k_t + from, row, R, D, S);
    for (int t = first; t < first + R; t++) {
        float *own = scores + (t - first) * row;
        if (window) hide_first(own, t - window + 1 - from);
        log_sum[t] = row_softmax(own, unseen ? unseen + from : NULL, seen_by(t + 1, T, causal, window) - from, S, scale);
        for (int s = 0; rate > 0.0f && s < S; s += LANES)
            vec_store(own + s, vec_load(own + s) * drop_factor(drops, t, from + s, T));
    }
    matmul(z + first * H * D, H * D, NULL, 0, scores, row, 1, v + from * J * D, J * D, R, seen, D);
}

/* z (B, T, H, D), cache log_sum (B, H, T)  <-  q, k, v, unseen or NULL, keys or NULL.  Overwrites its outputs.
 * work: (D + ATTENTION_ROWS) * SOURCES(T) floats. */
INLINE void tiled_attention_forward(float *z, float *log_sum, float *work, const float *q, const float *k,
                                    const float *v, const float *unseen, const float *keys, int B, int T, int H, int J,
                                    int D, int causal, int window, float scale, int words, int layer, float rate)
{
    float *k_t = work, *scores = work + D * SOURCES(T);
    const int rest = T % ATTENTION_ROWS;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++, log_sum += T) {
            const int own = b * T * H * D + h * D, shared = b * T * J * D + h / (H / J) * D;
            const float *hidden = unseen ? unseen + b * SOURCES(T) : NULL;
            const attention_drops drops = drops_of(keys, words, layer, b, h, T, H, rate);
            if (h % (H / J) == 0) transposed_head(k_t, k + shared, J * D, T, D);
            for (int t = 0; t + ATTENTION_ROWS <= T; t += ATTENTION_ROWS)
                attention_rows_forward(z + own, log_sum, scores, q + own, k_t, v + shared, hidden, drops, t, ATTENTION_ROWS, T,
                                       H, J, D, causal, window, scale, rate);
            if (rest)
                attention_rows_forward(z + own, log_sum, scores, q + own, k_t, v + shared, hidden, drops, T - rest, rest, T, H,
                                       J, D, causal, window, scale, rate);
        }
}

/* y (seen, D) with rows of y_row  +=  w (R, seen)^T with rows of w_row @ x (R, D) with rows of x_row.  Adds. By as many rows
 * at a time as a tile has, so that the compiler knows how many; rest: how many are left over where the text ends. */
INLINE void add_to_sources(float *y, int y_row, const float *w, int w_row, const float *x, int x_row, int seen, int rest,
                           int R, int D)
{
    for (int s = 0; s + ATTENTION_ROWS <= seen; s += ATTENTION_ROWS)
        matmul(y + s * y_row, y_row, y + s * y_row, y_row, w + s, 1, w_row, x, x_row, ATTENTION_ROWS, R, D);
    const int s = seen - rest;
    if (rest && seen % ATTENTION_ROWS) matmul(y + s * y_row, y_row, y + s * y_row, y_row, w + s, 1, w_row, x, x_row, rest, R, D);
}

/* R rows of one head from row `first` on: dq, and what they add to dk and dv. */
INLINE void attention_rows_backward(float *dq, float *dk, float *dv, float *pattern, float *dscores, const float *q,
                                    const float *k, const float *k_t, const float *v_t, const float *log_sum,
                                    const float *dz, const float *unseen, attention_drops drops, int first, int R, int T,
                                    int H, int J, int D, int causal, int window, float scale, float rate)
{
    const int from = tiles_from(first, window), seen = tiles_to(first + R, T, causal, window) - from;
    const int S = SOURCES(seen), row = SOURCES(T), at = first * H * D;
    const int rest = causal && R == ATTENTION_ROWS ? 0 : T % ATTENTION_ROWS;
    const float *hidden = unseen ? unseen + from : NULL;
    tile_products(pattern, q + at, H * D, k_t + from, row, R, D, S);
    tile_products(dscores, dz + at, H * D, v_t + from, row, R, D, S); /* z = drop(pattern) @ v */
    for (int r = 0; r < R; r++) { /* pattern = softmax(q @ k^T * scale) */
        float *p = pattern + r * row, *d = dscores + r * row;
        const int own = seen_by(first + r + 1, T, causal, window) - from, end = (own + LANES - 1) / LANES * LANES;
        vec total = vec_all(0.0f);
        if (window) hide_first(p, first + r - window + 1 - from);
        for (int s = 0; s < end; s += LANES) {
            const vec weight = vec_exp(visible(p, hidden, s, own, scale) - vec_all(log_sum[first + r]));
            if (rate > 0.0f) vec_store(d + s, vec_load(d + s) * drop_factor(drops, first + r, from + s, T));
            vec_store(p + s, weight);
            total += weight * vec_load(d + s);
        }
        const vec sum = vec_all(vec_sum(total));
        for (int s = 0; s < end; s += LANES)
            vec_store(d + s, vec_load(p + s) * (vec_load(d + s) - sum) * vec_all(scale));
        for (int s = 0; rate > 0.0f && s < end; s += LANES)
            vec_store(p + s, vec_load(p + s) * drop_factor(drops, first + r, from + s, T));
        for (int s = end; s < S; s += LANES) {
            vec_store(p + s, vec_all(0.0f));
            vec_store(d + s, vec_all(0.0f));
        }
    }
    matmul(dq + at, H * D, NULL, 0, dscores, row, 1, k + from * J * D, J * D, R, seen, D);
    add_to_sources(dk + from * J * D, J * D, dscores, row, q + at, H * D, seen, rest, R, D);
    add_to_sources(dv + from * J * D, J * D, pattern, row, dz + at, H * D, seen, rest, R, D);
}

/* dq (B, T, H, D), dk, dv (B, T, J, D)  <-  q, k, v, log_sum, dz, unseen or NULL, keys or NULL.  Overwrites its outputs.
 * work: 2 * (D + ATTENTION_ROWS) * SOURCES(T) floats. */
INLINE void tiled_attention_backward(float *dq, float *dk, float *dv, float *work, const float *q, const float *k,
                                     const float *v, const float *log_sum, const float *dz, const float *unseen,
                                     const float *keys, int B, int T, int H, int J, int D, int causal, int window,
                                     float scale, int words, int layer, float rate)
{
    float *k_t = work, *v_t = k_t + D * SOURCES(T), *pattern = v_t + D * SOURCES(T);
    float *dscores = pattern + ATTENTION_ROWS * SOURCES(T);
    const int rest = T % ATTENTION_ROWS;
    memset(dk, 0, (size_t)B * T * J * D * sizeof *dk);
    memset(dv, 0, (size_t)B * T * J * D * sizeof *dv);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++, log_sum += T) {
            const int own = b * T * H * D + h * D, shared = b * T * J * D + h / (H / J) * D;
            const float *hidden = unseen ? unseen + b * SOURCES(T) : NULL;
            const attention_drops drops = drops_of(keys, words, layer, b, h, T, H, rate);
            if (h % (H / J) == 0) {
                transposed_head(k_t, k + shared, J * D, T, D);
                transposed_head(v_t, v + shared, J * D, T, D);
            }
            for (int t = 0; t + ATTENTION_ROWS <= T; t += ATTENTION_ROWS)
                attention_rows_backward(dq + own, dk + shared, dv + shared, pattern, dscores, q + own, k + shared, k_t, v_t,
                                        log_sum, dz + own, hidden, drops, t, ATTENTION_ROWS, T, H, J, D, causal, window,
                                        scale, rate);
            if (rest)
                attention_rows_backward(dq + own, dk + shared, dv + shared, pattern, dscores, q + own, k + shared, k_t, v_t,
                                        log_sum, dz + own, hidden, drops, T - rest, rest, T, H, J, D, causal, window, scale,
                                        rate);
        }
}

#endif
