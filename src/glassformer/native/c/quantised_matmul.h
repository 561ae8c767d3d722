/* Products of 8-bit integers: a quarter of the bytes of float32, and sums that are exact.
 *
 *   w (K, O)  ~  scale (groups, O) * q (K, O)      groups of QUANT_GROUP numbers along K, the last one may be shorter
 *   x (N, K)  ~  scale (N, groups) * q (N, K)      scale = the largest magnitude of its group / 127,  |q| <= 127
 *   y[n, o]   =  sum over the groups of  scale_x[n, g] * scale_w[g, o] * (the integer sum of q_x q_w over the group)
 *
 * Rows of x are quantised as they come, w once. Integer sums are the same whatever instruction makes them.
 * A panel of w lies as, for each group: PANEL scales (float), then for every four k: four bytes of each of PANEL columns.
 * A group that is no multiple of 4 long, and columns beyond the last, are filled up with zeros. */
#ifndef GF_QUANTISED_MATMUL_H
#define GF_QUANTISED_MATMUL_H

#include "panels.h"

#if LANES == 4 && defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

enum { QUANT_GROUP = 64, ROWS_OF_SUMS = PANEL_ROWS / 2 };
#define QUANT_GROUPS(K) (((K) + QUANT_GROUP - 1) / QUANT_GROUP)
#define FOURS(k) (((k) + 3) / 4)

INLINE int length_of_group(int K, int g) { return K - g * QUANT_GROUP < QUANT_GROUP ? K - g * QUANT_GROUP : QUANT_GROUP; }
INLINE size_t bytes_of_quantised_panel(int K) { return (size_t)PANEL * 4 * (size_t)(QUANT_GROUPS(K) + FOURS(K)); }

/* A row of x: numbers rounded to 8 bits, and of each group its scale and the sum of its integers. */
INLINE int quantised_row(int K) { return QUANT_GROUPS(K) * QUANT_GROUP; }

typedef struct {
    const int8_t *q;       /* (N, quantised_row(K)) */
    const float *scales;   /* (N, QUANT_GROUPS(K)) */
    const int32_t *sums;   /* (N, QUANT_GROUPS(K)) */
} quantised_rows;

/* sum[lane] += the product of four bytes of w and four bytes of x.  Whoever has no instruction for signed bytes takes
 * w + 128 instead; `dot_start` then takes 128 * sum(x) off. */
#if LANES == 16 && defined(__AVX512VNNI__)

typedef __m512i ints;
typedef __m512i bytes;
INLINE ints dot_start(int32_t sum_of_x) { return _mm512_set1_epi32(-128 * sum_of_x); }
INLINE bytes dot_load(const int8_t *w) { return _mm512_xor_si512(_mm512_loadu_si512(w), _mm512_set1_epi32((int)0x80808080)); }
INLINE ints dot_four(ints sum, bytes w, int32_t x) { return _mm512_dpbusd_epi32(sum, w, _mm512_set1_epi32(x)); }
INLINE vec dot_end(ints sum) { return (vec)_mm512_cvtepi32_ps(sum); }

#elif LANES == 8 && defined(__AVXVNNI__)

typedef __m256i ints;
typedef __m256i bytes;
INLINE ints dot_start(int32_t sum_of_x) { return _mm256_set1_epi32(-128 * sum_of_x); }
INLINE bytes dot_load(const int8_t *w)
{
    return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)w), _mm256_set1_epi32((int)0x80808080));
}
INLINE ints dot_four(ints sum, bytes w, int32_t x) { return _mm256_dpbusd_avx_epi32(sum, w, _mm256_set1_epi32(x)); }
INLINE vec dot_end(ints sum) { return (vec)_mm256_cvtepi32_ps(sum); }

#elif LANES == 8

typedef __m256i ints;
typedef __m256i bytes;
INLINE ints dot_start(int32_t sum_of_x) { return (void)sum_of_x, _mm256_setzero_si256(); }
INLINE bytes dot_load(const int8_t *w) { return _mm256_loadu_si256((const __m256i *)w); }
INLINE ints dot_four(ints sum, bytes w, int32_t x) /* |x| * (w with the sign of x): two products fit into 16 bits */
{
    const __m256i four = _mm256_set1_epi32(x);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(four), _mm256_sign_epi8(w, four));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
INLINE vec dot_end(ints sum) { return (vec)_mm256_cvtepi32_ps(sum); }

#elif LANES == 4 && defined(__ARM_FEATURE_DOTPROD)

