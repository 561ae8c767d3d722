/* Tied head: how well a token's value matches each row of a table (layers/tied_head.py).  N tokens of width C, V rows. */
#ifndef GF_TIED_HEAD_H
#define GF_TIED_HEAD_H

#include "matmul.h"
#include "transpose.h"

#define PIECE (2 * LANES) /* rows of the table that are transposed at a time */

/* logits (N, V)  <-  emb (V, C), b (V) or NULL, x (N, C).  Overwrites logits.  work: C * PIECE floats. */
INLINE void tied_head_forward(float *logits, float *work, const float *emb, const float *b, const float *x, int N, int C,
                              int V)
{
    const int rest = V % PIECE, last = V - rest;
    for (int v = 0; v < last; v += PIECE) {
        transpose(work, PIECE, emb + (size_t)v * C, C, PIECE, C);
        matmul(logits + v, V, b ? b + v : NULL, 0, x, C, 1, work, PIECE, N, C, PIECE);
    }
    if (rest) {
        transpose(work, PIECE, emb + (size_t)last * C, C, rest, C);
        matmul(logits + last, V, b ? b + last : NULL, 0, x, C, 1, work, PIECE, N, C, rest);
    }
}

/* dx (N, C)  <-  emb (V, C), dlogits (N, V).  Overwrites dx. */
INLINE void tied_head_backward_x(float *dx, const float *emb, const float *dlogits, int N, int C, int V)
{
    matmul(dx, C, NULL, 0, dlogits, V, 1, emb, C, N, V, C);
}

/* demb (V, C) or NULL, db (V) or NULL  +=  x (N, C), dlogits (N, V).  Adds. */
INLINE void tied_head_backward_emb(float *demb, float *db, const float *x, const float *dlogits, int N, int C, int V)
{
    if (demb) matmul(demb, C, demb, C, dlogits, 1, V, x, C, V, N, C);
    if (db) add_rows(db, db, dlogits, V, N, V);
}

#endif
