/* Layer norm of one row (layers/layer_norm.py), in whole numbers.
 *
 * With c = C * x - sum(x) the normalised row is c / sqrt(C * sum(x^2) - sum(x)^2 + eps): exact up to the root. */
#ifndef GF_INT8_NORM_H
#define GF_INT8_NORM_H

#include "int8.h"

typedef struct {
    int32_t mantissa; /* 2^30 to 2^31 - 1 */
    int half;
} int8_root;

/* 1 / sqrt(n) = mantissa / 2^(46 + half), by Newton's method.  n: 1 to 2^62. */
APART int8_root int8_inverse_root(uint64_t n)
{
    int half = 0;
    while (n >> 32) n >>= 2, half++;
    uint32_t m = (uint32_t)n; /* m / 2^32 is 1/4 to 1 */
    while (m < UINT32_C(0x40000000)) m <<= 2, half--;
    uint32_t y = UINT32_C(2287070085) - (uint32_t)((uint64_t)m * UINT32_C(1307280671) >> 32); /* within 9 %; 2^30 is 1 */
    for (int i = 0; i < 3; i++) {
        const uint32_t square = (uint32_t)((uint64_t)y * y >> 32);
        y = (uint32_t)((uint64_t)y * ((UINT32_C(3) << 28) - (uint32_t)((uint64_t)square * m >> 32)) >> 29);
    }
    const int8_root root = {(int32_t)(y < UINT32_C(0x7FFFFFFF) ? y : UINT32_C(0x7FFFFFFF)), half};
    return root;
}

/* y (C)  <-  gain (C), bias (C), x (C).  gain: 2^16 is 1.  Overwrites y, which may be x. */
APART void int8_norm(int16_t *y, const int32_t *gain, const int32_t *bias, const int16_t *x, int C, int64_t eps)
{
    int32_t total = 0;
    int64_t squares = 0;
    for (int i = 0; i < C; i++) {
        total += x[i];
        squares += (int64_t)x[i] * x[i];
    }
    const int8_root root = int8_inverse_root((uint64_t)(C * squares - (int64_t)total * total + eps));
    const int32_t factor = root.half < 2 ? INT32_C(1) << (2 - root.half) : 1;
    const int shift = root.half > 2 ? root.half - 2 : 0;
    for (int i = 0; i < C; i++) {
        const int32_t centred = (C * x[i] - total) * factor >> shift;
        const int32_t xhat = int8_multiply(centred, root.mantissa); /* 2^16 is 1 */
        y[i] = int8_saturate16(int8_multiply(xhat, gain[i]) + bias[i]);
    }
}

#endif
