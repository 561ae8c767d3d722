/* exp without a library: x = n ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n (1 + r + r^2 p(r)).  p is a minimax fit of our
 * own; the largest relative error is 2e-7. Adding 1.5 * 2^23 leaves n in the last bits of a float. */
#ifndef GF_EXP_H
#define GF_EXP_H

#include "simd.h"

/* Of numbers up to 88.  Below -87.33 it stays at 1.2e-38; NaN stays NaN. */
INLINE vec vec_exp_negative(vec x)
{
    const float within = x < -87.33f ? -87.33f : x;
    const float shifted = within * 1.44269504f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    const float r = (within - n * 0.693359375f) - n * -2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.38145988e-3f, power;
    uint32_t bits;
    p = p * r + 8.36871658e-3f;
    p = p * r + 4.16683890e-2f;
    p = p * r + 1.66665211e-1f;
    p = p * r + 4.99999940e-1f;
    p = p * r * r + r + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u; /* 2^n */
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* Of any number: what is too large gives infinity, what is too small 0. */
INLINE vec vec_exp(vec x)
{
    const float huge = 3.40282347e38f;
    if (x > 88.72f) return x * huge; /* infinity */
    return x < -87.33f ? 0.0f : x > 88.0f ? vec_exp_negative(x - 1.0f) * 2.71828183f : vec_exp_negative(x);
}

#endif
