/* Span head: the tokens are the classes, so what they score comes transposed (models/bert_heads.py). */
#ifndef GF_SPAN_HEAD_H
#define GF_SPAN_HEAD_H

#include "transpose.h"

/* y (B, C, N)  <-  x (B, N, C).  Overwrites y.  Its own backward, with N and C exchanged. */
INLINE void tokens_last(float *y, const float *x, int B, int N, int C)
{
    for (int b = 0; b < B; b++) transpose(y + b * N * C, N, x + b * N * C, C, N, C);
}

#endif
