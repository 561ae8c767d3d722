/* SiLU: x times its own sigmoid (layers/silu.py). */
#ifndef GF_SILU_H
#define GF_SILU_H

#include "exp.h"

INLINE vec vec_sigmoid(vec x) { return vec_all(1.0f) / (vec_all(1.0f) + vec_exp(-x)); }

/* y (n)  <-  x (n).  Overwrites y. */
INLINE void silu_forward(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(x + i, LEFT(n, i));
        vec_store_part(y + i, v * vec_sigmoid(v), LEFT(n, i));
    }
}

/* dx (n)  <-  x (n), dy (n).  Overwrites dx, which may be dy. */
INLINE void silu_backward(float *dx, const float *x, const float *dy, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(x + i, LEFT(n, i)), d = vec_load_part(dy + i, LEFT(n, i)), gate = vec_sigmoid(v);
        vec_store_part(dx + i, d * (gate + v * gate * (vec_all(1.0f) - gate)), LEFT(n, i));
    }
}

#endif
