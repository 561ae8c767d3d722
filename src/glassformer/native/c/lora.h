/* LoRA: a product of two thin matrices beside a weight that stays as it is (layers/lora.py). The thin product is never made:
 * N tokens of width I go through a (I, R), then through b (R, O). */
#ifndef GF_LORA_H
#define GF_LORA_H

#include "matmul.h"

/* hidden (N, R)  <-  scale * x (N, O) @ w (O, R).  Overwrites hidden.  Of x with a: on the way; of dy with b^T: back. */
INLINE void lora_thin(float *hidden, const float *w, const float *x, int N, int O, int R, float scale)
{
    matmul(hidden, R, NULL, 0, x, O, 1, w, R, N, O, R);
    for (int i = 0; i < N * R; i += LANES)
        vec_store_part(hidden + i, vec_load_part(hidden + i, LEFT(N * R, i)) * vec_all(scale), LEFT(N * R, i));
}

/* y (N, O)  +=  b (R, O), hidden (N, R).  Adds. */
INLINE void lora_add(float *y, const float *b, const float *hidden, int N, int R, int O)
{
    matmul(y, O, y, O, hidden, R, 1, b, O, N, R, O);
}

#endif
