/* Dot products of one int16 row with int8 rows: linear layers (the rows are weights), attention (keys, or values).
 *
 * The int8 rows lie in pairs, the numbers of two rows taking turns: i of row o at (o / 2 * stride + i) * 2 + o % 2.  So
 * both rows of a pair find the numbers of x in their own order in SMLAD and in MVE's vectors.  All three ways give the
 * same whole numbers. */
#ifndef GF_INT8_DOTS_H
#define GF_INT8_DOTS_H

#include "int8.h"

#if defined __ARM_FEATURE_MVE
#include <arm_mve.h>
#elif defined __ARM_FEATURE_DSP
#include <arm_acle.h>

/* Two int16, or two int8 of each of two rows, wherever they lie. */
INT8_KERNEL inline uint32_t int8_word(const void *p)
{
    uint32_t word;
    memcpy(&word, p, 4);
    return word;
}
#endif

/* y (O)  <-  w (O, stride) in pairs, of which I numbers are read, bias (O) or NULL, x (I).  Overwrites y. */
INT8_KERNEL void int8_dots(int32_t *y, const int8_t *w, const int32_t *bias, const int16_t *x, int I, int O, int stride)
{
    int o = 0;
#if defined __ARM_FEATURE_MVE
    for (; o + 2 <= O; o += 2, w += 2 * stride) {
        int32_t a = 0, b = 0;
        for (int i = 0; i < I; i += 8) {
            const mve_pred16_t left = vctp16q((uint32_t)(I - i));
            const int16x8_t row = vldrhq_z_s16(x + i, left);
            const int8x16_t both = vreinterpretq_s8_s16(vldrhq_z_s16((const int16_t *)(const void *)(w + 2 * i), left));
            a = vmladavaq_s16(a, row, vmovlbq_s8(both));
            b = vmladavaq_s16(b, row, vmovltq_s8(both));
        }
        y[o] = a, y[o + 1] = b;
    }
#else
    for (; o + 4 <= O; o += 4, w += 4 * stride) {
        const int8_t *p = w, *q = w + 2 * stride;
        int32_t a = 0, b = 0, c = 0, d = 0;
        int i = 0;
#if defined __ARM_FEATURE_DSP
        for (; i + 2 <= I; i += 2, p += 4, q += 4) {
            const int16x2_t two = (int16x2_t)int8_word(x + i);
            const uint32_t ab = int8_word(p), cd = int8_word(q);
            a = __smlad(two, __sxtb16((int8x4_t)ab), a);
            b = __smlad(two, __sxtb16((int8x4_t)(ab >> 8)), b);
            c = __smlad(two, __sxtb16((int8x4_t)cd), c);
            d = __smlad(two, __sxtb16((int8x4_t)(cd >> 8)), d);
        }
#endif
        for (; i < I; i++, p += 2, q += 2) {
            a += x[i] * p[0];
            b += x[i] * p[1];
            c += x[i] * q[0];
            d += x[i] * q[1];
        }
        y[o] = a, y[o + 1] = b, y[o + 2] = c, y[o + 3] = d;
    }
#endif
    for (; o < O; o++, w += o % 2 ? 1 : 2 * stride - 1) {
        y[o] = 0;
        for (int i = 0; i < I; i++) y[o] += x[i] * w[2 * i];
    }
    if (bias)
        for (o = 0; o < O; o++) y[o] += bias[o];
}

#endif
