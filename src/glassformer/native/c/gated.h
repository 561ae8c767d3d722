/* The gate of a gated feed-forward: one wide layer decides how much of the other passes (layers/gated_feed_forward.py). */
#ifndef GF_GATED_H
#define GF_GATED_H

#include "simd.h"

/* hidden (n)  <-  gate (n) * up (n).  Overwrites hidden. */
INLINE void gated_forward(float *hidden, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i += LANES)
        vec_store_part(hidden + i, vec_load_part(gate + i, LEFT(n, i)) * vec_load_part(up + i, LEFT(n, i)), LEFT(n, i));
}

/* dgate (n), dup (n)  <-  gate, up, dhidden.  Overwrites its outputs; either may be dhidden. */
INLINE void gated_backward(float *dgate, float *dup, const float *gate, const float *up, const float *dhidden, int n)
{
    for (int i = 0; i < n; i += LANES) {
        const vec d = vec_load_part(dhidden + i, LEFT(n, i));
        const vec g = vec_load_part(gate + i, LEFT(n, i)), u = vec_load_part(up + i, LEFT(n, i));
        vec_store_part(dgate + i, d * u, LEFT(n, i));
        vec_store_part(dup + i, d * g, LEFT(n, i));
    }
}

#endif
