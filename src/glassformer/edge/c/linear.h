/* Linear: every token through the same matrix (layers/linear.py).  N tokens, I in, O out. */
#ifndef GF_LINEAR_H
#define GF_LINEAR_H

#include "products.h"

/* y (N, O)  <-  w (I, O), b (O) or NULL, x (N, I).  Overwrites y. */
INLINE void linear_forward(float *y, const float *w, const float *b, const float *x, int N, int I, int O)
{
    for (int n = 0; n < N; n++) products(y + n * O, b, x + n * I, 1, w, O, I, O);
}

/* dx (N, I)  <-  w (I, O), dy (N, O).  Overwrites dx, or adds to it. */
INLINE void linear_backward_x(float *dx, const float *w, const float *dy, int N, int I, int O, int add)
{
    for (int n = 0; n < N; n++) dots(dx + n * I, dy + n * O, w, O, O, I, add);
}

/* dw (I, O) or NULL, db (O) or NULL  +=  x (N, I), dy (N, O).  Adds. */
INLINE void linear_backward_w(float *dw, float *db, const float *x, const float *dy, int N, int I, int O)
{
    if (dw)
        for (int i = 0; i < I; i++) products(dw + i * O, dw + i * O, x + i, I, dy, O, N, O);
    if (db)
        for (int n = 0; n < N; n++)
            for (int o = 0; o < O; o++) db[o] += dy[n * O + o];
}

#endif
