/* LoRA: scale * (x @ a) @ b, added to a linear layer's y = x @ w (layers/lora.py).  N tokens, I in, O out, rank R.
 * w stays as it is, and no matrix of its size is made. */
#ifndef GF_LORA_H
#define GF_LORA_H

#include "products.h"

/* y (O)  +=  a (I, R), b (R, O), x (I).  Adds; nothing is kept. */
INLINE void lora_row(float *y, const float *a, const float *b, const float *x, int I, int O, int R, float scale)
{
    for (int r = 0; r < R; r++) {
        float h = 0.0f;
        for (int i = 0; i < I; i++) h += x[i] * a[i * R + r];
        h *= scale;
        for (int o = 0; o < O; o++) y[o] += h * b[r * O + o];
    }
}

/* y (N, O), cache h (N, R)  <-  a (I, R), b (R, O), x (N, I).  Adds to y, overwrites h. */
INLINE void lora_forward(float *y, float *h, const float *a, const float *b, const float *x, int N, int I, int O, int R,
                         float scale)
{
    for (int n = 0; n < N; n++) {
        products(h + n * R, NULL, x + n * I, 1, a, R, I, R);
        for (int r = 0; r < R; r++) h[n * R + r] *= scale;
        products(y + n * O, y + n * O, h + n * R, 1, b, O, R, O);
    }
}

/* dx (N, I) or NULL, da (I, R), db (R, O), work dh (N, R)  <-  a, b, x, h, dy (N, O).  Adds to dx, da and db.
 * da and db may be a and b: both are read before they change. */
INLINE void lora_backward(float *dx, float *da, float *db, float *dh, const float *a, const float *b, const float *x,
                          const float *h, const float *dy, int N, int I, int O, int R, float scale)
{
    for (int n = 0; n < N; n++) {
        dots(dh + n * R, dy + n * O, b, O, O, R, 0);
        for (int r = 0; r < R; r++) dh[n * R + r] *= scale;
        if (dx) dots(dx + n * I, dh + n * R, a, R, R, I, 1);
    }
    for (int i = 0; i < I; i++) products(da + i * R, da + i * R, x + i, I, dh, R, N, R);
    for (int r = 0; r < R; r++) products(db + r * O, db + r * O, h + r, R, dy, O, N, O);
}

#endif
