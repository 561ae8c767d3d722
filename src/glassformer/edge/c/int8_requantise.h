/* From sums (int32) to rows (int16), and to keys and values (int8). */
#ifndef GF_INT8_REQUANTISE_H
#define GF_INT8_REQUANTISE_H

#include "int8.h"

/* y (n)  <-  multiplier (n), sums (n).  y = sums * multiplier / 2^32.  Overwrites y. */
APART void int8_requantise(int16_t *y, const int32_t *multiplier, const int32_t *sums, int n)
{
    for (int i = 0; i < n; i++) y[i] = int8_saturate16(int8_multiply(sums[i], multiplier[i]));
}

/* y (n)  <-  base (n), multiplier (n), sums (n).  y = base + sums * multiplier / 2^32.  Overwrites y, which may be base. */
APART void int8_requantise_add(int16_t *y, const int16_t *base, const int32_t *multiplier, const int32_t *sums, int n)
{
    for (int i = 0; i < n; i++) y[i] = int8_saturate16(base[i] + int8_multiply(sums[i], multiplier[i]));
}

/* Keys of token t, in pairs of tokens (int8_dots.h).
 * Row t of y (T, n)  <-  multiplier (n), sums (n).  Overwrites that row. */
APART void int8_keys(int8_t *y, const int32_t *multiplier, const int32_t *sums, int t, int n)
{
    y += t / 2 * 2 * n + t % 2;
    for (int i = 0; i < n; i++) y[2 * i] = int8_saturate8(int8_multiply(sums[i], multiplier[i]));
}

/* Values of token t, transposed: the T values of a channel are a row, channels of a head in pairs.
 * Column t of y (H, D, T)  <-  multiplier (H, D), sums (H, D).  Overwrites that column. */
APART void int8_values(int8_t *y, const int32_t *multiplier, const int32_t *sums, int t, int T, int H, int D)
{
    y += 2 * t;
    for (int h = 0; h < H; h++, y += (D + 1) / 2 * 2 * T)
        for (int d = 0; d < D; d++)
            y[d / 2 * 2 * T + d % 2] = int8_saturate8(int8_multiply(*sums++, *multiplier++));
}

/* An activation by its table (256).  y (n)  <-  table, multiplier (n), sums (n).  Overwrites y. */
APART void int8_lookup(int16_t *y, const int16_t *table, const int32_t *multiplier, const int32_t *sums, int n)
{
    for (int i = 0; i < n; i++) y[i] = table[int8_saturate8(int8_multiply(sums[i], multiplier[i])) + 128];
}

/* y (n)  <-  x (n).  What is negative becomes 0.  Overwrites y, which may be x. */
APART void int8_relu(int16_t *y, const int16_t *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

/* y (n)  <-  a (n), b (n).  Overwrites y, which may be either. */
APART void int8_add(int16_t *y, const int16_t *a, const int16_t *b, int n)
{
    for (int i = 0; i < n; i++) y[i] = int8_saturate16(a[i] + b[i]);
}

/* sums (n)  +=  4 * x (n), row t; row 0 overwrites.  Four times: so that a mean is less than half of any sum. */
APART void int8_pool(int32_t *sums, const int16_t *x, int t, int n)
{
    for (int i = 0; i < n; i++) sums[i] = (t ? sums[i] : 0) + x[i] * 4;
}

#endif
