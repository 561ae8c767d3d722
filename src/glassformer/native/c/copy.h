/* Copy: one sample's floats to their place in the group.
 *
 * y (n)  <-  x (n).  Overwrites y. */
#ifndef GF_COPY_H
#define GF_COPY_H

#include <string.h>

#include "simd.h"

INLINE void copy_forward(float *y, const float *x, int n) { memcpy(y, x, (size_t)n * sizeof *y); }

#endif
