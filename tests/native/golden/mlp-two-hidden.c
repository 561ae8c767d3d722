/* MLP for images of 28x28x1: 16 samples at a time. Generated; the kernels are in c/. */

#include "linear.h"
#include "relu.h"
#include "standardise.h"
#include "transpose.h"

enum {
    SAMPLES = 16,
    ROWS = 28,
    COLUMNS = 28,
    CHANNELS = 1,
    PIXELS = 784,
    CLASSES = 10,
    PARAMETERS = 25818,
    TRANSPOSED = 672,
    ARENA = 13984,
    LOGITS = 13312,
    DLOGITS = 13824,
    COLUMN_PARTS = 0,
};

/* Weights p, and their gradients g. */
enum {
    layers_0_w = 0, /* (784, 32) */
    layers_0_b = 25088, /* (32) */
    layers_1_w = 25120, /* (32, 16) */
    layers_1_b = 25632, /* (16) */
    layers_2_w = 25648, /* (16, 10) */
    layers_2_b = 25808, /* (10) */
};

/* Transposes t of weights. */
enum {
    transposed_layers_2_w = 0, /* (10, 16) */
    transposed_layers_1_w = 160, /* (16, 32) */
};

/* Buffers in the arena a. Those that are never alive together share bytes. */
enum {
    prepare_y = 0, /* (16, 784), from call 0 to 12 */
    layers_0_y = 12544, /* (16, 32), from call 1 to 11 */
    layers_1_y = 13056, /* (16, 16), from call 3 to 8 */
    logits = 13312, /* (16, 10), from call 5 to 6 */
    dlogits = 13824, /* (16, 10), from call 5 to 7 */
    dlayers_1_y = 13568, /* (16, 16), from call 6 to 10 */
    dlayers_0_y = 13056, /* (16, 32), from call 9 to 12 */
};

/* The kernels at the sizes used here. */
static void standardise_forward_784_0p00392156863_0p0(float *x0, const uint8_t *bytes)
{
    standardise_forward(x0, bytes, 784, 0.00392156863f, 0.0f);
}
static void linear_forward_16_784_32(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 16, 784, 32);
}
static void relu_forward_512(float *x0, const float *x1)
{
    relu_forward(x0, x1, 512);
}
static void linear_forward_16_32_16(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 16, 32, 16);
}
static void relu_forward_256(float *x0, const float *x1)
{
    relu_forward(x0, x1, 256);
}
static void linear_forward_16_16_10(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 16, 16, 10);
}

static void forward(float *a, const float *p, const uint8_t *const *images)
{
    for (int i = 0; i < SAMPLES; i++) standardise_forward_784_0p00392156863_0p0(a + prepare_y + i * PIXELS, images[i]);
    linear_forward_16_784_32(a + layers_0_y, p + layers_0_w, p + layers_0_b, a + prepare_y);
    relu_forward_512(a + layers_0_y, a + layers_0_y);
    linear_forward_16_32_16(a + layers_1_y, p + layers_1_w, p + layers_1_b, a + layers_0_y);
    relu_forward_256(a + layers_1_y, a + layers_1_y);
    linear_forward_16_16_10(a + logits, p + layers_2_w, p + layers_2_b, a + layers_1_y);
}

#ifndef GF_FORWARD_ONLY

/* The kernels at the sizes used here. */
static void linear_backward_x_16_16_10_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 16, 16, 10, 0);
}
static void linear_backward_w_16_16_10(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 16, 16, 10);
}
static void relu_backward_256(float *x0, const float *x1, const float *x2)
{
    relu_backward(x0, x1, x2, 256);
}
static void linear_backward_x_16_32_16_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 16, 32, 16, 0);
}
static void linear_backward_w_16_32_16(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 16, 32, 16);
}
static void relu_backward_512(float *x0, const float *x1, const float *x2)
{
    relu_backward(x0, x1, x2, 512);
}
static void linear_backward_w_16_784_32(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 16, 784, 32);
}

static void transpose_weights(float *t, const float *p)
{
    (void)t, (void)p;
    transpose(t + transposed_layers_2_w, 16, p + layers_2_w, 10, 16, 10);
    transpose(t + transposed_layers_1_w, 32, p + layers_1_w, 16, 32, 16);
}

static void backward(float *a, float *g, const float *p, const float *t)
{
    (void)p, (void)t;
    linear_backward_x_16_16_10_0(a + dlayers_1_y, t + transposed_layers_2_w, a + dlogits);
    linear_backward_w_16_16_10(g + layers_2_w, g + layers_2_b, a + layers_1_y, a + dlogits);
    relu_backward_256(a + dlayers_1_y, a + layers_1_y, a + dlayers_1_y);
    linear_backward_x_16_32_16_0(a + dlayers_0_y, t + transposed_layers_1_w, a + dlayers_1_y);
    linear_backward_w_16_32_16(g + layers_1_w, g + layers_1_b, a + layers_0_y, a + dlayers_1_y);
    relu_backward_512(a + dlayers_0_y, a + layers_0_y, a + dlayers_0_y);
    linear_backward_w_16_784_32(g + layers_0_w, g + layers_0_b, a + prepare_y, a + dlayers_0_y);
}

enum { SUMMED = 1 };
static const int summed[SUMMED][2] = {{0, 25818}};

static void take_columns(float *g, const float *arenas, int groups, int part)
{
    (void)g, (void)arenas, (void)groups, (void)part;
}

#endif

#include "host.h"
