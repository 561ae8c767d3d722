/* Positions: a learned vector for each place, added to the token there (layers/positions.py). */
#ifndef GF_POSITIONS_H
#define GF_POSITIONS_H

#include "simd.h"

/* Counted positions (layers/counted_positions.py): the place of token t, where padding is not counted and reads the row before
 * the first. */
INLINE int counted_place(const float *unseen, int t, int first, int *counted)
{
    return unseen && unseen[t] != 0.0f ? first - 1 : first + (*counted)++;
}

/* y (B, T, C)  <-  pos (M, C), x (B, T, C), unseen (B, row) or NULL: 0 at tokens, else padding.  Overwrites y, maybe x. */
INLINE void counted_positions_forward(float *y, const float *pos, const float *x, const float *unseen, int B, int T, int C,
                                      int first, int row)
{
    for (int b = 0; b < B; b++)
        for (int t = 0, counted = 0; t < T; t++, x += C, y += C) {
            const float *own = pos + counted_place(unseen ? unseen + b * row : NULL, t, first, &counted) * C;
            for (int c = 0; c < C; c += LANES)
                vec_store_part(y + c, vec_load_part(x + c, LEFT(C, c)) + vec_load_part(own + c, LEFT(C, c)), LEFT(C, c));
        }
}

/* dpos (M, C)  +=  dy (B, T, C), unseen.  Adds. dx is dy itself. */
INLINE void counted_positions_backward(float *dpos, const float *dy, const float *unseen, int B, int T, int C, int first,
                                       int row)
{
    for (int b = 0; b < B; b++)
        for (int t = 0, counted = 0; t < T; t++, dy += C) {
            float *own = dpos + counted_place(unseen ? unseen + b * row : NULL, t, first, &counted) * C;
            for (int c = 0; c < C; c += LANES)
                vec_store_part(own + c, vec_load_part(own + c, LEFT(C, c)) + vec_load_part(dy + c, LEFT(C, c)), LEFT(C, c));
        }
}

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
