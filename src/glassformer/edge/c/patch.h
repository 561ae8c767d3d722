/* One patch of an image of bytes, brought to the range of the model (layers/patches.py, layers/standardise.py).
 *
 * y (P * P * G)  <-  patch t of x (rows, X, G), squares of side P.  y = x * factor - offset.  Overwrites y. */
#ifndef GF_PATCH_H
#define GF_PATCH_H

#include "simd.h"

INLINE void patch_forward(float *y, const uint8_t *x, int t, int X, int G, int P, float factor, float offset)
{
    const int across = X / P;
    x += (t / across * P * X + t % across * P) * G;
    for (int line = 0; line < P; line++, x += X * G)
        for (int i = 0; i < P * G; i++) *y++ = (float)x[i] * factor - offset;
}

#endif
