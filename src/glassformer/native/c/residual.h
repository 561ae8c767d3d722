/* Residual: what a branch found is added to the stream (layers/residual.py). */
#ifndef GF_RESIDUAL_H
#define GF_RESIDUAL_H

#include "simd.h"

/* y (n)  <-  x (n) + branch (n).  Overwrites y, which may be either.
 * Backward: the gradient goes both ways as it is; where the ways meet again, layer norm adds. */
INLINE void residual_forward(float *y, const float *x, const float *branch, int n)
{
    for (int i = 0; i < n; i += LANES)
        vec_store_part(y + i, vec_load_part(x + i, LEFT(n, i)) + vec_load_part(branch + i, LEFT(n, i)), LEFT(n, i));
}

#endif
