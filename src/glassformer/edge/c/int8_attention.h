/* Scaled dot-product attention of one query (layers/attention.py), in whole numbers.
 *
 * Scores come so scaled that 2^shift of them double an attention weight: 2^-f is looked up by the first bits of f. */
#ifndef GF_INT8_ATTENTION_H
#define GF_INT8_ATTENTION_H

#include "attention_hook.h"
#include "int8_dots.h"
#include "int8_norm.h"

#define INT8_EXP2_BITS 7

static const int16_t int8_exp2[1 << INT8_EXP2_BITS] = {
    32767, 32590, 32414, 32239, 32065, 31892, 31719, 31548, 31378, 31208, 31040, 30872, 30705, 30540, 30375, 30211,
    30047, 29885, 29724, 29563, 29404, 29245, 29087, 28930, 28774, 28618, 28464, 28310, 28157, 28005, 27854, 27703,
    27554, 27405, 27257, 27110, 26963, 26818, 26673, 26529, 26385, 26243, 26101, 25960, 25820, 25681, 25542, 25404,
    25267, 25130, 24995, 24860, 24725, 24592, 24459, 24327, 24196, 24065, 23935, 23806, 23677, 23549, 23422, 23296,
    23170, 23045, 22920, 22796, 22673, 22551, 22429, 22308, 22187, 22068, 21948, 21830, 21712, 21595, 21478, 21362,
    21247, 21132, 21018, 20904, 20791, 20679, 20568, 20456, 20346, 20236, 20127, 20018, 19910, 19802, 19696, 19589,
    19483, 19378, 19274, 19169, 19066, 18963, 18861, 18759, 18657, 18557, 18456, 18357, 18258, 18159, 18061, 17963,
    17866, 17770, 17674, 17578, 17483, 17389, 17295, 17202, 17109, 17016, 16925, 16833, 16742, 16652, 16562, 16472,
};

/* powers (T)  <-  scores (T).  powers = 32767 * 2^((scores - the highest) / 2^shift).  Returns their sum. */
APART uint32_t int8_softmax(int16_t *powers, const int32_t *scores, int T, int shift)
{
    int32_t highest = scores[0];
    uint32_t total = 0;
    for (int t = 1; t < T; t++) highest = scores[t] > highest ? scores[t] : highest;
    for (int t = 0; t < T; t++) {
        const uint32_t below = (uint32_t)highest - (uint32_t)scores[t], halvings = below >> shift;
        const uint32_t power = (uint32_t)int8_exp2[below >> (shift - INT8_EXP2_BITS) & ((1u << INT8_EXP2_BITS) - 1)];
        const uint32_t here = halvings < 16 ? power >> halvings : 0;
        powers[t] = (int16_t)here;
        total += here;
    }
    return total;
}

/* y (n)  <-  multiplier (n), sums (n).  y = sums / total * multiplier / 2^20.  total: 2^15 - 1 to 2^24. */
APART void int8_divide(int16_t *y, const int32_t *multiplier, const int32_t *sums, uint32_t total, int n)
{
    const int8_root root = int8_inverse_root(total);
    const uint32_t square = (uint32_t)((uint64_t)root.mantissa * (uint64_t)root.mantissa >> 31);
    const int32_t inverse = (int32_t)(square < UINT32_C(0x7FFFFFFF) ? square : UINT32_C(0x7FFFFFFF));
    const int shift = 17 + 2 * root.half;
    for (int i = 0; i < n; i++) {
        const int32_t mean = (int8_multiply(sums[i], inverse) + (INT32_C(1) << (shift - 1))) >> shift; /* 2^12 is 1 */
        y[i] = int8_saturate16(int8_multiply(mean, multiplier[i]));
    }
}

/* z (C), C = H * D  <-  multiplier (C), q (C), k (T, C), v (H, D, T), both in pairs.  Overwrites z.
 * sums: T or D numbers, whichever is more, and powers: T numbers, to work in.  T is at most 512. */
APART void int8_attend(int16_t *z, int32_t *sums, int16_t *powers, const int32_t *multiplier, const int16_t *q,
                             const int8_t *k, const int8_t *v, int T, int H, int D, int shift)
{
    for (int h = 0; h < H; h++, z += D, multiplier += D, q += D, k += 2 * D, v += (D + 1) / 2 * 2 * T) {
        int8_dots(sums, k, NULL, q, D, T, H * D); /* scores = q @ k^T */
        const uint32_t total = int8_softmax(powers, sums, T, shift);
        ATTENTION_WEIGHTS(h, powers, 1.0f / (float)total, T);
        int8_dots(sums, v, NULL, powers, T, D, T); /* z = pattern @ v */
        int8_divide(z, multiplier, sums, total, D);
    }
}

#endif
