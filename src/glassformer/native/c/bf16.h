/* bfloat16: the upper half of a float's bits, so that it has the range of one and 8 bits of precision. */
#ifndef GF_BF16_H
#define GF_BF16_H

#include "simd.h"

INLINE float from_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* To the nearest, to even where two are as near. A NaN stays one. */
INLINE uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* LANES of them, from any address. */
#if LANES == 16
INLINE vec vec_load_bf16(const uint16_t *p)
{
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
}
#elif LANES == 8
INLINE vec vec_load_bf16(const uint16_t *p)
{
    return (vec)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
}
#elif LANES > 1
INLINE vec vec_load_bf16(const uint16_t *p)
{
    return (vec)(ivec){(int32_t)((uint32_t)p[0] << 16), (int32_t)((uint32_t)p[1] << 16),
                       (int32_t)((uint32_t)p[2] << 16), (int32_t)((uint32_t)p[3] << 16)};
}
#else
INLINE vec vec_load_bf16(const uint16_t *p) { return from_bf16(*p); }
#endif

#endif
