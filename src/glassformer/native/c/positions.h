/* Positions: a learned vector for each place, added to the token there (layers/positions.py). */
#ifndef GF_POSITIONS_H
#define GF_POSITIONS_H

#include "simd.h"

/* y (B, T, C)  <-  pos (T, C), x (B, T, C).  Overwrites y, which may be x. */
INLINE void positions_forward(float *y, const float *pos, const float *x, int B, int T, int C)
{
    for (int b = 0; b < B; b++)
        for (int i = 0; i < T * C; i += LANES)
            vec_store_part(y + b * T * C + i, vec_load_part(x + b * T * C + i, LEFT(T * C, i)) + vec_load_part(pos + i, LEFT(T * C, i)),
                           LEFT(T * C, i));
}

/* dpos (T, C)  +=  dy (B, T, C).  Adds. dx is dy itself. */
INLINE void positions_backward(float *dpos, const float *dy, int B, int T, int C)
{
    for (int b = 0; b < B; b++)
        for (int i = 0; i < T * C; i += LANES)
            vec_store_part(dpos + i, vec_load_part(dpos + i, LEFT(T * C, i)) + vec_load_part(dy + b * T * C + i, LEFT(T * C, i)),
                           LEFT(T * C, i));
}

#endif
