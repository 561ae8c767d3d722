/* First token: the answer is read off position 0 (layers/first_token.py). */
#ifndef GF_FIRST_TOKEN_H
#define GF_FIRST_TOKEN_H

#include "simd.h"

/* y (B, C)  <-  x (B, T, C).  Overwrites y. */
INLINE void first_token_forward(float *y, const float *x, int B, int T, int C)
{
    for (int b = 0; b < B; b++) memcpy(y + b * C, x + b * T * C, (size_t)C * sizeof *y);
}

/* dx (B, T, C)  <-  dy (B, C).  Overwrites dx. */
INLINE void first_token_backward(float *dx, const float *dy, int B, int T, int C)
{
    memset(dx, 0, (size_t)(B * T * C) * sizeof *dx);
    for (int b = 0; b < B; b++) memcpy(dx + b * T * C, dy + b * C, (size_t)C * sizeof *dx);
}

#endif
