/* Cross-entropy of softmax, with or without label smoothing (losses/cross_entropy.py, losses/label_smoothing.py). */
#ifndef GF_CROSS_ENTROPY_H
#define GF_CROSS_ENTROPY_H

#include "exp.h"

/* The loss of B samples, each by its share, and dx (B, K)  <-  x (B, K), labels (B), share (B).  Overwrites dx.
 * A label that is no class gives NaN: the loss must not hide it. A sample without a share is left out. */
INLINE float cross_entropy(float *dx, const float *x, const int32_t *labels, const float *share, int B, int K,
                           float smoothing)
{
    float loss = 0.0f;
    for (int b = 0; b < B; b++, x += K, dx += K) {
        const int32_t label = labels[b];
        if (share[b] == 0.0f) {
            memset(dx, 0, (size_t)K * sizeof *dx);
            continue;
        }
        vec highest = vec_all(-INFINITY), total = vec_all(0.0f), sum = vec_all(0.0f);
        for (int k = 0; k < K; k += LANES) {
            const vec v = vec_load_part(x + k, LEFT(K, k));
            highest = vec_max(highest, K % LANES ? vec_fill_from(v, K - k, -INFINITY) : v);
        }
        const float top = vec_highest(highest);
        for (int k = 0; k < K; k += LANES) {
            const vec v = vec_load_part(x + k, LEFT(K, k)) - vec_all(top);
            const vec e = vec_exp(K % LANES ? vec_fill_from(v, K - k, -INFINITY) : v);
            vec_store_part(dx + k, e, LEFT(K, k));
            total += e;
            sum += K % LANES ? vec_fill_from(v, K - k, 0.0f) : v;
        }
        const float whole = vec_sum(total), log_total = logf(whole), even = share[b] * smoothing / (float)K;
        for (int k = 0; k < K; k += LANES)
            vec_store_part(dx + k, vec_load_part(dx + k, LEFT(K, k)) * vec_all(share[b] / whole) - vec_all(even), LEFT(K, k));
        const int known = label >= 0 && label < K;
        if (known) dx[label] -= share[b] * (1.0f - smoothing);
        const float at_label = known ? x[label] - top - log_total : NAN;
        loss -= share[b] * ((1.0f - smoothing) * at_label);
        if (smoothing > 0.0f) loss -= share[b] * smoothing * (vec_sum(sum) / (float)K - log_total);
    }
    return loss;
}

#endif
