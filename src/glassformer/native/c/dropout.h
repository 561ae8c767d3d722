/* Dropout (layers/dropout.py): the very values that JAX drops. Its generator is threefry (Salmon et al., 2011): a function
 * of a key and of a counter, here the place of a number in the whole batch. So nothing is kept: backward asks again. */
#ifndef GF_DROPOUT_H
#define GF_DROPOUT_H

#include "token_ids.h"

#if LANES == 1
typedef uint32_t uvec;
#else
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));
#endif

/* Twenty rounds, as jax.random has them; the two results are folded into one, as it does for numbers of 32 bits. */
INLINE uvec threefry(uint32_t key0, uint32_t key1, uvec high, uvec low)
{
    static const int turns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t keys[3] = {key0, key1, key0 ^ key1 ^ 0x1BD11BDAu};
    uvec a = high + keys[0], b = low + keys[1];
    UNROLL
    for (int i = 0; i < 5; i++) {
        UNROLL
        for (int r = 0; r < 4; r++) {
            const int turn = turns[i % 2][r];
            a += b;
            b = (b << turn) | (b >> (32 - turn));
            b ^= a;
        }
        a += keys[(i + 1) % 3];
        b += keys[(i + 2) % 3] + (uint32_t)(i + 1);
    }
    return a ^ b;
}

/* Numbers from 0 to below 1 at the places from `place` on. */
INLINE vec vec_uniform(uint32_t key0, uint32_t key1, uint64_t place)
{
    uvec low = {0}, high = {0}, bits;
    vec u;
#if LANES == 1
    low = (uint32_t)place;
    high = (uint32_t)(place >> 32);
#else
    UNROLL
    for (int i = 0; i < LANES; i++) low[i] = (uint32_t)(place + (uint64_t)i), high[i] = (uint32_t)((place + (uint64_t)i) >> 32);
#endif
    bits = (threefry(key0, key1, high, low) >> 9) | 0x3F800000u; /* from 1 to below 2 */
    memcpy(&u, &bits, sizeof u);
    return u - vec_all(1.0f);
}

/* y (B, n)  <-  x (B, n) / (1 - rate) where it is kept, else 0.  Overwrites y, which may be x.  Backward is the same, of dy.
 * keys (B, words): a sample's place in the batch, and two words for each layer, of which this is number `layer`. */
INLINE void dropout_apply(float *y, const float *keys, const float *x, int B, int n, int words, int layer, float rate)
{
    const vec kept = vec_all(1.0f - rate);
    for (int b = 0; b < B; b++, keys += words, x += n, y += n) {
        const uint32_t key0 = (uint32_t)id_at(keys, 1 + 2 * layer), key1 = (uint32_t)id_at(keys, 2 + 2 * layer);
        const uint64_t first = (uint64_t)id_at(keys, 0) * (uint64_t)n;
        for (int i = 0; i < n; i += LANES) {
            const vec u = vec_uniform(key0, key1, first + (uint64_t)i);
            vec_store_part(y + i, vec_select(vec_less(u, kept), vec_load_part(x + i, LEFT(n, i)) / kept, vec_all(0.0f)), LEFT(n, i));
        }
    }
}

#endif
