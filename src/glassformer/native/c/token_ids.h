/* Token ids and what comes with them: a sample is a row of 32-bit integers, and buffers are floats, so an id lies in a
 * float's place with its bits as they are.  A sample: T ids; then, where texts are padded, T yes or no (0: padding); then,
 * where values are dropped out, a key of two words. */
#ifndef GF_TOKEN_IDS_H
#define GF_TOKEN_IDS_H

#include "simd.h"

INLINE int32_t id_at(const float *ids, int t)
{
    int32_t id;
    memcpy(&id, ids + t, sizeof id);
    return id;
}

/* words (n)  <-  the n words of a sample from `first` on.  Overwrites words. */
INLINE void words_forward(float *words, const int32_t *sample, int n, int first)
{
    memcpy(words, sample + first, (size_t)n * sizeof *words);
}

/* unseen (row): what is added to scores, 0 at tokens and -infinity at padding and behind the T tokens  <-  the T words of
 * a sample from `first` on.  Overwrites unseen. */
INLINE void padding_forward(float *unseen, const int32_t *sample, int T, int row, int first)
{
    for (int t = 0; t < row; t++) unseen[t] = t < T && sample[first + t] ? 0.0f : -INFINITY;
}

#endif
