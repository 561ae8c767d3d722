/* PatchBlock for images of 28x28x1: 1 sample at a time. Generated; the kernels are in c/. */

#include "attention.h"
#include "layer_norm.h"
#include "linear.h"
#include "mean_pool.h"
#include "patches.h"
#include "positions.h"
#include "relu.h"
#include "residual.h"
#include "standardise.h"
#include "transpose.h"

enum {
    SAMPLES = 1,
    ROWS = 28,
    COLUMNS = 28,
    CHANNELS = 1,
    PIXELS = 784,
    CLASSES = 10,
    PARAMETERS = 3450,
    TRANSPOSED = 2208,
    ARENA = 25408,
    LOGITS = 14160,
    DLOGITS = 14192,
    COLUMN_PARTS = 0,
};

/* Weights p, and their gradients g. */
enum {
    patch_w = 0, /* (16, 16) */
    patch_b = 256, /* (16) */
    positions_pos = 272, /* (49, 16) */
    attn_inner_norm_gain = 1056, /* (16) */
    attn_inner_norm_bias = 1072, /* (16) */
    attn_inner_inner_w_q = 1088, /* (16, 16) */
    attn_inner_inner_w_k = 1344, /* (16, 16) */
    attn_inner_inner_w_v = 1600, /* (16, 16) */
    attn_inner_inner_w_o = 1856, /* (16, 16) */
    attn_inner_inner_b_q = 2112, /* (16) */
    attn_inner_inner_b_k = 2128, /* (16) */
    attn_inner_inner_b_v = 2144, /* (16) */
    attn_inner_inner_b_o = 2160, /* (16) */
    ff_inner_norm_gain = 2176, /* (16) */
    ff_inner_norm_bias = 2192, /* (16) */
    ff_inner_inner_w_up = 2208, /* (16, 32) */
    ff_inner_inner_b_up = 2720, /* (32) */
    ff_inner_inner_w_down = 2752, /* (32, 16) */
    ff_inner_inner_b_down = 3264, /* (16) */
    head_w = 3280, /* (16, 10) */
    head_b = 3440, /* (10) */
};

/* Transposes t of weights. */
enum {
    transposed_head_w = 0, /* (10, 16) */
    transposed_ff_inner_inner_w_down = 160, /* (16, 32) */
    transposed_ff_inner_inner_w_up = 672, /* (32, 16) */
    transposed_attn_inner_inner_w_o = 1184, /* (16, 16) */
    transposed_attn_inner_inner_w_q = 1440, /* (16, 16) */
    transposed_attn_inner_inner_w_k = 1696, /* (16, 16) */
    transposed_attn_inner_inner_w_v = 1952, /* (16, 16) */
};

/* Buffers in the arena a. Those that are never alive together share bytes. */
enum {
    prepare_y = 0, /* (1, 28, 28, 1), from call 0 to 1 */
    patches_y = 15680, /* (1, 49, 16), from call 1 to 42 */
    patch_y = 16464, /* (1, 49, 16), from call 2 to 40 */
    attn_inner_norm_y = 17248, /* (1, 49, 16), from call 5 to 38 */
    attn_inner_norm_xhat = 18032, /* (1, 49, 16), from call 5 to 39 */
    attn_inner_norm_std_inv = 25344, /* (49), from call 5 to 39 */
    attn_inner_inner_q = 18816, /* (1, 49, 16), from call 6 to 32 */
    attn_inner_inner_k = 19600, /* (1, 49, 16), from call 7 to 32 */
    attn_inner_inner_v = 20384, /* (1, 49, 16), from call 8 to 32 */
    attn_inner_inner_z = 21168, /* (1, 49, 16), from call 9 to 31 */
    attn_inner_inner_pattern = 0, /* (1, 4, 49, PADDED(49)), from call 9 to 32 */
    attn_inner_inner_transposed = 12544, /* (4, PADDED(49)), from call 9 to 9 */
    attn_inner_inner_y = 12544, /* (1, 49, 16), from call 10 to 11 */
    attn_y = 13328, /* (1, 49, 16), from call 11 to 13 */
    ff_mean_y = 14144, /* (1, 16), from call 12 to 18 */
    ff_inner_norm_y = 21952, /* (1, 49, 16), from call 13 to 28 */
    ff_inner_norm_xhat = 22736, /* (1, 49, 16), from call 13 to 29 */
    ff_inner_norm_std_inv = 24304, /* (49), from call 13 to 29 */
    ff_inner_inner_hidden_pre = 12544, /* (1, 49, 32), from call 14 to 26 */
    pool_y = 14112, /* (1, 32), from call 16 to 24 */
    ff_inner_inner_y = 14160, /* (1, 16), from call 17 to 18 */
    ff_y = 14176, /* (1, 16), from call 18 to 21 */
    logits = 14160, /* (1, 10), from call 19 to 20 */
    dlogits = 14192, /* (1, 10), from call 19 to 21 */
    dff_y = 14144, /* (1, 16), from call 20 to 24 */
    dattn_y = 23520, /* (1, 49, 16), from call 22 to 42 */
    dpool_y = 24368, /* (1, 32), from call 23 to 25 */
    dff_inner_inner_hidden_pre = 14112, /* (1, 49, 32), from call 25 to 28 */
    dff_inner_norm_y = 12544, /* (1, 49, 16), from call 27 to 29 */
    dattn_inner_inner_z = 21952, /* (1, 49, 16), from call 30 to 32 */
    dattn_inner_inner_q = 21168, /* (1, 49, 16), from call 32 to 34 */
    dattn_inner_inner_k = 22736, /* (1, 49, 16), from call 32 to 36 */
    dattn_inner_inner_v = 24304, /* (1, 49, 16), from call 32 to 38 */
    attn_inner_inner_transposed_v = 25088, /* (4, PADDED(49)), from call 32 to 32 */
    dattn_inner_inner_scores = 12544, /* (49, PADDED(49)), from call 32 to 32 */
    dattn_inner_norm_y = 0, /* (1, 49, 16), from call 33 to 39 */
};

