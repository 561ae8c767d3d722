/* Optimisers, as optax has them: n parameters p, the sum g of their gradients over `count` samples, their memory m and v.
 * g is cleared. */
#ifndef GF_OPTIMISERS_H
#define GF_OPTIMISERS_H

#include <math.h>

#include "simd.h"

static void sgd(float *p, float *g, int n, float count, float rate)
{
    for (int i = 0; i < n; i++) p[i] -= rate * (g[i] / count), g[i] = 0.0f;
}

static void momentum(float *p, float *g, float *m, int n, float count, float rate, float decay)
{
    for (int i = 0; i < n; i++) {
        m[i] = g[i] / count + decay * m[i];
        p[i] -= rate * m[i];
        g[i] = 0.0f;
    }
}

/* Adam where weight_decay is 0.  old_m is b1, new_m 1 - b1.  unbias: 1 - b1^step and 1 - b2^step, of the step before. */
static void adamw(float *p, float *g, float *m, float *v, int n, float count, float rate, float unbias[2], float old_m,
                  float new_m, float old_v, float new_v, float eps, float weight_decay)
{
    unbias[0] = old_m * unbias[0] + new_m;
    unbias[1] = old_v * unbias[1] + new_v;
    for (int i = 0; i < n; i++) {
        const float mean = g[i] / count;
        m[i] = old_m * m[i] + new_m * mean;
        v[i] = old_v * v[i] + new_v * mean * mean;
        p[i] -= rate * (m[i] / unbias[0] / (sqrtf(v[i] / unbias[1]) + eps) + weight_decay * p[i]);
        g[i] = 0.0f;
    }
}

#endif
