/* Matrix product, by tiles that stay in registers.
 *
 *   y (N, O)  <-  start + x (N, K) @ w (K, O)
 *
 * x is read as x[n * x_row + k * x_col]: x_row = K, x_col = 1 for a matrix as it lies; x_row = 1, x_col = its row length
 * for its transpose. So the same loop gives x @ w, and x^T @ dy for the gradient of a weight. For dy @ w^T a transposed
 * copy of w is kept (transpose.h): rows that are read side by side must lie side by side.
 * start is NULL (y is overwritten), a bias (start_row = 0), or y itself (start_row = y_row: y is added to). */
#ifndef GF_MATMUL_H
#define GF_MATMUL_H

#include "simd.h"

/* R rows by V vectors, the last of them only `last` lanes wide. */
INLINE void matmul_tile(float *y, int y_row, const float *start, int start_row, const float *x, int x_row, int x_col,
                        const float *w, int w_row, int K, int R, int V, int last)
{
    vec sum[TILE_ROWS][2];
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < V; v++)
            sum[r][v] = start ? vec_load_part(start + r * start_row + v * LANES, v == V - 1 ? last : LANES) : vec_all(0.0f);
    for (int k = 0; k < K; k++) {
        vec right[2];
        UNROLL
        for (int v = 0; v < V; v++) right[v] = vec_load_part(w + k * w_row + v * LANES, v == V - 1 ? last : LANES);
        UNROLL
        for (int r = 0; r < R; r++)
            UNROLL
            for (int v = 0; v < V; v++) sum[r][v] += x[r * x_row + k * x_col] * right[v];
    }
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < V; v++) vec_store_part(y + r * y_row + v * LANES, sum[r][v], v == V - 1 ? last : LANES);
}

/* How many rows to take at once: the most that divide N, so that no narrow tile is left over; else the most. */
INLINE int matmul_rows(int N)
{
    for (int rows = TILE_ROWS; rows > TILE_ROWS / 2; rows--)
        if (N % rows == 0) return rows;
    return N < TILE_ROWS ? N : TILE_ROWS;
}

/* All rows, V vectors of columns. */
INLINE void matmul_columns(float *y, int y_row, const float *start, int start_row, const float *x, int x_row, int x_col,
                           const float *w, int w_row, int N, int K, int V, int last)
{
    const int R = matmul_rows(N), left = N % R;
    for (int n = 0; n + R <= N; n += R)
        matmul_tile(y + n * y_row, y_row, start ? start + n * start_row : NULL, start_row, x + n * x_row, x_row, x_col,
                    w, w_row, K, R, V, last);
    const int n = N - left;
    if (left)
        matmul_tile(y + n * y_row, y_row, start ? start + n * start_row : NULL, start_row, x + n * x_row, x_row, x_col,
                    w, w_row, K, left, V, last);
}

INLINE void matmul(float *y, int y_row, const float *start, int start_row, const float *x, int x_row, int x_col,
                   const float *w, int w_row, int N, int K, int O)
{
    const int pairs = O / (2 * LANES), o = pairs * 2 * LANES, rest = O - o;
    for (int c = 0; c < o; c += 2 * LANES)
        matmul_columns(y + c, y_row, start ? start + c : NULL, start_row, x, x_row, x_col, w + c, w_row, N, K, 2, LANES);
    if (rest > LANES)
        matmul_columns(y + o, y_row, start ? start + o : NULL, start_row, x, x_row, x_col, w + o, w_row, N, K, 2,
                       rest - LANES);
    else if (rest)
        matmul_columns(y + o, y_row, start ? start + o : NULL, start_row, x, x_row, x_col, w + o, w_row, N, K, 1, rest);
}

/* sum (O)  <-  start (O) or NULL + rows of x (N, O), which lie x_row apart */
INLINE void add_rows(float *sum, const float *start, const float *x, int x_row, int N, int O)
{
    for (int o = 0; o < O; o += LANES) {
        vec total = start ? vec_load_part(start + o, LEFT(O, o)) : vec_all(0.0f);
        for (int n = 0; n < N; n++) total += vec_load_part(x + n * x_row + o, LEFT(O, o));
        vec_store_part(sum + o, total, LEFT(O, o));
    }
}

#endif
