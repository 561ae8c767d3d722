/* Rotary positions: pairs of values turned by an angle that grows with the place (layers/rotary.py).
 * B samples, T tokens, H heads of width D; cosines and sines of the angles are (T, D / 2). */
#ifndef GF_ROTARY_H
#define GF_ROTARY_H

#include "simd.h"

/* y (B, T, H, D)  <-  cosine, sine, x (B, T, H, D).  Overwrites y, which may be x.  sign: 1, or -1 to turn back, which is
 * the backward: dx  <-  cosine, sine, dy. */
INLINE void rotary_turn(float *y, const float *cosine, const float *sine, const float *x, int B, int T, int H, int D,
                        float sign)
{
    const int half = D / 2;
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++)
            for (int h = 0; h < H; h++, x += D, y += D)
                for (int i = 0; i < half; i += LANES) {
                    const int n = LEFT(half, i);
                    const vec cos = vec_load_part(cosine + t * half + i, n);
                    const vec sin = vec_all(sign) * vec_load_part(sine + t * half + i, n);
                    const vec left = vec_load_part(x + i, n), right = vec_load_part(x + half + i, n);
                    vec_store_part(y + i, left * cos - right * sin, n);
                    vec_store_part(y + half + i, right * cos + left * sin, n);
                }
}

#endif
