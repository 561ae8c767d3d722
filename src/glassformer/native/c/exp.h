/* exp of a vector: x = n ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n exp(r), exp(r) = 1 + r + r^2 p(r).
 *
 * Largest relative error 2e-7 (tested over the whole range). Overflow gives infinity, NaN stays NaN. Below -87.33, where
 * the result is no normal number any more: what IEEE says with AVX-512, else 0. p is a minimax fit of our own. */
#ifndef GF_EXP_H
#define GF_EXP_H

#include "simd.h"

/* v rounded to whole numbers; v * 2^n for whole n. The processor's own where it has them: those know all edges. */
#if LANES == 16

INLINE vec vec_round(vec v) { return (vec)_mm512_roundscale_ps((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE vec vec_times_two_to(vec v, vec n) { return (vec)_mm512_scalef_ps((__m512)v, (__m512)n); }
INLINE vec vec_exp_edges(vec power, vec x) { return vec_select(vec_less(x, vec_all(INFINITY)), power, x); }
#define EXP_LOW (-104.0f)
#define EXP_HIGH 89.0f

#else

#if LANES > 1
INLINE vec vec_round(vec v)
{
    const vec half = vec_select(vec_less(v, vec_all(0.0f)), vec_all(-0.5f), vec_all(0.5f));
    return __builtin_convertvector(__builtin_convertvector(v + half, ivec), vec);
}
INLINE vec vec_times_two_to(vec v, vec n) { return (vec)((ivec)v + (__builtin_convertvector(n, ivec) << 23)); }
#else
INLINE vec vec_round(vec v) { return rintf(v); }
INLINE vec vec_times_two_to(vec v, vec n)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    bits += (uint32_t)(int32_t)n << 23;
    memcpy(&v, &bits, sizeof v);
    return v;
}
#endif
INLINE vec vec_exp_edges(vec power, vec x)
{
    const vec some = vec_select(vec_less(x, vec_all(-87.33f)), vec_all(0.0f), power);
    const vec most = vec_select(vec_less(vec_all(88.72f), x), vec_all(INFINITY), some);
    return vec_select(vec_less(x, vec_all(INFINITY)), most, x); /* NaN, and infinity itself */
}
#define EXP_LOW (-87.33f)
#define EXP_HIGH 88.72f

#endif

INLINE vec vec_exp(vec x)
{
    const vec within = vec_min(vec_max(x, vec_all(EXP_LOW)), vec_all(EXP_HIGH)); /* NaN becomes EXP_LOW, until the end */
    const vec n = vec_round(within * vec_all(1.44269504f));
    const vec r = (within - n * vec_all(0.693359375f)) - n * vec_all(-2.12194440e-4f); /* ln 2 in two parts */
    vec p = vec_all(1.38145988e-3f);
    p = p * r + vec_all(8.36871658e-3f);
    p = p * r + vec_all(4.16683890e-2f);
    p = p * r + vec_all(1.66665211e-1f);
    p = p * r + vec_all(4.99999940e-1f);
    return vec_exp_edges(vec_times_two_to(p * r * r + r + vec_all(1.0f), n), x);
}

/* Of numbers that are not above 0: on a device (edge/c/exp.h) that is cheaper. */
INLINE vec vec_exp_negative(vec x) { return vec_exp(x); }

#endif
