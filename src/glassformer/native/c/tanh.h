/* Tanh (layers/tanh.py): 2 / (1 + exp(-2 x)) - 1, and for small x, where that loses digits, x times a polynomial. */
#ifndef GF_TANH_H
#define GF_TANH_H

#include "exp.h"

INLINE vec vec_tanh(vec x)
{
    const vec wide = vec_all(2.0f) / (vec_all(1.0f) + vec_exp(vec_all(-2.0f) * x)) - vec_all(1.0f);
    const vec square = x * x; /* tanh(x) = x - x^3 / 3 + 2 x^5 / 15 - 17 x^7 / 315 + 62 x^9 / 2835 … */
    vec p = vec_all(2.18694885e-2f);
    p = p * square + vec_all(-5.39682540e-2f);
    p = p * square + vec_all(1.33333333e-1f);
    p = p * square + vec_all(-3.33333333e-1f);
    return vec_select(vec_less(square, vec_all(0.04f)), x + x * square * p, wide);
}

/* y (n)  <-  x (n).  Overwrites y, which may be x. */
INLINE void tanh_forward(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) vec_store_part(y + i, vec_tanh(vec_load_part(x + i, LEFT(n, i))), LEFT(n, i));
}

/* dx (n)  <-  y (n), dy (n).  Overwrites dx, which may be dy. */
INLINE void tanh_backward(float *dx, const float *y, const float *dy, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(y + i, LEFT(n, i));
        vec_store_part(dx + i, vec_load_part(dy + i, LEFT(n, i)) * (vec_all(1.0f) - v * v), LEFT(n, i));
    }
}

#endif
