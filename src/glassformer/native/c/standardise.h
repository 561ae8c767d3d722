/* Standardise: bytes of an image to the range the model works in (layers/standardise.py).  y = x * factor - offset.
 *
 * y (n)  <-  x (n).  Overwrites y. Bytes have no gradient. */
#ifndef GF_STANDARDISE_H
#define GF_STANDARDISE_H

#include <stdint.h>

#include "simd.h"

INLINE void standardise_forward(float *y, const uint8_t *x, int n, float factor, float offset)
{
    for (int i = 0; i < n; i++) y[i] = (float)x[i] * factor - offset;
}

#endif
