/* Norms of one token at a time, whose width is known at run time: layer norm (layers/layer_norm.py) and RMS norm
 * (layers/rms_norm.py; of one head: layers/head_norm.py). */
#ifndef GF_TEXT_NORM_H
#define GF_TEXT_NORM_H

#include "simd.h"

enum { LAYER_NORM, RMS_NORM };

/* y (C)  <-  gain (C), bias (C), x (C).  y may be x. */
static inline void layer_norm_token(float *y, const float *gain, const float *bias, const float *x, int C, float eps)
{
    vec sum = vec_all(0.0f), squares = vec_all(0.0f);
    for (int c = 0; c < C; c += LANES) sum += vec_load_part(x + c, C - c);
    const vec mean = vec_all(vec_sum(sum) * (1.0f / (float)C));
    for (int c = 0; c < C; c += LANES) {
        vec centred = vec_load_part(x + c, C - c) - mean;
        if (C - c < LANES) centred = vec_fill_from(centred, C - c, 0.0f);
        squares += centred * centred;
    }
    const vec std_inv = vec_all(1.0f / sqrtf(vec_sum(squares) * (1.0f / (float)C) + eps));
    for (int c = 0; c < C; c += LANES) {
        const vec xhat = (vec_load_part(x + c, C - c) - mean) * std_inv;
        vec_store_part(y + c, xhat * vec_load_part(gain + c, C - c) + vec_load_part(bias + c, C - c), C - c);
    }
}

/* y (C)  <-  gain (C), x (C).  y may be x. */
static inline void rms_norm_token(float *y, const float *gain, const float *x, int C, float eps)
{
    vec squares = vec_all(0.0f);
    for (int c = 0; c < C; c += LANES) {
        const vec some = vec_load_part(x + c, C - c);
        squares += some * some;
    }
    const vec rms_inv = vec_all(1.0f / sqrtf(vec_sum(squares) * (1.0f / (float)C) + eps));
    for (int c = 0; c < C; c += LANES)
        vec_store_part(y + c, vec_load_part(x + c, C - c) * rms_inv * vec_load_part(gain + c, C - c), C - c);
}

#endif
