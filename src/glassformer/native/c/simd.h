/* Vectors of floats: LANES numbers side by side, on whatever the processor has. With GF_SCALAR, or a compiler that
 * knows no vector types, a vector is one float and every kernel is plain C11. Nothing else in these files knows. */
#ifndef GF_SIMD_H
#define GF_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__) && !defined(GF_SCALAR)
#define GF_SCALAR
#endif

#ifdef __GNUC__
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#else
#define UNROLL
#endif

/* TILE_ROWS: rows of a product kept in registers, two vectors each; 32 registers hold 8 x 2, 16 hold 6 x 2. */
#if defined(GF_SCALAR)
#define LANES 1
#define TILE_ROWS 4
#elif defined(__AVX512F__)
#define LANES 16
#define TILE_ROWS 8
#elif defined(__AVX2__)
#define LANES 8
#define TILE_ROWS 6
#else
#define LANES 4
#define TILE_ROWS 6
#endif

#if LANES >= 8
#include <immintrin.h>
#endif

/* n rounded up to whole vectors: the length of a row that is padded. */
#define PADDED(n) (((n) + LANES - 1) / LANES * LANES)

#if LANES == 1

typedef float vec;
typedef int mask; /* a yes or no for each lane */

INLINE vec vec_load(const float *p) { return *p; }
INLINE void vec_store(float *p, vec v) { *p = v; }
INLINE vec vec_load_first(const float *p, int n) { return n ? *p : 0.0f; }
INLINE void vec_store_first(float *p, vec v, int n) { if (n) *p = v; }
INLINE vec vec_all(float x) { return x; }
INLINE mask vec_less(vec a, vec b) { return a < b; }
INLINE vec vec_select(mask yes, vec a, vec b) { return yes ? a : b; }
INLINE float vec_sum(vec v) { return v; }
INLINE float vec_highest(vec v) { return v; }
INLINE vec vec_fill_from(vec v, int n, float filler) { return n ? v : filler; }

#else

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
#if LANES == 16
typedef __mmask16 mask;
#else
typedef ivec mask;
#endif
typedef float vec_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* any address */

INLINE vec vec_load(const float *p) { return *(const vec_anywhere *)p; }
INLINE void vec_store(float *p, vec v) { *(vec_anywhere *)p = v; }

/* The first n lanes; the others read as 0, and are not written. */
#if LANES == 16
INLINE vec vec_load_first(const float *p, int n) { return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
INLINE void vec_store_first(float *p, vec v, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v); }
#elif LANES == 8
INLINE __m256i lanes_below(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vec vec_load_first(const float *p, int n) { return (vec)_mm256_maskload_ps(p, lanes_below(n)); }
INLINE void vec_store_first(float *p, vec v, int n) { _mm256_maskstore_ps(p, lanes_below(n), (__m256)v); }
#else
INLINE vec vec_load_first(const float *p, int n)
{
    vec v = {0};
    for (int i = 0; i < n; i++) v[i] = p[i];
    return v;
}
INLINE void vec_store_first(float *p, vec v, int n)
{
    for (int i = 0; i < n; i++) p[i] = v[i];
}
#endif

#if LANES == 16
INLINE vec vec_all(float x) { return (vec)_mm512_set1_ps(x); }
#elif LANES == 8
INLINE vec vec_all(float x) { return (vec)_mm256_set1_ps(x); }
#else
INLINE vec vec_all(float x) { return (vec){x, x, x, x}; }
#endif

#if LANES == 16
INLINE mask vec_less(vec a, vec b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }
INLINE vec vec_select(mask yes, vec a, vec b) { return (vec)_mm512_mask_blend_ps(yes, (__m512)b, (__m512)a); }
#else
INLINE mask vec_less(vec a, vec b) { return a < b; }
INLINE vec vec_select(mask yes, vec a, vec b) { return (vec)(((ivec)a & yes) | ((ivec)b & ~yes)); }
#endif

/* v with its lanes from n on replaced. */
INLINE vec vec_fill_from(vec v, int n, float filler)
{
    vec place;
    UNROLL
    for (int i = 0; i < LANES; i++) place[i] = (float)i;
    return vec_select(vec_less(place, vec_all((float)n)), v, vec_all(filler));
}

INLINE float vec_sum(vec v)
{
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)v);
#else
    float sum = 0.0f;
    UNROLL
    for (int i = 0; i < LANES; i++) sum += v[i];
    return sum;
#endif
}
INLINE float vec_highest(vec v) /* a NaN may go unnoticed: whoever needs it sees it in what follows */
{
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)v);
#else
    float highest = v[0];
    UNROLL
    for (int i = 1; i < LANES; i++) highest = v[i] > highest ? v[i] : highest;
    return highest;
#endif
}
#endif

/* b where either is NaN. */
#if LANES == 16
INLINE vec vec_max(vec a, vec b) { return (vec)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vec vec_min(vec a, vec b) { return (vec)_mm512_min_ps((__m512)a, (__m512)b); }
#else
INLINE vec vec_max(vec a, vec b) { return vec_select(vec_less(b, a), a, b); }
INLINE vec vec_min(vec a, vec b) { return vec_select(vec_less(a, b), a, b); }
#endif

/* How many of a row's n numbers are left at i: in a row of whole vectors always LANES, which the compiler sees. */
#define LEFT(n, i) ((n) % LANES ? (n) - (i) : LANES)

/* Up to LANES numbers: a whole vector, or the end of a row. */
INLINE vec vec_load_part(const float *p, int n) { return n >= LANES ? vec_load(p) : vec_load_first(p, n); }
INLINE void vec_store_part(float *p, vec v, int n)
{
    if (n >= LANES) vec_store(p, v);
    else vec_store_first(p, v, n);
}

#endif
