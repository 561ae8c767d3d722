/* Patches: cut images into square patches (layers/patches.py).  Y rows, X columns, G channels, patches of side P.
 *
 * y (B, T, P*P*G)  <-  x (B, Y, X, G),  T = (Y / P) * (X / P).  Overwrites y. The first layer: no gradient is asked for. */
#ifndef GF_PATCHES_H
#define GF_PATCHES_H

#include "simd.h"

INLINE void patches_forward(float *y, const float *x, int B, int Y, int X, int G, int P)
{
    for (int b = 0; b < B; b++)
        for (int row = 0; row < Y / P; row++)
            for (int column = 0; column < X / P; column++)
                for (int line = 0; line < P; line++, y += P * G)
                    memcpy(y, x + ((b * Y + row * P + line) * X + column * P) * G, (size_t)(P * G) * sizeof *y);
}

#endif
