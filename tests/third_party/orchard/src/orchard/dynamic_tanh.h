/* Dynamic tanh.  y = tanh(alpha * x) * gain + bias.
 *
 * y (N, C), squashed (N, C)  <-  alpha (1), gain (C), bias (C), x (N, C).  Overwrites its outputs.
 * dx (N, C), dalpha (1), dgain (C), dbias (C)  <-  alpha, gain, squashed, x, dy.  Overwrites dx, adds to the others. */
#ifndef ORCHARD_DYNAMIC_TANH_H
#define ORCHARD_DYNAMIC_TANH_H

#include <math.h>

#include "simd.h"

INLINE void dynamic_tanh_forward(float *y, float *squashed, const float *alpha, const float *gain, const float *bias,
                                 const float *x, int N, int C)
{
    for (int n = 0; n < N; n++)
        for (int i = 0; i < C; i++) {
            squashed[n * C + i] = tanhf(alpha[0] * x[n * C + i]);
            y[n * C + i] = squashed[n * C + i] * gain[i] + bias[i];
        }
}

INLINE void dynamic_tanh_backward(float *dx, float *dalpha, float *dgain, float *dbias, const float *alpha,
                                  const float *gain, const float *squashed, const float *x, const float *dy, int N, int C)
{
    for (int n = 0; n < N; n++)
        for (int i = 0; i < C; i++) {
            const float d = dy[n * C + i], s = squashed[n * C + i], dinner = d * gain[i] * (1 - s * s);
            dgain[i] += d * s;
            dbias[i] += d;
            dalpha[0] += dinner * x[n * C + i];
            dx[n * C + i] = dinner * alpha[0];
        }
}

#endif
