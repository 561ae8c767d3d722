/* Products with a matrix that lies in panels: PANEL columns side by side, all their rows one after the other.
 *
 *   w (K, O) lies as (PANELS(O), K, PANEL); columns that fill up the last panel are 0
 *
 * So a product with few rows reads w once, from its first byte to its last, as fast as memory gives it: where rows of w
 * lie side by side as in matmul.h, every other line of memory belongs to another page. Its numbers are float32 or, of
 * half the bytes, bf16: they are widened as they are read, and what is computed is float32 either way. */
#ifndef GF_PANELS_H
#define GF_PANELS_H

#include "bf16.h"

#define PANEL (2 * LANES)
#define PANELS(n) (((n) + PANEL - 1) / PANEL)
#define PANEL_ROWS 8 /* the most rows that one tile can have; it has TILE_ROWS */

/* Bytes that a product asks for before it needs them. With one row the processor does so by itself; with eight it computes
 * longer at each place, and looks less far ahead: a pass over int8 weights then takes 1.3 times as long. */
enum { AHEAD = 12288 };
INLINE void fetch_ahead(const void *w, int bytes)
{
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)w + AHEAD + i);
}

enum { FLOAT32, BF16, INT8 }; /* what a matrix is made of; int8: quantised_matmul.h */

INLINE vec panel_load(const void *w, size_t i, int kind)
{
    return kind == BF16 ? vec_load_bf16((const uint16_t *)w + i) : vec_load((const float *)w + i);
}

/* y (R, PANEL)  <-  b (PANEL) + x (R, K) @ w (K, PANEL).  b may be NULL.  Overwrites y, or adds to it. */
INLINE void panel_tile(float *y, int y_row, const void *w, const float *b, const float *x, int x_row, int K, int R,
                       int add, int kind)
{
    vec sum[PANEL_ROWS][2];
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < 2; v++) sum[r][v] = b ? vec_load(b + v * LANES) : vec_all(0.0f);
    for (int k = 0; k < K; k++) {
        const vec left = panel_load(w, (size_t)k * PANEL, kind), right = panel_load(w, (size_t)k * PANEL + LANES, kind);
        if (R > 1) fetch_ahead((const char *)w + (size_t)k * PANEL * (kind == BF16 ? 2 : 4), PANEL * (kind == BF16 ? 2 : 4));
        UNROLL
        for (int r = 0; r < R; r++) {
            sum[r][0] += x[r * x_row + k] * left;
            sum[r][1] += x[r * x_row + k] * right;
        }
    }
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < 2; v++) {
            float *place = y + r * y_row + v * LANES;
            vec_store(place, add ? vec_load(place) + sum[r][v] : sum[r][v]);
        }
}

/* The same for any number of rows; the panel stays in the cache. */
INLINE void panel_rows(float *y, int y_row, const void *w, const float *b, const float *x, int x_row, int K, int N,
                       int add, int kind)
{
    for (int n = 0; n < N; n += TILE_ROWS, y += TILE_ROWS * y_row, x += TILE_ROWS * x_row) {
        switch (N - n) {
        case 1: panel_tile(y, y_row, w, b, x, x_row, K, 1, add, kind); break;
        case 2: panel_tile(y, y_row, w, b, x, x_row, K, 2, add, kind); break;
        case 3: panel_tile(y, y_row, w, b, x, x_row, K, 3, add, kind); break;
#if TILE_ROWS > 4
        case 4: panel_tile(y, y_row, w, b, x, x_row, K, 4, add, kind); break;
        case 5: panel_tile(y, y_row, w, b, x, x_row, K, 5, add, kind); break;
#endif
#if TILE_ROWS > 6
        case 6: panel_tile(y, y_row, w, b, x, x_row, K, 6, add, kind); break;
        case 7: panel_tile(y, y_row, w, b, x, x_row, K, 7, add, kind); break;
#endif
        default: panel_tile(y, y_row, w, b, x, x_row, K, TILE_ROWS, add, kind);
        }
    }
}

static inline void panel_product(float *y, int y_row, const void *w, const float *b, const float *x, int x_row, int K,
                                 int N, int add, int kind)
{
    if (kind == BF16) panel_rows(y, y_row, w, b, x, x_row, K, N, add, BF16);
    else panel_rows(y, y_row, w, b, x, x_row, K, N, add, FLOAT32);
}

#endif
