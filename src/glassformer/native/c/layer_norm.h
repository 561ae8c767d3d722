/* Layer normalisation (layers/layer_norm.py).  N tokens of width C. */
#ifndef GF_LAYER_NORM_H
#define GF_LAYER_NORM_H

#include "simd.h"

/* y (N, C), cache xhat (N, C), std_inv (N)  <-  gain (C), bias (C), x (N, C).  Overwrites its outputs. */
INLINE void layer_norm_forward(float *y, float *xhat, float *std_inv, const float *gain, const float *bias,
                               const float *x, int N, int C, float eps)
{
    for (int n = 0; n < N; n++, x += C, y += C, xhat += C) {
        vec sum = vec_all(0.0f), squares = vec_all(0.0f);
        for (int c = 0; c < C; c += LANES) sum += vec_load_part(x + c, LEFT(C, c));
        const vec mean = vec_all(vec_sum(sum) * (1.0f / (float)C));
        for (int c = 0; c < C; c += LANES) {
            vec centred = vec_load_part(x + c, LEFT(C, c)) - mean;
            if (C % LANES) centred = vec_fill_from(centred, C - c, 0.0f);
            squares += centred * centred;
        }
        std_inv[n] = 1.0f / sqrtf(vec_sum(squares) * (1.0f / (float)C) + eps);
        for (int c = 0; c < C; c += LANES) {
            const vec hat = (vec_load_part(x + c, LEFT(C, c)) - mean) * vec_all(std_inv[n]);
            vec_store_part(xhat + c, hat, LEFT(C, c));
            vec_store_part(y + c, hat * vec_load_part(gain + c, LEFT(C, c)) + vec_load_part(bias + c, LEFT(C, c)), LEFT(C, c));
        }
    }
}

/* dx (N, C)  <-  gain, xhat, std_inv, dy (N, C).  Overwrites dx, or adds to it.  dgain (C), dbias (C), or NULL: adds. */
INLINE void layer_norm_backward(float *dx, float *dgain, float *dbias, const float *gain, const float *xhat,
                                const float *std_inv, const float *dy, int N, int C, int add)
{
    for (int n = 0; n < N; n++, dx += C, xhat += C, dy += C) {
        vec sum = vec_all(0.0f), products = vec_all(0.0f);
        for (int c = 0; c < C; c += LANES) {
            const vec d = vec_load_part(dy + c, LEFT(C, c)), hat = vec_load_part(xhat + c, LEFT(C, c));
            const vec dxhat = d * vec_load_part(gain + c, LEFT(C, c));
            if (dgain) vec_store_part(dgain + c, vec_load_part(dgain + c, LEFT(C, c)) + d * hat, LEFT(C, c));
            if (dbias) vec_store_part(dbias + c, vec_load_part(dbias + c, LEFT(C, c)) + d, LEFT(C, c));
            sum += dxhat;
            products += dxhat * hat;
        }
        const vec through_mean = vec_all(vec_sum(sum) / (float)C), through_std = vec_all(vec_sum(products) / (float)C);
        for (int c = 0; c < C; c += LANES) {
            const vec dxhat = vec_load_part(dy + c, LEFT(C, c)) * vec_load_part(gain + c, LEFT(C, c));
            const vec d = vec_all(std_inv[n]) * (dxhat - through_mean - vec_load_part(xhat + c, LEFT(C, c)) * through_std);
            vec_store_part(dx + c, add ? vec_load_part(dx + c, LEFT(C, c)) + d : d, LEFT(C, c));
        }
    }
}

#endif
