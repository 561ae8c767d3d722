/* Mean pool: one vector for the whole sequence (layers/mean_pool.py). */
#ifndef GF_MEAN_POOL_H
#define GF_MEAN_POOL_H

#include "simd.h"

/* y (B, C)  <-  x (B, T, C).  Overwrites y. */
INLINE void mean_pool_forward(float *y, const float *x, int B, int T, int C)
{
    for (int b = 0; b < B; b++, x += T * C)
        for (int c = 0; c < C; c += LANES) {
            vec sum = vec_all(0.0f);
            for (int t = 0; t < T; t++) sum += vec_load_part(x + t * C + c, LEFT(C, c));
            vec_store_part(y + b * C + c, sum * vec_all(1.0f / (float)T), LEFT(C, c));
        }
}

/* dx (B, T, C)  <-  dy (B, C).  Overwrites dx. */
INLINE void mean_pool_backward(float *dx, const float *dy, int B, int T, int C)
{
    for (int b = 0; b < B; b++, dx += T * C)
        for (int c = 0; c < C; c += LANES) {
            const vec d = vec_load_part(dy + b * C + c, LEFT(C, c)) * vec_all(1.0f / (float)T);
            for (int t = 0; t < T; t++) vec_store_part(dx + t * C + c, d, LEFT(C, c));
        }
}

#endif
