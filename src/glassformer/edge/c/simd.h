/* One number at a time: what the kernels that the native engine shares call a vector is a float here. */
#ifndef GF_SIMD_H
#define GF_SIMD_H

#include <stdint.h>
#include <string.h>

#ifdef __GNUC__
#define INLINE static inline __attribute__((unused))
#else
#define INLINE static inline
#endif

/* One copy in flash for all who call it; of a model so small that calls are most of its work, one for each call. */
#if defined(__GNUC__) && defined(SMALL)
#define APART static inline __attribute__((always_inline))
#elif defined(__clang__)
#define APART static __attribute__((noinline))
#elif defined(__GNUC__)
#define APART static __attribute__((noinline, noclone))
#else
#define APART static
#endif

#define LANES 1

#define LEFT(n, i) 1

#define PADDED(n) (n)

typedef float vec;

INLINE vec vec_load(const float *p) { return *p; }

INLINE void vec_store(float *p, vec v) { *p = v; }

INLINE vec vec_load_part(const float *p, int n) { return n ? *p : 0.0f; }

INLINE void vec_store_part(float *p, vec v, int n) { if (n) *p = v; }

INLINE vec vec_all(float x) { return x; }

INLINE int vec_less(vec a, vec b) { return a < b; }

INLINE vec vec_select(int yes, vec a, vec b) { return yes ? a : b; }

INLINE float vec_sum(vec v) { return v; }

INLINE vec vec_max(vec a, vec b) { return b < a ? a : b; }

INLINE vec vec_min(vec a, vec b) { return a < b ? a : b; }

#endif
