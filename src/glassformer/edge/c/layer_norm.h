/* Layer normalisation: each token to mean 0 and variance 1, then a learned gain and bias (layers/layer_norm.py). */
#ifndef GF_LAYER_NORM_H
#define GF_LAYER_NORM_H

#include <math.h>

#include "simd.h"

/* Returns 1 / the standard deviation of x (C).  xhat (C)  <-  x at mean 0 and variance 1, or may be x. */
static float normalised(float *xhat, const float *x, int C, float eps)
{
    float mean = 0.0f, variance = 0.0f;
    for (int c = 0; c < C; c++) mean += x[c];
    mean *= 1.0f / (float)C;
    for (int c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean);
    const float std_inv = 1.0f / sqrtf(variance * (1.0f / (float)C) + eps);
    for (int c = 0; c < C; c++) xhat[c] = (x[c] - mean) * std_inv;
    return std_inv;
}

/* y (C)  <-  gain (C), bias (C), x (C).  Overwrites y, which may be x. */
APART void layer_norm_row(float *y, const float *gain, const float *bias, const float *x, int C, float eps)
{
    float mean = 0.0f, variance = 0.0f;
    for (int c = 0; c < C; c++) mean += x[c];
    mean *= 1.0f / (float)C;
    for (int c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean);
    const float std_inv = 1.0f / sqrtf(variance * (1.0f / (float)C) + eps);
    for (int c = 0; c < C; c++) y[c] = (x[c] - mean) * std_inv * gain[c] + bias[c];
}

/* y (N, C), cache xhat (N, C), std_inv (N)  <-  gain (C), bias (C), x (N, C).  Overwrites its outputs. */
INLINE void layer_norm_forward(float *y, float *xhat, float *std_inv, const float *gain, const float *bias,
                               const float *x, int N, int C, float eps)
{
    for (int n = 0; n < N; n++, x += C, y += C, xhat += C) {
        std_inv[n] = normalised(xhat, x, C, eps);
        for (int c = 0; c < C; c++) y[c] = xhat[c] * gain[c] + bias[c];
    }
}

/* dx (N, C)  <-  gain, xhat, std_inv, dy (N, C).  Overwrites dx, or adds to it.  dgain (C) or NULL, dbias (C) or NULL: adds,
 * after all of dx: they may be the gain and the bias themselves, updated at once. */
INLINE void layer_norm_backward(float *dx, float *dgain, float *dbias, const float *gain, const float *xhat,
                                const float *std_inv, const float *dy, int N, int C, int add)
{
    for (int n = 0; n < N; n++) {
        const float *hat = xhat + n * C, *d = dy + n * C;
        float through_mean = 0.0f, through_std = 0.0f;
        for (int c = 0; c < C; c++) {
            const float dxhat = d[c] * gain[c];
            through_mean += dxhat;
            through_std += dxhat * hat[c];
        }
        through_mean /= (float)C;
        through_std /= (float)C;
        for (int c = 0; c < C; c++) {
            const float back = std_inv[n] * (d[c] * gain[c] - through_mean - hat[c] * through_std);
            dx[n * C + c] = add ? dx[n * C + c] + back : back;
        }
    }
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++) {
            if (dgain) dgain[c] += dy[n * C + c] * xhat[n * C + c];
            if (dbias) dbias[c] += dy[n * C + c];
        }
}

#endif