/* The kernels at the sizes used here. */
static void standardise_forward_784_0p00392156863_0p0(float *x0, const uint8_t *bytes)
{
    standardise_forward(x0, bytes, 784, 0.00392156863f, 0.0f);
}
static void patches_forward_1_28_28_1_4(float *x0, const float *x1)
{
    patches_forward(x0, x1, 1, 28, 28, 1, 4);
}
static void linear_forward_49_16_16(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 16, 16);
}
static void positions_forward_1_49_16(float *x0, const float *x1, const float *x2)
{
    positions_forward(x0, x1, x2, 1, 49, 16);
}
static void relu_forward_784(float *x0, const float *x1)
{
    relu_forward(x0, x1, 784);
}
static void layer_norm_forward_49_16_1em05(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5)
{
    layer_norm_forward(x0, x1, x2, x3, x4, x5, 49, 16, 1e-05f);
}
static void attention_forward_1_49_49_4_4_0p5(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5)
{
    attention_forward(x0, x1, x2, x3, x4, x5, 1, 49, 49, 4, 4, 0.5f);
}
static void residual_forward_784(float *x0, const float *x1, const float *x2)
{
    residual_forward(x0, x1, x2, 784);
}
static void mean_pool_forward_1_49_16(float *x0, const float *x1)
{
    mean_pool_forward(x0, x1, 1, 49, 16);
}
static void linear_forward_49_16_32(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 16, 32);
}
static void relu_forward_1568(float *x0, const float *x1)
{
    relu_forward(x0, x1, 1568);
}
static void mean_pool_forward_1_49_32(float *x0, const float *x1)
{
    mean_pool_forward(x0, x1, 1, 49, 32);
}
static void linear_forward_1_32_16(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 1, 32, 16);
}
static void residual_forward_16(float *x0, const float *x1, const float *x2)
{
    residual_forward(x0, x1, x2, 16);
}
static void linear_forward_1_16_10(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 1, 16, 10);
}

