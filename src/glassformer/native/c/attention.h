/* Scaled dot-product attention, every head by itself (layers/attention.py).
 * B samples, T tokens that look, S tokens looked at, H heads of width D; q, k, v and z lie as (B, T, H, D).
 * pattern is (B, H, T, PADDED(S)): its rows are padded with zeros to whole vectors. */
#ifndef GF_ATTENTION_H
#define GF_ATTENTION_H

#include "matmul.h"
#include "softmax.h"
#include "transpose.h"

/* z (B, T, H, D), cache pattern  <-  q, k, v.  Overwrites its outputs.  transposed: D * PADDED(S) floats to work in. */
INLINE void attention_forward(float *z, float *pattern, float *transposed, const float *q, const float *k, const float *v,
                              int B, int T, int S, int H, int D, float scale)
{
    const int C = H * D, row = PADDED(S);
    for (int d = 0; d < D; d++)
        for (int s = S; s < row; s++) transposed[d * row + s] = 0.0f;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++, pattern += T * row) {
            const float *q_h = q + b * T * C + h * D, *k_h = k + b * S * C + h * D, *v_h = v + b * S * C + h * D;
            transpose(transposed, row, k_h, C, S, D);
            matmul(pattern, row, NULL, 0, q_h, C, 1, transposed, row, T, D, row); /* scores = q @ k^T */
            softmax_forward(pattern, T, S, scale);
            matmul(z + b * T * C + h * D, C, NULL, 0, pattern, row, 1, v_h, C, T, S, D); /* z = pattern @ v */
        }
}

/* dq, dk, dv  <-  q, k, v, pattern, dz.  Overwrites its outputs.
 * transposed: D * PADDED(S), dscores: T * PADDED(S) floats to work in. */
INLINE void attention_backward(float *dq, float *dk, float *dv, float *transposed, float *dscores, const float *q,
                               const float *k, const float *v, const float *pattern, const float *dz, int B, int T,
                               int S, int H, int D, float scale)
{
    const int C = H * D, row = PADDED(S);
    for (int d = 0; d < D; d++)
        for (int s = S; s < row; s++) transposed[d * row + s] = 0.0f;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++, pattern += T * row) {
            const int look = b * T * C + h * D, seen = b * S * C + h * D;
            /* z = pattern @ v */
            matmul(dv + seen, C, NULL, 0, pattern, 1, row, dz + look, C, S, T, D);
            transpose(transposed, row, v + seen, C, S, D);
            matmul(dscores, row, NULL, 0, dz + look, C, 1, transposed, row, T, D, row);
            /* pattern = softmax(q @ k^T * scale) */
            softmax_backward(dscores, pattern, T, S, scale);
            matmul(dq + look, C, NULL, 0, dscores, row, 1, k + seen, C, T, S, D);
            matmul(dk + seen, C, NULL, 0, dscores, 1, row, q + look, C, S, T, D);
        }
}

#endif
