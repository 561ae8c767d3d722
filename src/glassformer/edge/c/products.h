/* Products of a row with a matrix, up to sixteen sums at a time in registers. */
#ifndef GF_PRODUCTS_H
#define GF_PRODUCTS_H

#include "simd.h"

/* y (O)  <-  start (O) or NULL  +  the sum over k < K of x[k * x_step] * w[k * w_step + o].  start may be y. */
APART void products(float *y, const float *start, const float *x, int x_step, const float *w, int w_step, int K, int O)
{
    int o = 0;
    for (; o + 16 <= O; o += 16) {
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f, s4 = 0.0f, s5 = 0.0f, s6 = 0.0f, s7 = 0.0f,
              s8 = 0.0f, s9 = 0.0f, s10 = 0.0f, s11 = 0.0f, s12 = 0.0f, s13 = 0.0f, s14 = 0.0f, s15 = 0.0f;
        const float *row = w + o, *at = x;
        if (start) {
            s0 = start[o], s1 = start[o + 1], s2 = start[o + 2], s3 = start[o + 3];
            s4 = start[o + 4], s5 = start[o + 5], s6 = start[o + 6], s7 = start[o + 7];
            s8 = start[o + 8], s9 = start[o + 9], s10 = start[o + 10], s11 = start[o + 11];
            s12 = start[o + 12], s13 = start[o + 13], s14 = start[o + 14], s15 = start[o + 15];
        }
        for (int k = 0; k < K; k++, row += w_step, at += x_step) {
            const float factor = *at;
            s0 += factor * row[0], s1 += factor * row[1], s2 += factor * row[2], s3 += factor * row[3];
            s4 += factor * row[4], s5 += factor * row[5], s6 += factor * row[6], s7 += factor * row[7];
            s8 += factor * row[8], s9 += factor * row[9], s10 += factor * row[10], s11 += factor * row[11];
            s12 += factor * row[12], s13 += factor * row[13], s14 += factor * row[14], s15 += factor * row[15];
        }
        y[o] = s0, y[o + 1] = s1, y[o + 2] = s2, y[o + 3] = s3;
        y[o + 4] = s4, y[o + 5] = s5, y[o + 6] = s6, y[o + 7] = s7;
        y[o + 8] = s8, y[o + 9] = s9, y[o + 10] = s10, y[o + 11] = s11;
        y[o + 12] = s12, y[o + 13] = s13, y[o + 14] = s14, y[o + 15] = s15;
    }
    for (; o + 8 <= O; o += 8) {
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f, s4 = 0.0f, s5 = 0.0f, s6 = 0.0f, s7 = 0.0f;
        const float *row = w + o, *at = x;
        if (start) {
            s0 = start[o], s1 = start[o + 1], s2 = start[o + 2], s3 = start[o + 3];
            s4 = start[o + 4], s5 = start[o + 5], s6 = start[o + 6], s7 = start[o + 7];
        }
        for (int k = 0; k < K; k++, row += w_step, at += x_step) {
            const float factor = *at;
            s0 += factor * row[0], s1 += factor * row[1], s2 += factor * row[2], s3 += factor * row[3];
            s4 += factor * row[4], s5 += factor * row[5], s6 += factor * row[6], s7 += factor * row[7];
        }
        y[o] = s0, y[o + 1] = s1, y[o + 2] = s2, y[o + 3] = s3;
        y[o + 4] = s4, y[o + 5] = s5, y[o + 6] = s6, y[o + 7] = s7;
    }
    for (; o + 4 <= O; o += 4) {
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        const float *row = w + o, *at = x;
        if (start) {
            s0 = start[o], s1 = start[o + 1], s2 = start[o + 2], s3 = start[o + 3];
        }
        for (int k = 0; k < K; k++, row += w_step, at += x_step) {
            const float factor = *at;
            s0 += factor * row[0], s1 += factor * row[1], s2 += factor * row[2], s3 += factor * row[3];
        }
        y[o] = s0, y[o + 1] = s1, y[o + 2] = s2, y[o + 3] = s3;
    }
    for (; o < O; o++) {
        float sum = start ? start[o] : 0.0f;
        for (int k = 0; k < K; k++) sum += x[k * x_step] * w[k * w_step + o];
        y[o] = sum;
    }
}

/* y (R)  <-  the dot products of x (K) with R rows of w, w_step apart.  Overwrites y, or adds to it. */
APART void dots(float *y, const float *x, const float *w, int w_step, int K, int R, int add)
{
    int r = 0;
    for (; r + 4 <= R; r += 4, w += 4 * w_step) {
        const float *w0 = w, *w1 = w + w_step, *w2 = w1 + w_step, *w3 = w2 + w_step;
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (int k = 0; k < K; k++) {
            const float factor = x[k];
            s0 += factor * w0[k], s1 += factor * w1[k], s2 += factor * w2[k], s3 += factor * w3[k];
        }
        y[r] = add ? y[r] + s0 : s0, y[r + 1] = add ? y[r + 1] + s1 : s1;
        y[r + 2] = add ? y[r + 2] + s2 : s2, y[r + 3] = add ? y[r + 3] + s3 : s3;
    }
    for (; r < R; r++, w += w_step) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) sum += x[k] * w[k];
        y[r] = add ? y[r] + sum : sum;
    }
}

#endif
