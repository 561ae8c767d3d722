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
    PARAMETERS = 407050,
    TRANSPOSED = 5120,
    ARENA = 29248,
    LOGITS = 28928,
    DLOGITS = 29088,
    COLUMN_PARTS = 8,
};

/* Weights p, and their gradients g. */
enum {
    layers_0_w = 0, /* (784, 512) */
    layers_0_b = 401408, /* (512) */
    layers_1_w = 401920, /* (512, 10) */
    layers_1_b = 407040, /* (10) */
};

/* Transposes t of weights. */
enum {
    transposed_layers_1_w = 0, /* (10, 512) */
};

/* Buffers in the arena a. Those that are never alive together share bytes. */
enum {
    prepare_y = 0, /* (16, 784), from call 0 to 7 */
    layers_0_y = 12544, /* (16, 512), from call 1 to 6 */
    logits = 28928, /* (16, 10), from call 3 to 4 */
    dlogits = 29088, /* (16, 10), from call 3 to 5 */
    dlayers_0_y = 20736, /* (16, 512), from call 4 to 7 */
};

/* The kernels at the sizes used here. */
static void standardise_forward_784_0p00392156863_0p0(float *x0, const uint8_t *bytes)
{
    standardise_forward(x0, bytes, 784, 0.00392156863f, 0.0f);
}
static void linear_forward_16_784_512(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 16, 784, 512);
}
static void relu_forward_8192(float *x0, const float *x1)
{
    relu_forward(x0, x1, 8192);
}
static void linear_forward_16_512_10(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 16, 512, 10);
}

static void forward(float *a, const float *p, const uint8_t *const *images)
{
    for (int i = 0; i < SAMPLES; i++) standardise_forward_784_0p00392156863_0p0(a + prepare_y + i * PIXELS, images[i]);
    linear_forward_16_784_512(a + layers_0_y, p + layers_0_w, p + layers_0_b, a + prepare_y);
    relu_forward_8192(a + layers_0_y, a + layers_0_y);
    linear_forward_16_512_10(a + logits, p + layers_1_w, p + layers_1_b, a + layers_0_y);
}

#ifndef GF_FORWARD_ONLY

/* The kernels at the sizes used here. */
static void linear_backward_x_16_512_10_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 16, 512, 10, 0);
}
static void linear_backward_w_16_512_10(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 16, 512, 10);
}
static void relu_backward_8192(float *x0, const float *x1, const float *x2)
{
    relu_backward(x0, x1, x2, 8192);
}

static void transpose_weights(float *t, const float *p)
{
    (void)t, (void)p;
    transpose(t + transposed_layers_1_w, 512, p + layers_1_w, 10, 512, 10);
}

static void backward(float *a, float *g, const float *p, const float *t)
{
    (void)p, (void)t;
    linear_backward_x_16_512_10_0(a + dlayers_0_y, t + transposed_layers_1_w, a + dlogits);
    linear_backward_w_16_512_10(g + layers_1_w, g + layers_1_b, a + layers_0_y, a + dlogits);
    relu_backward_8192(a + dlayers_0_y, a + layers_0_y, a + dlayers_0_y);
}

enum { SUMMED = 1 };
static const int summed[SUMMED][2] = {{401920, 407050}};

static void columns_16_784_512_64(float *dw, float *db, const float *x, const float *dy, int add)
{
    if (add) linear_backward_columns(dw, db, x, dy, 16, 784, 512, 64, 1);
    else linear_backward_columns(dw, db, x, dy, 16, 784, 512, 64, 0);
}

static void take_columns(float *g, const float *arenas, int groups, int part)
{
    for (int group = 0; group < groups; group++) {
        const float *a = arenas + (size_t)group * ARENA;
        if (part < 8) {
            const int c = 0 + 64 * (part - 0);
            columns_16_784_512_64(g + layers_0_w + c, g + layers_0_b + c, a + prepare_y, a + dlayers_0_y + c, group > 0);
        }
    }
}

#endif

#include "host.h"
