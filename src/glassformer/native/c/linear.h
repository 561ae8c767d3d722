/* Linear: every token through the same matrix (layers/linear.py).  N tokens, I in, O out. */
#ifndef GF_LINEAR_H
#define GF_LINEAR_H

#include "matmul.h"

/* y (N, O)  <-  w (I, O), b (O) or NULL, x (N, I).  Overwrites y. */
INLINE void linear_forward(float *y, const float *w, const float *b, const float *x, int N, int I, int O)
{
    matmul(y, O, b, 0, x, I, 1, w, O, N, I, O);
}

/* dx (N, I)  <-  w_t (O, I), the transpose of w, dy (N, O).  Overwrites dx, or adds to it. */
INLINE void linear_backward_x(float *dx, const float *w_t, const float *dy, int N, int I, int O, int add)
{
    matmul(dx, I, add ? dx : NULL, I, dy, O, 1, w_t, I, N, O, I);
}

/* dw (I, O) or NULL, db (O) or NULL  +=  x (N, I), dy (N, O).  Adds. */
INLINE void linear_backward_w(float *dw, float *db, const float *x, const float *dy, int N, int I, int O)
{
    if (dw) matmul(dw, O, dw, O, x, 1, I, dy, O, I, N, O);
    if (db) add_rows(db, db, dy, O, N, O);
}

/* The same for M columns, of which dw, db and dy are given the first.  Overwrites them, or adds. */
INLINE void linear_backward_columns(float *dw, float *db, const float *x, const float *dy, int N, int I, int O, int M,
                                    int add)
{
    matmul(dw, O, add ? dw : NULL, O, x, 1, I, dy, O, I, N, M);
    if (db) add_rows(db, add ? db : NULL, dy, O, N, M);
}

#endif
