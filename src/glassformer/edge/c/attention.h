/* Scaled dot-product attention, one query after the other (layers/attention.py).
 * T tokens, H heads of width D; q, k, v and z lie as (T, H, D), C = H * D. */
#ifndef GF_ATTENTION_H
#define GF_ATTENTION_H

#include "attention_hook.h"
#include "exp.h"
#include "products.h"

/* x (T)  <-  exp((x - the highest of x) * scale).  Returns 1 over their sum. */
APART float softmax_powers(float *x, int T, float scale)
{
    float highest = x[0], total = 0.0f;
    for (int t = 1; t < T; t++) highest = x[t] > highest ? x[t] : highest;
    for (int t = 0; t < T; t++) {
        x[t] = vec_exp_negative((x[t] - highest) * scale);
        total += x[t];
    }
    return 1.0f / total;
}

/* column t of y (C, T)  <-  x (C) */
INLINE void column_forward(float *y, const float *x, int t, int T, int C)
{
    for (int c = 0; c < C; c++) y[c * T + t] = x[c];
}

/* z (C)  <-  q (C), k (C, T): keys by columns, v (T, C).  Overwrites z.  powers: T floats to work in. */
INLINE void attend_row(float *z, float *powers, const float *q, const float *k, const float *v, int T, int H, int D,
                       float scale)
{
    for (int h = 0; h < H; h++) {
        products(powers, NULL, q + h * D, 1, k + h * D * T, T, D, T); /* scores = q @ k^T */
        const float share = softmax_powers(powers, T, scale);
        ATTENTION_WEIGHTS(h, powers, share, T);
        products(z + h * D, NULL, powers, 1, v + h * D, H * D, T, D); /* z = pattern @ v */
        for (int d = 0; d < D; d++) z[h * D + d] *= share;
    }
}

/* z (T, C), cache pattern (H, T, T)  <-  q, k, v.  Overwrites its outputs. */
INLINE void attention_forward(float *z, float *pattern, const float *q, const float *k, const float *v, int T, int H,
                              int D, float scale)
{
    const int C = H * D;
    for (int h = 0; h < H; h++)
        for (int t = 0; t < T; t++, pattern += T) {
            dots(pattern, q + t * C + h * D, k + h * D, C, D, T, 0);
            const float share = softmax_powers(pattern, T, scale);
            for (int s = 0; s < T; s++) pattern[s] *= share;
            products(z + t * C + h * D, NULL, pattern, 1, v + h * D, C, T, D);
        }
}

/* dq, dk, dv (T, C)  <-  q, k, v, pattern (H, T, T), dz (T, C).  Overwrites its outputs, and the pattern.
 * dpattern: T floats to work in. */
INLINE void attention_backward(float *dq, float *dk, float *dv, float *dpattern, float *pattern, const float *q,
                               const float *k, const float *v, const float *dz, int T, int H, int D, float scale)
{
    const int C = H * D;
    for (int h = 0; h < H; h++, pattern += T * T) {
        /* z = pattern @ v */
        for (int s = 0; s < T; s++) products(dv + s * C + h * D, NULL, pattern + s, T, dz + h * D, C, T, D);
        for (int t = 0; t < T; t++) {
            float *row = pattern + t * T, sum = 0.0f;
            dots(dpattern, dz + t * C + h * D, v + h * D, C, D, T, 0);
            /* pattern = softmax(q @ k^T * scale); its rows become those of dscores */
            for (int s = 0; s < T; s++) sum += dpattern[s] * row[s];
            for (int s = 0; s < T; s++) row[s] *= (dpattern[s] - sum) * scale;
            products(dq + t * C + h * D, NULL, row, 1, k + h * D, C, T, D);
        }
        for (int s = 0; s < T; s++) products(dk + s * C + h * D, NULL, pattern + s, T, q + h * D, C, T, D);
    }
}

#endif
