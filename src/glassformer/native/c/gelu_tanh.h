/* GELU by tanh: the approximation that GPT-2 was trained with (layers/gelu_tanh.py). */
#ifndef GF_GELU_TANH_H
#define GF_GELU_TANH_H

#include "exp.h"

/* gate = (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)),  u = sqrt(2 / pi) * (x + 0.044715 x^3) */
INLINE vec vec_gate(vec x)
{
    const vec u2 = vec_all(1.59576912f) * (x + vec_all(0.044715f) * x * x * x);
    return vec_all(1.0f) / (vec_all(1.0f) + vec_exp(-u2));
}

/* y (n), cache gate (n)  <-  x (n).  Overwrites its outputs. */
INLINE void gelu_tanh_forward(float *y, float *gate, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(x + i, LEFT(n, i)), g = vec_gate(v);
        vec_store_part(gate + i, g, LEFT(n, i));
        vec_store_part(y + i, v * g, LEFT(n, i));
    }
}

/* dx (n)  <-  gate (n), x (n), dy (n).  Overwrites dx, which may be dy. */
INLINE void gelu_tanh_backward(float *dx, const float *gate, const float *x, const float *dy, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(x + i, LEFT(n, i)), g = vec_load_part(gate + i, LEFT(n, i)), d = vec_load_part(dy + i, LEFT(n, i));
        const vec slope = vec_all(1.59576912f) * (vec_all(1.0f) + vec_all(0.134145f) * v * v); /* d(2u)/dx */
        vec_store_part(dx + i, d * (g + v * g * (vec_all(1.0f) - g) * slope), LEFT(n, i));
    }
}

#endif
