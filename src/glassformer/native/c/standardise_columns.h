/* Standardise columns: each column of a table to mean 0 and spread 1 (layers/standardise_columns.py).
 * y = (x - offset) * factor.
 *
 * y (N, I)  <-  factor (I), offset (I), x (N, I).  Overwrites y, which may be x.
 * dx (N, I)  <-  factor (I), dy (N, I).  Overwrites dx, which may be dy. */
#ifndef GF_STANDARDISE_COLUMNS_H
#define GF_STANDARDISE_COLUMNS_H

#include "simd.h"

INLINE void standardise_columns_forward(float *y, const float *factor, const float *offset, const float *x, int N, int I)
{
    for (int n = 0; n < N; n++)
        for (int i = 0; i < I; i++) y[n * I + i] = (x[n * I + i] - offset[i]) * factor[i];
}

INLINE void standardise_columns_backward(float *dx, const float *factor, const float *dy, int N, int I)
{
    for (int n = 0; n < N; n++)
        for (int i = 0; i < I; i++) dx[n * I + i] = dy[n * I + i] * factor[i];
}

#endif
