/* Mean pool, row by row (layers/mean_pool.py).
 *
 * y (C)  <-  the mean of T rows, when row t = T - 1 has come.  x (C) is row t. */
#ifndef GF_MEAN_POOL_ROW_H
#define GF_MEAN_POOL_ROW_H

#include "simd.h"

INLINE void mean_pool_row(float *y, const float *x, int t, int T, int C)
{
    for (int c = 0; c < C; c++) {
        const float sum = t ? y[c] + x[c] : x[c];
        y[c] = t == T - 1 ? sum * (1.0f / (float)T) : sum;
    }
}

#endif
