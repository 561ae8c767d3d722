/* ReLU: what is negative becomes 0 (layers/relu.py). */
#ifndef GF_RELU_H
#define GF_RELU_H

#include "simd.h"

/* y (n)  <-  x (n).  Overwrites y, which may be x. NaN stays NaN. */
INLINE void relu_forward(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(x + i, LEFT(n, i));
        vec_store_part(y + i, vec_select(vec_less(v, vec_all(0.0f)), vec_all(0.0f), v), LEFT(n, i));
    }
}

/* dx (n)  <-  y (n), dy (n).  Overwrites dx, which may be dy. y > 0 exactly where x > 0. */
INLINE void relu_backward(float *dx, const float *y, const float *dy, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec passes = vec_load_part(y + i, LEFT(n, i)), d = vec_load_part(dy + i, LEFT(n, i));
        vec_store_part(dx + i, vec_select(vec_less(vec_all(0.0f), passes), d, vec_all(0.0f)), LEFT(n, i));
    }
}

#endif
