/* Cross-entropy of softmax, with or without label smoothing (losses/cross_entropy.py), without a library. */
#ifndef GF_CROSS_ENTROPY_H
#define GF_CROSS_ENTROPY_H

#include "exp.h"

/* log(x) of a normal number above 0: x = 2^n m with m in [0.75, 1.5), log(m) by the series of the inverse hyperbolic
 * tangent of s = (m - 1) / (m + 1), of which five terms leave 3e-9. */
static float log_of(float x)
{
    uint32_t bits;
    float m;
    memcpy(&bits, &x, sizeof bits);
    const int n = (int)((bits + 0x00400000u) >> 23) - 127;
    bits -= (uint32_t)n << 23;
    memcpy(&m, &bits, sizeof m);
    const float s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
    const float series = 1.0f + s2 * (0.333333333f + s2 * (0.2f + s2 * (0.142857143f + s2 * 0.111111111f)));
    return (float)n * 0.693147181f + 2.0f * s * series;
}

/* The loss, and dx (K)  <-  x (K), times `factor`.  Overwrites dx. */
static float cross_entropy(float *dx, const float *x, int label, int K, float smoothing, float factor)
{
    float highest = x[0], total = 0.0f, sum = 0.0f;
    for (int k = 1; k < K; k++) highest = x[k] > highest ? x[k] : highest;
    for (int k = 0; k < K; k++) total += vec_exp_negative(x[k] - highest);
    const float log_total = log_of(total);
    for (int k = 0; k < K; k++) {
        const float target = (k == label ? 1.0f - smoothing : 0.0f) + smoothing / (float)K;
        sum += target * (x[k] - highest - log_total);
        dx[k] = factor * (vec_exp_negative(x[k] - highest) / total - target);
    }
    return -sum;
}

#endif
