/* What comes in becomes int16, what goes out floats; so do rows in front of a layer that stays float, and behind it. */
#ifndef GF_INT8_IO_H
#define GF_INT8_IO_H

#include "int8.h"

/* y (n)  <-  x (n), bytes, times 128: all of int16 is used. */
APART void int8_bytes(int16_t *y, const uint8_t *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = (int16_t)(x[i] * 128);
}

/* y (P * P * G)  <-  patch t of x (rows, X, G), bytes, squares of side P (layers/patches.py). */
APART void int8_patch(int16_t *y, const uint8_t *x, int t, int X, int G, int P)
{
    const int across = X / P;
    x += (t / across * P * X + t % across * P) * G;
    for (int line = 0; line < P; line++, x += X * G, y += P * G) int8_bytes(y, x, P * G);
}

/* y (n)  <-  x (n). */
APART void int8_copy(int16_t *y, const int16_t *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = x[i];
}

/* y (n)  <-  x (n) * factor / 2, rounded; NaN becomes the least.  One product, and no sum that could be fused with it. */
APART void int8_quantise(int16_t *y, const float *x, int n, float factor)
{
    for (int i = 0; i < n; i++) {
        const float twice = x[i] * factor;
        const int32_t whole = twice > -65536.0f ? twice < 65534.0f ? (int32_t)twice : 65534 : -65536;
        y[i] = (int16_t)((whole + (whole < 0 ? -1 : 1)) / 2);
    }
}

/* y (n)  <-  x (n) * scale. */
APART void int8_dequantise(float *y, const int16_t *x, int n, float scale)
{
    for (int i = 0; i < n; i++) y[i] = (float)x[i] * scale;
}

/* Logits.  y (n)  <-  scale (n), sums (n). */
APART void int8_dequantise_sums(float *y, const float *scale, const int32_t *sums, int n)
{
    for (int i = 0; i < n; i++) y[i] = (float)sums[i] * scale[i];
}

#endif
