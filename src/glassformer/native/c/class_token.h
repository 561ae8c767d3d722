/* Class token: one learned token in front of the sequence (layers/class_token.py). */
#ifndef GF_CLASS_TOKEN_H
#define GF_CLASS_TOKEN_H

#include "simd.h"

/* y (B, T + 1, C)  <-  token (C), x (B, T, C).  Overwrites y. */
INLINE void class_token_forward(float *y, const float *token, const float *x, int B, int T, int C)
{
    for (int b = 0; b < B; b++, y += (T + 1) * C, x += T * C) {
        memcpy(y, token, (size_t)C * sizeof *y);
        memcpy(y + C, x, (size_t)(T * C) * sizeof *y);
    }
}

/* dx (B, T, C)  <-  dy (B, T + 1, C).  Overwrites dx.  dtoken (C): adds. */
INLINE void class_token_backward(float *dx, float *dtoken, const float *dy, int B, int T, int C)
{
    for (int b = 0; b < B; b++, dx += T * C, dy += (T + 1) * C) {
        for (int c = 0; dtoken && c < C; c++) dtoken[c] += dy[c];
        memcpy(dx, dy + C, (size_t)(T * C) * sizeof *dx);
    }
}

#endif
