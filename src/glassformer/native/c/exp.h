/* exp of a vector: x = n ln 2 + r with |r| <= ln 2 / 2, exp(x) = 2^n exp(r), exp(r) = 1 + r + r^2 p(r).
 *
 * Largest relative error 2e-7 (tested over the whole range). Above 88.72 infinity; below -87.33, where the result would
 * no longer be a normal number, 0; NaN stays NaN. p is a minimax fit of our own. */
#ifndef GF_EXP_H
#define GF_EXP_H

#include "lanes.h"

INLINE ivec vec_bits(vec v)
{
    ivec bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

INLINE vec vec_from_bits(ivec bits)
{
    vec v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

INLINE vec vec_exp(vec x)
{
    const vec ln2_high = vec_all(0.693359375f), ln2_low = vec_all(-2.12194440e-4f);
    const vec finite = vec_select((x > vec_all(-87.33f)) & (x < vec_all(88.72f)), x, vec_all(0.0f)); /* NaN: 0 */
    const vec turns = finite * vec_all(1.44269504f);
    const ivec n = vec_to_int(turns + vec_select(turns < vec_all(0.0f), vec_all(-0.5f), vec_all(0.5f)));
    const vec whole = vec_to_float(n);
    const vec r = (finite - whole * ln2_high) - whole * ln2_low;
    vec p = vec_all(1.38145988e-3f);
    p = p * r + vec_all(8.36871658e-3f);
    p = p * r + vec_all(4.16683890e-2f);
    p = p * r + vec_all(1.66665211e-1f);
    p = p * r + vec_all(4.99999940e-1f);
    const vec power = vec_from_bits(vec_bits(p * r * r + r + vec_all(1.0f)) + n * (1 << 23));
    const vec low = vec_select(x <= vec_all(-87.33f), vec_all(0.0f), power);
    return vec_select(x >= vec_all(88.72f), x * vec_all(INFINITY), vec_select(x == x, low, x));
}

#endif