static void forward(float *a, const float *p, const uint8_t *const *images)
{
    for (int i = 0; i < SAMPLES; i++) standardise_forward_784_0p00392156863_0p0(a + prepare_y + i * PIXELS, images[i]);
    patches_forward_1_28_28_1_4(a + patches_y, a + prepare_y);
    linear_forward_49_16_16(a + patch_y, p + patch_w, p + patch_b, a + patches_y);
    positions_forward_1_49_16(a + patch_y, p + positions_pos, a + patch_y);
    relu_forward_784(a + patch_y, a + patch_y);
    layer_norm_forward_49_16_1em05(a + attn_inner_norm_y, a + attn_inner_norm_xhat, a + attn_inner_norm_std_inv, p + attn_inner_norm_gain, p + attn_inner_norm_bias, a + patch_y);
    linear_forward_49_16_16(a + attn_inner_inner_q, p + attn_inner_inner_w_q, p + attn_inner_inner_b_q, a + attn_inner_norm_y);
    linear_forward_49_16_16(a + attn_inner_inner_k, p + attn_inner_inner_w_k, p + attn_inner_inner_b_k, a + attn_inner_norm_y);
    linear_forward_49_16_16(a + attn_inner_inner_v, p + attn_inner_inner_w_v, p + attn_inner_inner_b_v, a + attn_inner_norm_y);
    attention_forward_1_49_49_4_4_0p5(a + attn_inner_inner_z, a + attn_inner_inner_pattern, a + attn_inner_inner_transposed, a + attn_inner_inner_q, a + attn_inner_inner_k, a + attn_inner_inner_v);
    linear_forward_49_16_16(a + attn_inner_inner_y, p + attn_inner_inner_w_o, p + attn_inner_inner_b_o, a + attn_inner_inner_z);
    residual_forward_784(a + attn_y, a + patch_y, a + attn_inner_inner_y);
    mean_pool_forward_1_49_16(a + ff_mean_y, a + attn_y);
    layer_norm_forward_49_16_1em05(a + ff_inner_norm_y, a + ff_inner_norm_xhat, a + ff_inner_norm_std_inv, p + ff_inner_norm_gain, p + ff_inner_norm_bias, a + attn_y);
    linear_forward_49_16_32(a + ff_inner_inner_hidden_pre, p + ff_inner_inner_w_up, p + ff_inner_inner_b_up, a + ff_inner_norm_y);
    relu_forward_1568(a + ff_inner_inner_hidden_pre, a + ff_inner_inner_hidden_pre);
    mean_pool_forward_1_49_32(a + pool_y, a + ff_inner_inner_hidden_pre);
    linear_forward_1_32_16(a + ff_inner_inner_y, p + ff_inner_inner_w_down, p + ff_inner_inner_b_down, a + pool_y);
    residual_forward_16(a + ff_y, a + ff_mean_y, a + ff_inner_inner_y);
    linear_forward_1_16_10(a + logits, p + head_w, p + head_b, a + ff_y);
}

#ifndef GF_FORWARD_ONLY

/* The kernels at the sizes used here. */
static void linear_backward_x_1_16_10_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 1, 16, 10, 0);
}
static void linear_backward_w_1_16_10(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 1, 16, 10);
}
static void mean_pool_backward_1_49_16(float *x0, const float *x1)
{
    mean_pool_backward(x0, x1, 1, 49, 16);
}
static void linear_backward_x_1_32_16_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 1, 32, 16, 0);
}
static void linear_backward_w_1_32_16(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 1, 32, 16);
}
static void mean_pool_backward_1_49_32(float *x0, const float *x1)
{
    mean_pool_backward(x0, x1, 1, 49, 32);
}
static void relu_backward_1568(float *x0, const float *x1, const float *x2)
{
    relu_backward(x0, x1, x2, 1568);
}
static void linear_backward_x_49_16_32_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 16, 32, 0);
}
static void linear_backward_w_49_16_32(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 16, 32);
}
static void layer_norm_backward_49_16_1(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5, const float *x6)
{
    layer_norm_backward(x0, x1, x2, x3, x4, x5, x6, 49, 16, 1);
}
static void linear_backward_x_49_16_16_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 16, 16, 0);
}
static void linear_backward_w_49_16_16(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 16, 16);
}
static void attention_backward_1_49_49_4_4_0p5(float *x0, float *x1, float *x2, float *x3, float *x4, const float *x5, const float *x6, const float *x7, const float *x8, const float *x9)
{
    attention_backward(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, 1, 49, 49, 4, 4, 0.5f);
}
static void linear_backward_x_49_16_16_1(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 16, 16, 1);
}
static void relu_backward_784(float *x0, const float *x1, const float *x2)
{
    relu_backward(x0, x1, x2, 784);
}
static void positions_backward_1_49_16(float *x0, const float *x1)
{
    positions_backward(x0, x1, 1, 49, 16);
}

static void transpose_weights(float *t, const float *p)
{
    (void)t, (void)p;
    transpose(t + transposed_head_w, 16, p + head_w, 10, 16, 10);
    transpose(t + transposed_ff_inner_inner_w_down, 32, p + ff_inner_inner_w_down, 16, 32, 16);
    transpose(t + transposed_ff_inner_inner_w_up, 16, p + ff_inner_inner_w_up, 32, 16, 32);
    transpose(t + transposed_attn_inner_inner_w_o, 16, p + attn_inner_inner_w_o, 16, 16, 16);
    transpose(t + transposed_attn_inner_inner_w_q, 16, p + attn_inner_inner_w_q, 16, 16, 16);
    transpose(t + transposed_attn_inner_inner_w_k, 16, p + attn_inner_inner_w_k, 16, 16, 16);
    transpose(t + transposed_attn_inner_inner_w_v, 16, p + attn_inner_inner_w_v, 16, 16, 16);
}

