/* Softmax along rows (layers/softmax.py), in place, of rows of K numbers padded to whole vectors. */
#ifndef GF_SOFTMAX_H
#define GF_SOFTMAX_H

#include "exp.h"

/* y (N, PADDED(K))  <-  softmax(y * scale).  A row that is -infinity everywhere gives zeros; so does the padding. */
INLINE void softmax_forward(float *y, int N, int K, float scale)
{
    const int last = PADDED(K) - LANES; /* where the last vector begins */
    for (int n = 0; n < N; n++, y += PADDED(K)) {
        vec highest = vec_fill_from(vec_load(y + last), K - last, -INFINITY), total = vec_all(0.0f);
        vec_store(y + last, highest);
        for (int k = 0; k < last; k += LANES) highest = vec_max(highest, vec_load(y + k));
        const float top = vec_highest(highest), shift = top == -INFINITY ? 0.0f : top;
        for (int k = 0; k <= last; k += LANES) {
            const vec weight = vec_exp((vec_load(y + k) - vec_all(shift)) * vec_all(scale));
            vec_store(y + k, weight);
            total += weight;
        }
        const float sum = vec_sum(total), share = 1.0f / (sum == 0.0f ? 1.0f : sum);
        for (int k = 0; k <= last; k += LANES) vec_store(y + k, vec_load(y + k) * vec_all(share));
    }
}

/* dy (N, PADDED(K))  <-  y * (dy - sum(dy * y)) * scale.  In place: dy becomes the gradient of what was scaled. */
INLINE void softmax_backward(float *dy, const float *y, int N, int K, float scale)
{
    for (int n = 0; n < N; n++, y += PADDED(K), dy += PADDED(K)) {
        vec total = vec_all(0.0f);
        for (int k = 0; k < K; k += LANES) total += vec_load(dy + k) * vec_load(y + k);
        const vec sum = vec_all(vec_sum(total));
        for (int k = 0; k < K; k += LANES) {
            const vec share = vec_load(y + k);
            vec_store(dy + k, share * (vec_load(dy + k) - sum) * vec_all(scale));
        }
    }
}

#endif
