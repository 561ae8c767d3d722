/* Attention with a KV cache (layers/grouped_query.py, models/kv_cache.py): keys and values of a text lie in panels, so that
 * scores and what is found with them are products as with weights.
 *
 *   a head's keys    (D, slots)  as panels (slots / PANEL, D, PANEL)
 *   a head's values  (slots, D)  as panels (PANELS(D), slots, PANEL)
 *
 * Token t lies in slot t % slots. With a window the cache may have fewer slots than there are tokens: a ring, of which a
 * panel of places is always a panel of slots. Queries of several heads that share their keys are rows of one product. */
#ifndef GF_CACHED_ATTENTION_H
#define GF_CACHED_ATTENTION_H

#include "softmax.h"
#include "text_norm.h"
#include "text_work.h"

INLINE size_t bytes_of(int kind) { return kind == BF16 ? 2 : 4; }
INLINE size_t keys_of_head(const text_work *work) { return (size_t)work->slots * work->head_width; }
INLINE size_t values_of_head(const text_work *work) { return (size_t)PANELS(work->head_width) * PANEL * work->slots; }

/* Which head of the cache, counted over layers and texts. */
INLINE size_t cached_head(const text_work *work, int l, int owner, int j)
{
    return ((size_t)(l % work->cache_layers) * work->sequences + owner) * work->key_heads + j;
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

/* to (D, with `step` between) of the cache  <-  x (D) */
INLINE void put(char *cache, size_t to, size_t step, const float *x, int D, int kind)
{
    if (kind == BF16)
        for (int d = 0; d < D; d++) ((uint16_t *)cache)[to + d * step] = to_bf16(x[d]);
    else
        for (int d = 0; d < D; d++) ((float *)cache)[to + d * step] = x[d];
}

/* Token n of block l: q and k normed and rotated, k and v into the cache. */
static inline void remember_token(const text_buffers *own, int l, int n)
{
    const text_work *work = own->work;
    const qkv_row row = qkv_of(work);
    const int D = work->head_width, t = work->place[n], slot = t % work->slots;
    const float *rotation = work->rotations ? work->rotations + (size_t)t * D : NULL;
    const float *gain_q = floats_of(work, l, GAIN_Q), *gain_k = floats_of(work, l, GAIN_K);
    float *at = own->qkv + (size_t)n * row.row;
    for (int h = 0; h < work->heads; h++) {
        if (gain_q) rms_norm_token(at + row.q + h * D, gain_q, at + row.q + h * D, D, work->head_eps);
        if (rotation) rotate_halves(at + row.q + h * D, rotation, D);
    }
    for (int j = 0; j < work->key_heads; j++) {
        float *k = at + row.k + j * D;
        const size_t head = cached_head(work, l, work->owner[n], j);
        if (gain_k) rms_norm_token(k, gain_k, k, D, work->head_eps);
        if (rotation) rotate_halves(k, rotation, D);
        put(work->keys, head * keys_of_head(work) + (size_t)(slot / PANEL) * D * PANEL + slot % PANEL, PANEL, k, D,
            work->cache_kind);
        for (int d = 0; d < D; d += PANEL)
            put(work->values, head * values_of_head(work) + ((size_t)(d / PANEL) * work->slots + slot) * PANEL, 1,
                at + row.v + j * D + d, D - d < PANEL ? D - d : PANEL, work->cache_kind);
    }
}

/* The attention weights of R queries in own->scores, from place `first` on (the beginning of a panel) to place S. Query r
 * stands at place + r * step. */
static inline void attention_weights(const text_buffers *own, const float *q, int q_row, const char *keys, int R,
                                     int place, int step, int first, int S)
{
    const text_work *work = own->work;
    const int D = work->head_width, row = work->slots + PANEL, kind = work->cache_kind;
    for (int p = first / PANEL; p < PANELS(S); p++)
        panel_product(own->scores + p * PANEL - first, row,
                      keys + (size_t)(p * PANEL % work->slots) * D * bytes_of(kind), NULL, q, q_row, D, R, 0, kind);
    for (int r = 0; r < R; r++) {
        float *scores = own->scores + r * row;
        const int t = place + r * step, seen = work->length ? S : t + 1;
        const int hidden = work->window && t - work->window + 1 > first ? t - work->window + 1 - first : 0;
        for (int s = 0; s < hidden; s++) scores[s] = -INFINITY;
        softmax_forward(scores, 1, seen - first, work->scale);
        for (int s = PADDED(seen - first); s < S - first; s++) scores[s] = 0.0f; /* the future */
    }
}

/* z (R, D) in own->z: the values, weighted. A ring is read in two pieces where it wraps. */
static inline void weighted_values(const text_buffers *own, const char *values, int R, int first, int S)
{
    const text_work *work = own->work;
    const int row = work->slots + PANEL, z_row = row_of(work->head_width), kind = work->cache_kind;
    for (int s = first, count; s < S; s += count) {
        const int slot = s % work->slots;
        count = S - s < work->slots - slot ? S - s : work->slots - slot;
        for (int p = 0; p < PANELS(work->head_width); p++)
            panel_product(own->z + p * PANEL, z_row,
                          values + ((size_t)p * work->slots + slot) * PANEL * bytes_of(kind), NULL,
                          own->scores + s - first, row, count, R, s > first, kind);
    }
}

/* R queries, rows that lie q_row apart, look at key head j of their text; what they find goes to joined. */
static inline void attend_rows(const text_buffers *own, float *joined, int joined_row, const float *q, int q_row, int R,
                               size_t head, int place, int step, int S)
{
    const text_work *work = own->work;
    const int D = work->head_width;
    const int from = work->window && place - work->window + 1 > 0 ? place - work->window + 1 : 0;
    const int first = from / PANEL * PANEL;
    attention_weights(own, q, q_row, work->keys + head * keys_of_head(work) * bytes_of(work->cache_kind), R, place, step,
                      first, S);
    weighted_values(own, work->values + head * values_of_head(work) * bytes_of(work->cache_kind), R, first, S);
    for (int r = 0; r < R; r++)
        memcpy(joined + (size_t)r * joined_row, own->z + r * row_of(D), (size_t)D * sizeof *joined);
}

/* The tokens of one tile and key head j of block l: a token by itself with all heads that share the keys, several one
 * head after the other. */
static inline void attend_tile(const text_buffers *own, int l, int tile, int j)
{
    const text_work *work = own->work;
    const qkv_row row = qkv_of(work);
    const int n = own->tiles[tile], R = own->tiles[tile + 1] - n, D = work->head_width, place = work->place[n];
    const int group = work->heads / work->key_heads, joined_row = row_of(work->heads * D);
    const int S = work->length ? work->length[work->owner[n]] : place + R;
    const size_t head = cached_head(work, l, work->owner[n], j);
    const float *q = own->qkv + (size_t)n * row.row + row.q + j * group * D;
    float *joined = own->joined + (size_t)n * joined_row + j * group * D;
    if (R == 1)
        for (int g = 0; g < group; g += TILE_ROWS)
            attend_rows(own, joined + g * D, D, q + g * D, D, group - g < TILE_ROWS ? group - g : TILE_ROWS, head, place,
                        0, S);
    else
        for (int g = 0; g < group; g++)
            attend_rows(own, joined + g * D, joined_row, q + g * D, row.row, R, head, place, 1, S);
}

/* Tokens that follow each other in a text, TILE_ROWS at most: where each tile begins. Returns how many there are. */
static inline int cut_into_tiles(int32_t *tiles, const text_work *work)
{
    int count = 0;
    for (int n = 0, R; n < work->tokens; n += R) {
        for (R = 1; R < TILE_ROWS && n + R < work->tokens && work->owner[n + R] == work->owner[n];) R++;
        tiles[count++] = n;
    }
    tiles[count] = work->tokens;
    return count;
}

#endif