typedef int32x4_t ints;
typedef int8x16_t bytes;
INLINE ints dot_start(int32_t sum_of_x) { return (void)sum_of_x, vdupq_n_s32(0); }
INLINE bytes dot_load(const int8_t *w) { return vld1q_s8(w); }
INLINE ints dot_four(ints sum, bytes w, int32_t x) { return vdotq_s32(sum, w, vreinterpretq_s8_s32(vdupq_n_s32(x))); }
INLINE vec dot_end(ints sum) { return (vec)vcvtq_f32_s32(sum); }

#else

typedef struct { int32_t of[LANES]; } ints;
typedef struct { int8_t of[4 * LANES]; } bytes;
INLINE ints dot_start(int32_t sum_of_x)
{
    ints sum;
    (void)sum_of_x;
    memset(&sum, 0, sizeof sum);
    return sum;
}
INLINE bytes dot_load(const int8_t *w)
{
    bytes four;
    memcpy(&four, w, sizeof four);
    return four;
}
INLINE ints dot_four(ints sum, bytes w, int32_t x)
{
    int8_t four[4];
    memcpy(four, &x, sizeof four);
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < 4; j++) sum.of[i] += w.of[4 * i + j] * four[j];
    return sum;
}
INLINE vec dot_end(ints sum)
{
    float lanes[LANES];
    for (int i = 0; i < LANES; i++) lanes[i] = (float)sum.of[i];
    return vec_load(lanes);
}

#endif

INLINE int32_t four_of(const int8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return four;
}

/* total (R, PANEL) += one group: `fours` times four numbers of x (R) with PANEL columns of w. */
INLINE void some_quantised_rows(vec (*total)[2], const char *w, const int8_t *q, int q_row, const float *scales,
                                const int32_t *sums, int groups, int fours, int R, int ahead)
{
    const float *w_scales = (const float *)w;
    const int8_t *w_q = (const int8_t *)(w + PANEL * sizeof(float));
    ints sum[ROWS_OF_SUMS][2];
    UNROLL
    for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = dot_start(sums[r * groups]);
    for (int k = 0; k < fours; k++) {
        const bytes left = dot_load(w_q + k * 4 * PANEL), right = dot_load(w_q + k * 4 * PANEL + 4 * LANES);
        if (ahead) fetch_ahead(w_q + k * 4 * PANEL, 4 * PANEL);
        UNROLL
        for (int r = 0; r < R; r++) {
            const int32_t x = four_of(q + r * q_row + 4 * k);
            sum[r][0] = dot_four(sum[r][0], left, x);
            sum[r][1] = dot_four(sum[r][1], right, x);
        }
    }
    const vec left = vec_load(w_scales), right = vec_load(w_scales + LANES);
    UNROLL
    for (int r = 0; r < R; r++) {
        total[r][0] += dot_end(sum[r][0]) * (left * scales[r * groups]);
        total[r][1] += dot_end(sum[r][1]) * (right * scales[r * groups]);
    }
}

/* The same for all rows of a tile, half of them at a time: integer sums and totals of all would not fit into the registers
 * (a product of eight rows takes 1.15 times as long). */
INLINE void quantised_group(vec (*total)[2], const char *w, const int8_t *q, int q_row, const float *scales,
                            const int32_t *sums, int groups, int fours, int R)
{
    const int H = R < ROWS_OF_SUMS ? R : ROWS_OF_SUMS;
    some_quantised_rows(total, w, q, q_row, scales, sums, groups, fours, H, R > 1);
    if (R > H)
        some_quantised_rows(total + H, w, q + H * q_row, q_row, scales + H * groups, sums + H * groups, groups, fours,
                            R - H, 0);
}

/* y (R, PANEL)  <-  b (PANEL) + x (R, K) @ w (K, PANEL), from row n of x on.  Overwrites y, or adds to it. */
INLINE void quantised_tile(float *y, int y_row, const char *w, const float *b, const quantised_rows *x, int n, int K,
                           int R, int add)
{
    const int groups = QUANT_GROUPS(K), q_row = quantised_row(K);
    const int8_t *q = x->q + (size_t)n * q_row;
    const float *scales = x->scales + (size_t)n * groups;
    const int32_t *sums = x->sums + (size_t)n * groups;
    vec total[PANEL_ROWS][2];
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < 2; v++) total[r][v] = b ? vec_load(b + v * LANES) : vec_all(0.0f);
    for (int g = 0; g < groups; g++, q += QUANT_GROUP, scales++, sums++) {
        const int length = length_of_group(K, g);
        if (length == QUANT_GROUP) quantised_group(total, w, q, q_row, scales, sums, groups, QUANT_GROUP / 4, R);
        else quantised_group(total, w, q, q_row, scales, sums, groups, FOURS(length), R);
        w += PANEL * 4 * (size_t)(1 + FOURS(length));
    }
    UNROLL
    for (int r = 0; r < R; r++)
        UNROLL
        for (int v = 0; v < 2; v++) {
            float *place = y + r * y_row + v * LANES;
            vec_store(place, add ? vec_load(place) + total[r][v] : total[r][v]);
        }
}

