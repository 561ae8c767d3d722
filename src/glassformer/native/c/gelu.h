/* GELU, exact: x times the probability that a standard normal variable is below x (layers/gelu.py).
 *
 * cdf(-|x|) = exp(-x^2 / 2) * g(|x|), with g a polynomial in 1 / (1 + 0.2316419 |x|), the substitution of Zelen and
 * Severo; the coefficients are a minimax fit of our own. Largest relative error of cdf 1e-6, and 5e-6 below
 * x = -5, where x^2 / 2 is large enough for its rounding to show (tested). */
#ifndef GF_GELU_H
#define GF_GELU_H

#include "exp.h"

typedef struct { vec cdf, bell; } normal; /* bell = exp(-x^2 / 2) */

INLINE normal vec_normal(vec x)
{
    const vec size = vec_max(-x, x);
    const vec s = vec_all(1.0f) / (vec_all(1.0f) + vec_all(0.2316419f) * size);
    const vec bell = vec_exp_negative(vec_all(-0.5f) * x * x);
    vec g = vec_all(-7.09294062e-2f);
    g = g * s + vec_all(2.49862772e-1f);
    g = g * s + vec_all(-2.05561301e-1f);
    g = g * s + vec_all(2.29017983e-1f);
    g = g * s + vec_all(1.14439743e-2f);
    g = g * s + vec_all(1.03333814e-1f);
    g = g * s + vec_all(9.03014749e-2f);
    g = g * s + vec_all(9.25307415e-2f);
    const vec tail = bell * g * s;
    return (normal){vec_select(vec_less(x, vec_all(0.0f)), tail, vec_all(1.0f) - tail), bell};
}

/* y (n)  <-  x (n).  Overwrites y. */
INLINE void gelu_forward(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(x + i, LEFT(n, i));
        vec_store_part(y + i, v * vec_normal(v).cdf, LEFT(n, i));
    }
}

/* dx (n)  <-  x (n), dy (n).  Overwrites dx, which may be dy. */
INLINE void gelu_backward(float *dx, const float *x, const float *dy, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec v = vec_load_part(x + i, LEFT(n, i)), d = vec_load_part(dy + i, LEFT(n, i));
        const normal at = vec_normal(v);
        const vec pdf = at.bell * vec_all(0.398942280f); /* 1 / sqrt(2 pi) */
        vec_store_part(dx + i, d * (at.cdf + v * pdf), LEFT(n, i));
    }
}

#endif
