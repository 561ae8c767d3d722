/* RMS normalisation (layers/rms_norm.py).  N tokens of width C. */
#ifndef GF_RMS_NORM_H
#define GF_RMS_NORM_H

#include "simd.h"

/* y (N, C), cache xhat (N, C), rms_inv (N)  <-  gain (C), x (N, C).  Overwrites its outputs. */
INLINE void rms_norm_forward(float *y, float *xhat, float *rms_inv, const float *gain, const float *x, int N, int C,
                             float eps)
{
    for (int n = 0; n < N; n++, x += C, y += C, xhat += C) {
        vec squares = vec_all(0.0f);
        for (int c = 0; c < C; c += LANES) {
            const vec v = vec_load_part(x + c, LEFT(C, c));
            squares += v * v;
        }
        rms_inv[n] = 1.0f / sqrtf(vec_sum(squares) * (1.0f / (float)C) + eps);
        for (int c = 0; c < C; c += LANES) {
            const vec hat = vec_load_part(x + c, LEFT(C, c)) * vec_all(rms_inv[n]);
            vec_store_part(xhat + c, hat, LEFT(C, c));
            vec_store_part(y + c, hat * vec_load_part(gain + c, LEFT(C, c)), LEFT(C, c));
        }
    }
}

/* dx (N, C)  <-  gain, xhat, rms_inv, dy (N, C).  Overwrites dx, or adds to it.  dgain (C) or NULL: adds. */
INLINE void rms_norm_backward(float *dx, float *dgain, const float *gain, const float *xhat, const float *rms_inv,
                              const float *dy, int N, int C, int add)
{
    for (int n = 0; n < N; n++, dx += C, xhat += C, dy += C) {
        vec products = vec_all(0.0f);
        for (int c = 0; c < C; c += LANES) {
            const vec d = vec_load_part(dy + c, LEFT(C, c)), hat = vec_load_part(xhat + c, LEFT(C, c));
            if (dgain) vec_store_part(dgain + c, vec_load_part(dgain + c, LEFT(C, c)) + d * hat, LEFT(C, c));
            products += d * vec_load_part(gain + c, LEFT(C, c)) * hat;
        }
        const vec through_rms = vec_all(vec_sum(products) / (float)C);
        for (int c = 0; c < C; c += LANES) {
            const vec dxhat = vec_load_part(dy + c, LEFT(C, c)) * vec_load_part(gain + c, LEFT(C, c));
            const vec d = vec_all(rms_inv[n]) * (dxhat - vec_load_part(xhat + c, LEFT(C, c)) * through_rms);
            vec_store_part(dx + c, add ? vec_load_part(dx + c, LEFT(C, c)) + d : d, LEFT(C, c));
        }
    }
}

#endif