static void backward(float *a, float *g, const float *p, const float *t)
{
    (void)p, (void)t;
    linear_backward_x_1_16_10_0(a + dff_y, t + transposed_head_w, a + dlogits);
    linear_backward_w_1_16_10(g + head_w, g + head_b, a + ff_y, a + dlogits);
    mean_pool_backward_1_49_16(a + dattn_y, a + dff_y);
    linear_backward_x_1_32_16_0(a + dpool_y, t + transposed_ff_inner_inner_w_down, a + dff_y);
    linear_backward_w_1_32_16(g + ff_inner_inner_w_down, g + ff_inner_inner_b_down, a + pool_y, a + dff_y);
    mean_pool_backward_1_49_32(a + dff_inner_inner_hidden_pre, a + dpool_y);
    relu_backward_1568(a + dff_inner_inner_hidden_pre, a + ff_inner_inner_hidden_pre, a + dff_inner_inner_hidden_pre);
    linear_backward_x_49_16_32_0(a + dff_inner_norm_y, t + transposed_ff_inner_inner_w_up, a + dff_inner_inner_hidden_pre);
    linear_backward_w_49_16_32(g + ff_inner_inner_w_up, g + ff_inner_inner_b_up, a + ff_inner_norm_y, a + dff_inner_inner_hidden_pre);
    layer_norm_backward_49_16_1(a + dattn_y, g + ff_inner_norm_gain, g + ff_inner_norm_bias, p + ff_inner_norm_gain, a + ff_inner_norm_xhat, a + ff_inner_norm_std_inv, a + dff_inner_norm_y);
    linear_backward_x_49_16_16_0(a + dattn_inner_inner_z, t + transposed_attn_inner_inner_w_o, a + dattn_y);
    linear_backward_w_49_16_16(g + attn_inner_inner_w_o, g + attn_inner_inner_b_o, a + attn_inner_inner_z, a + dattn_y);
    attention_backward_1_49_49_4_4_0p5(a + dattn_inner_inner_q, a + dattn_inner_inner_k, a + dattn_inner_inner_v, a + attn_inner_inner_transposed_v, a + dattn_inner_inner_scores, a + attn_inner_inner_q, a + attn_inner_inner_k, a + attn_inner_inner_v, a + attn_inner_inner_pattern, a + dattn_inner_inner_z);
    linear_backward_x_49_16_16_0(a + dattn_inner_norm_y, t + transposed_attn_inner_inner_w_q, a + dattn_inner_inner_q);
    linear_backward_w_49_16_16(g + attn_inner_inner_w_q, g + attn_inner_inner_b_q, a + attn_inner_norm_y, a + dattn_inner_inner_q);
    linear_backward_x_49_16_16_1(a + dattn_inner_norm_y, t + transposed_attn_inner_inner_w_k, a + dattn_inner_inner_k);
    linear_backward_w_49_16_16(g + attn_inner_inner_w_k, g + attn_inner_inner_b_k, a + attn_inner_norm_y, a + dattn_inner_inner_k);
    linear_backward_x_49_16_16_1(a + dattn_inner_norm_y, t + transposed_attn_inner_inner_w_v, a + dattn_inner_inner_v);
    linear_backward_w_49_16_16(g + attn_inner_inner_w_v, g + attn_inner_inner_b_v, a + attn_inner_norm_y, a + dattn_inner_inner_v);
    layer_norm_backward_49_16_1(a + dattn_y, g + attn_inner_norm_gain, g + attn_inner_norm_bias, p + attn_inner_norm_gain, a + attn_inner_norm_xhat, a + attn_inner_norm_std_inv, a + dattn_inner_norm_y);
    relu_backward_784(a + dattn_y, a + patch_y, a + dattn_y);
    positions_backward_1_49_16(g + positions_pos, a + dattn_y);
    linear_backward_w_49_16_16(g + patch_w, g + patch_b, a + patches_y, a + dattn_y);
}

enum { SUMMED = 1 };
static const int summed[SUMMED][2] = {{0, 3450}};

static void take_columns(float *g, const float *arenas, int groups, int part)
{
    (void)g, (void)arenas, (void)groups, (void)part;
}

#endif

#include "host.h"
