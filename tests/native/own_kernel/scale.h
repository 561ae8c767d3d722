/* Scale: every channel times its gain.  y = x * gain.
 *
 * y (N, C)  <-  gain (C), x (N, C).  Overwrites y.
 * dx (N, C), dgain (C)  <-  gain (C), x (N, C), dy (N, C).  Overwrites dx, adds to dgain. */
#ifndef OWN_SCALE_H
#define OWN_SCALE_H

#include "simd.h"

INLINE void scale_forward(float *y, const float *gain, const float *x, int N, int C)
{
    for (int n = 0; n < N; n++)
        for (int i = 0; i < C; i += LANES) {
            const vec v = vec_load_part(x + n * C + i, LEFT(C, i)), g = vec_load_part(gain + i, LEFT(C, i));
            vec_store_part(y + n * C + i, v * g, LEFT(C, i));
        }
}

INLINE void scale_backward(float *dx, float *dgain, const float *gain, const float *x, const float *dy, int N, int C)
{
    for (int n = 0; n < N; n++)
        for (int i = 0; i < C; i++) {
            dgain[i] += dy[n * C + i] * x[n * C + i];
            dx[n * C + i] = dy[n * C + i] * gain[i];
        }
}

#endif
