/* Dot products of one int16 row with int8 rows: linear layers (the rows are weights), attention (keys, or values).
 *
 * The int8 rows lie in pairs, the numbers of two rows taking turns: i of row o at (o / 2 * stride + i) * 2 + o % 2.  So
 * both rows of a pair meet the numbers of x in their own order in SMLAD and in MVE's vectors.  All three ways give the
 * same whole numbers. */
#ifndef GF_INT8_DOTS_H
#define GF_INT8_DOTS_H

#include "int8.h"

#if defined __ARM_FEATURE_MVE
#  include <arm_mve.h>
#elif defined __ARM_FEATURE_DSP
#  include <arm_acle.h>

/* Two int16, or two int8 of each of two rows, wherever they lie. */
INLINE uint32_t int8_word(const void *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
    return word;
}

/* Sums a and b of two rows  +=  two numbers of each, times two of x. */
INLINE void int8_two(int32_t *a, int32_t *b, const int8_t *w, uint32_t x)
{
    const uint32_t both = int8_word(w);
#ifdef __GNUC__ /* gcc does not see that SXTB16 itself can rotate */
    int16x2_t odd;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd) : "r"(both));
#else
    const int16x2_t odd = __sxtb16((int8x4_t)(both >> 8));
#endif
    *a = __smlad((int16x2_t)x, __sxtb16((int8x4_t)both), *a);
    *b = __smlad((int16x2_t)x, odd, *b);
}
#endif

/* y (O)  <-  w (O, stride) in pairs, of which I numbers are read, bias (O) or NULL, x (I).  Overwrites y. */
APART void int8_dots(int32_t *y, const int8_t *w, const int32_t *bias, const int16_t *x, int I, int O, int stride)
{
    static const int32_t zeros[4] = {0};
    const int more = bias ? 1 : 0;
    int o = 0;
    if (!bias) bias = zeros;
#if defined __ARM_FEATURE_MVE
    for (; o + 2 <= O; o += 2, w += 2 * stride, bias += 2 * more) {
        int32_t a = bias[0], b = bias[1];
        for (int i = 0; i < I; i += 8) {
            const mve_pred16_t left = vctp16q((uint32_t)(I - i));
            const int16x8_t row = vldrhq_z_s16(x + i, left);
            const int8x16_t both = vldrbq_z_s8(w + 2 * i, left);
            a = vmladavaq_s16(a, row, vmovlbq_s8(both));
            b = vmladavaq_s16(b, row, vmovltq_s8(both));
        }
        y[o] = a, y[o + 1] = b;
    }
#else
    const int16_t *const end = x + I;
    for (; o + 4 <= O; o += 4, w += 4 * stride, bias += 4 * more) {
        const int8_t *p = w, *q = w + 2 * stride;
        const int16_t *now = x;
        int32_t a = bias[0], b = bias[1], c = bias[2], d = bias[3];
#if defined __ARM_FEATURE_DSP
        for (const int16_t *const last = end - I % 2; now != last; now += 2, p += 4, q += 4) {
            const uint32_t two = int8_word(now);
            int8_two(&a, &b, p, two);
            int8_two(&c, &d, q, two);
        }
#else /* four at a time: 817 k instructions for vit-pico on the M3, one at a time 907 k, eight 870 k */
        for (const int16_t *const last = end - I % 4; now != last; now += 4, p += 8, q += 8) {
            const int32_t x0 = now[0], x1 = now[1], x2 = now[2], x3 = now[3];
            a += x0 * p[0], b += x0 * p[1], c += x0 * q[0], d += x0 * q[1];
            a += x1 * p[2], b += x1 * p[3], c += x1 * q[2], d += x1 * q[3];
            a += x2 * p[4], b += x2 * p[5], c += x2 * q[4], d += x2 * q[5];
            a += x3 * p[6], b += x3 * p[7], c += x3 * q[6], d += x3 * q[7];
        }
#endif
        for (; now != end; now++, p += 2, q += 2) {
            const int32_t one = *now;
            a += one * p[0], b += one * p[1], c += one * q[0], d += one * q[1];
        }
        y[o] = a, y[o + 1] = b, y[o + 2] = c, y[o + 3] = d;
    }
#endif
    for (int left = 0; left < O - o; left++) {
        const int8_t *row = w + left / 2 * 2 * stride + left % 2;
        int32_t a = bias[left * more];
        for (int i = 0; i < I; i++) a += x[i] * row[2 * i];
        y[o + left] = a;
    }
}

#endif
