/* Cross-entropy of softmax, with or without label smoothing (losses/cross_entropy.py, losses/label_smoothing.py). */
#ifndef GF_CROSS_ENTROPY_H
#define GF_CROSS_ENTROPY_H

#include "simd.h"

/* The loss of B samples, each by its share, and dx (B, K)  <-  x (B, K), labels (B), share (B).  Overwrites dx.
 * A label that is no class gives NaN: the loss must not hide it. A sample without a share is left out. */
INLINE float cross_entropy(float *dx, const float *x, const int32_t *labels, const float *share, int B, int K,
                           float smoothing)
{
    float loss = 0.0f;
    for (int b = 0; b < B; b++, x += K, dx += K) {
        const int32_t label = labels[b];
        float highest = x[0], total = 0.0f, sum = 0.0f;
        for (int k = 1; k < K; k++) highest = x[k] > highest ? x[k] : highest;
        for (int k = 0; k < K; k++) total += expf(x[k] - highest);
        const float log_total = logf(total);
        for (int k = 0; k < K; k++) {
            const float log_p = x[k] - highest - log_total;
            const float target = (k == label ? 1.0f - smoothing : 0.0f) + smoothing / (float)K;
            dx[k] = share[b] == 0.0f ? 0.0f : share[b] * (expf(log_p) - target);
            sum += log_p;
        }
        if (share[b] == 0.0f) continue;
        const float at_label = label >= 0 && label < K ? x[label] - highest - log_total : NAN;
        loss -= share[b] * ((1.0f - smoothing) * at_label + (smoothing > 0.0f ? smoothing / (float)K * sum : 0.0f));
    }
    return loss;
}

#endif