static inline void quantised_product(float *y, int y_row, const char *w, const float *b, const quantised_rows *x, int K,
                                     int N, int add)
{
    for (int n = 0; n < N; n += TILE_ROWS, y += TILE_ROWS * y_row) {
        switch (N - n) {
        case 1: quantised_tile(y, y_row, w, b, x, n, K, 1, add); break;
        case 2: quantised_tile(y, y_row, w, b, x, n, K, 2, add); break;
        case 3: quantised_tile(y, y_row, w, b, x, n, K, 3, add); break;
#if TILE_ROWS > 4
        case 4: quantised_tile(y, y_row, w, b, x, n, K, 4, add); break;
        case 5: quantised_tile(y, y_row, w, b, x, n, K, 5, add); break;
#endif
#if TILE_ROWS > 6
        case 6: quantised_tile(y, y_row, w, b, x, n, K, 6, add); break;
        case 7: quantised_tile(y, y_row, w, b, x, n, K, 7, add); break;
#endif
        default: quantised_tile(y, y_row, w, b, x, n, K, TILE_ROWS, add);
        }
    }
}

/* x to the nearest whole number, to even where two are as near, at most 127 in size. A NaN becomes any. */
INLINE int8_t rounded_byte(float x)
{
    const float whole = rintf(x);
    return (int8_t)(whole >= -127.0f ? whole <= 127.0f ? whole : 127.0f : -127.0f);
}

#if LANES == 16
INLINE void store_bytes(int8_t *q, vec x) { _mm_storeu_si128((__m128i *)q, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32((__m512)x))); }
#else
INLINE void store_bytes(int8_t *q, vec x)
{
    float lanes[LANES];
    vec_store(lanes, x);
    for (int i = 0; i < LANES; i++) q[i] = rounded_byte(lanes[i]);
}
#endif

/* Scale from the largest magnitude; `poison` is NaN where a number was not finite, so that the product says so. */
INLINE float scale_of(float highest, float poison) { return highest / 127.0f + poison; }
/* What to multiply by instead of dividing by the scale. One that is no normal number may have no inverse: all are 0 then. */
INLINE float inverse_of(float scale) { return scale > 1.17549435e-38f ? 1.0f / scale : 0.0f; }

/* A row of x (K): q (quantised_row(K)), scales and sums (QUANT_GROUPS(K)).  Overwrites them. */
static inline void quantise_row(int8_t *q, float *scales, int32_t *sums, const float *x, int K)
{
    for (int g = 0; g < QUANT_GROUPS(K); g++, x += QUANT_GROUP, q += QUANT_GROUP) {
        const int length = length_of_group(K, g);
        vec highest = vec_all(0.0f), poison = vec_all(0.0f);
        int32_t sum = 0;
        for (int k = 0; k < length; k += LANES) {
            const vec some = vec_load_part(x + k, length - k);
            highest = vec_max(vec_max(-some, some), highest);
            poison += some * vec_all(0.0f);
        }
        scales[g] = scale_of(vec_highest(highest), vec_sum(poison));
        const vec inverse = vec_all(inverse_of(scales[g]));
        for (int k = 0; k < QUANT_GROUP; k += LANES)
            store_bytes(q + k, k < length ? vec_load_part(x + k, length - k) * inverse : vec_all(0.0f));
        for (int k = 0; k < QUANT_GROUP; k++) sum += q[k];
        sums[g] = sum;
    }
}

/* One group of a panel, w (length, PANEL): its scales and bytes. Returns where the next group goes. */
static inline char *quantise_group(char *to, const float *w, int length)
{
    float *scales = (float *)to, inverses[PANEL];
    int8_t *q = (int8_t *)(to + PANEL * sizeof(float));
    for (int o = 0; o < PANEL; o += LANES) {
        vec highest = vec_all(0.0f), poison = vec_all(0.0f);
        for (int k = 0; k < length; k++) {
            const vec some = vec_load(w + k * PANEL + o);
            highest = vec_max(vec_max(-some, some), highest);
            poison += some * vec_all(0.0f);
        }
        vec_store(scales + o, highest / vec_all(127.0f) + poison);
    }
    for (int o = 0; o < PANEL; o++) inverses[o] = inverse_of(scales[o]);
    for (int k = 0; k < 4 * FOURS(length); k++)
        for (int o = 0; o < PANEL; o++)
            q[(k / 4 * PANEL + o) * 4 + k % 4] = k < length ? rounded_byte(w[k * PANEL + o] * inverses[o]) : 0;
    return to + PANEL * 4 * (1 + FOURS(length));
}

#endif
