/* int8: what all kernels of it share (edge/int8.py computes the same, bit for bit).
 *
 * A row (one token) is int16_t, q standing for q * scale; weights, keys and values are int8_t.  Products add up exactly
 * in int32_t, and one multiplication brings a sum to the scale of what is made of it.  No float, no division. */
#ifndef GF_INT8_H
#define GF_INT8_H

#include "simd.h"

/* C leaves it to the compiler what >> does with a negative number: here it must round down. */
typedef char int8_shifts_round_down[(-1 >> 1) == -1 ? 1 : -1];
/* a * b / 2^32, rounded down. */
INLINE int32_t int8_multiply(int32_t a, int32_t b)
{
    return (int32_t)((int64_t)a * b >> 32);
}

#if defined __ARM_FEATURE_SAT && defined __GNUC__
#define INT8_SATURATE(a, bits) ((int32_t)__builtin_arm_ssat(a, bits))
#else
#define INT8_SATURATE(a, bits) int8_clamp(a, -(INT32_C(1) << ((bits) - 1)), (INT32_C(1) << ((bits) - 1)) - 1)
INLINE int32_t int8_clamp(int32_t a, int32_t least, int32_t most)
{
    return a < least ? least : a > most ? most : a;
}
#endif

INLINE int16_t int8_saturate16(int32_t a)
{
    return (int16_t)INT8_SATURATE(a, 16);
}

INLINE int8_t int8_saturate8(int32_t a)
{
    return (int8_t)INT8_SATURATE(a, 8);
}

#endif
