/* Optimisers, as optax has them: n parameters p, their gradient g, their memory m and v, learning rate lr. */
#ifndef GF_OPTIMISERS_H
#define GF_OPTIMISERS_H

#include "simd.h"

INLINE void sgd(float *restrict p, const float *restrict g, int n, float lr)
{
    for (int i = 0; i < n; i++) p[i] -= lr * g[i];
}

INLINE void momentum(float *restrict p, float *restrict m, const float *restrict g, int n, float lr, float decay)
{
    for (int i = 0; i < n; i++) {
        m[i] = g[i] + decay * m[i];
        p[i] -= lr * m[i];
    }
}

/* AdamW; Adam where weight_decay is 0.  step counts from 1.  b1 and b2 in double: of 1 - 0.999 a float keeps four digits. */
INLINE void adamw(float *restrict p, float *restrict m, float *restrict v, const float *restrict g, int n, float lr,
                  double b1, double b2, float eps, float weight_decay, int step)
{
    const float unbias_m = (float)(1.0 / (1.0 - pow(b1, step))), unbias_v = (float)(1.0 / (1.0 - pow(b2, step)));
    const float old_m = (float)b1, new_m = (float)(1.0 - b1), old_v = (float)b2, new_v = (float)(1.0 - b2);
    for (int i = 0; i < n; i++) {
        m[i] = old_m * m[i] + new_m * g[i];
        v[i] = old_v * v[i] + new_v * g[i] * g[i];
        p[i] -= lr * (m[i] * unbias_m / (sqrtf(v[i] * unbias_v) + eps) + weight_decay * p[i]);
    }
}

/* Clipping by the norm of the whole gradient: what every entry is multiplied by. */
INLINE double sum_of_squares(const float *g, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += (double)g[i] * g[i];
    return sum;
}

INLINE float clip_factor(double squares, float most)
{
    const double norm = sqrt(squares);
    return norm < most ? 1.0f : (float)(most / norm);
}

#endif
