/* PatchAttention for images of 28x28x1: 1 sample at a time. Generated; the kernels are in c/. */

#include "attention.h"
#include "linear.h"
#include "mean_pool.h"
#include "patches.h"
#include "positions.h"
#include "relu.h"
#include "standardise.h"
#include "transpose.h"

enum {
    SAMPLES = 1,
    ROWS = 28,
    COLUMNS = 28,
    CHANNELS = 1,
    PIXELS = 784,
    CLASSES = 10,
    PARAMETERS = 33930,
    TRANSPOSED = 29312,
    ARENA = 38416,
    LOGITS = 6528,
    DLOGITS = 6544,
    COLUMN_PARTS = 0,
};

/* Weights p, and their gradients g. */
enum {
    patch_w = 0, /* (16, 64) */
    patch_b = 1024, /* (64) */
    positions_pos = 1088, /* (49, 64) */
    attn_w_q = 4224, /* (64, 64) */
    attn_w_k = 8320, /* (64, 64) */
    attn_w_v = 12416, /* (64, 64) */
    attn_b_q = 16512, /* (64) */
    attn_b_k = 16576, /* (64) */
    attn_b_v = 16640, /* (64) */
    ff_w_up = 16704, /* (64, 128) */
    ff_b_up = 24896, /* (128) */
    ff_w_down = 25024, /* (128, 64) */
    ff_b_down = 33216, /* (64) */
    head_w = 33280, /* (64, 10) */
    head_b = 33920, /* (10) */
};

/* Transposes t of weights. */
enum {
    transposed_head_w = 0, /* (10, 64) */
    transposed_ff_w_down = 640, /* (64, 128) */
    transposed_ff_w_up = 8832, /* (128, 64) */
    transposed_attn_w_q = 17024, /* (64, 64) */
    transposed_attn_w_k = 21120, /* (64, 64) */
    transposed_attn_w_v = 25216, /* (64, 64) */
};

/* Buffers in the arena a. Those that are never alive together share bytes. */
enum {
    prepare_y = 0, /* (1, 28, 28, 1), from call 0 to 1 */
    patches_y = 37632, /* (1, 49, 16), from call 1 to 31 */
    patch_y = 12544, /* (1, 49, 64), from call 2 to 29 */
    attn_q = 15680, /* (1, 49, 64), from call 5 to 22 */
    attn_k = 18816, /* (1, 49, 64), from call 6 to 22 */
    attn_v = 21952, /* (1, 49, 64), from call 7 to 22 */
    attn_z = 25088, /* (1, 49, 64), from call 8 to 21 */
    attn_pattern = 28224, /* (1, 1, 49, PADDED(49)), from call 8 to 22 */
    attn_transposed = 0, /* (64, PADDED(49)), from call 8 to 8 */
    ff_hidden_pre = 0, /* (1, 49, 128), from call 9 to 19 */
    pool_y = 6272, /* (1, 128), from call 11 to 17 */
    ff_y = 6400, /* (1, 64), from call 12 to 15 */
    logits = 6528, /* (1, 10), from call 13 to 14 */
    dlogits = 6544, /* (1, 10), from call 13 to 15 */
    dff_y = 6464, /* (1, 64), from call 14 to 17 */
    dpool_y = 31360, /* (1, 128), from call 16 to 18 */
    dff_hidden_pre = 6272, /* (1, 49, 128), from call 18 to 21 */
    dattn_z = 31360, /* (1, 49, 64), from call 20 to 22 */
    dattn_q = 4096, /* (1, 49, 64), from call 22 to 24 */
    dattn_k = 7232, /* (1, 49, 64), from call 22 to 26 */
    dattn_v = 25088, /* (1, 49, 64), from call 22 to 28 */
    attn_transposed_v = 0, /* (64, PADDED(49)), from call 22 to 22 */
    dattn_scores = 34496, /* (49, PADDED(49)), from call 22 to 22 */
    dpatch_y = 0, /* (1, 49, 64), from call 23 to 31 */
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
static void linear_forward_49_16_64(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 16, 64);
}
static void positions_forward_1_49_64(float *x0, const float *x1, const float *x2)
{
    positions_forward(x0, x1, x2, 1, 49, 64);
}
static void relu_forward_3136(float *x0, const float *x1)
{
    relu_forward(x0, x1, 3136);
}
static void linear_forward_49_64_64(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 64, 64);
}
static void attention_forward_1_49_49_1_64_0p125(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5)
{
    attention_forward(x0, x1, x2, x3, x4, x5, 1, 49, 49, 1, 64, 0.125f);
}
static void linear_forward_49_64_128(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 64, 128);
}
static void relu_forward_6272(float *x0, const float *x1)
{
    relu_forward(x0, x1, 6272);
}
static void mean_pool_forward_1_49_128(float *x0, const float *x1)
{
    mean_pool_forward(x0, x1, 1, 49, 128);
}
static void linear_forward_1_128_64(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 1, 128, 64);
}
static void linear_forward_1_64_10(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 1, 64, 10);
}

static void forward(float *a, const float *p, const uint8_t *const *images)
{
    for (int i = 0; i < SAMPLES; i++) standardise_forward_784_0p00392156863_0p0(a + prepare_y + i * PIXELS, images[i]);
    patches_forward_1_28_28_1_4(a + patches_y, a + prepare_y);
    linear_forward_49_16_64(a + patch_y, p + patch_w, p + patch_b, a + patches_y);
    positions_forward_1_49_64(a + patch_y, p + positions_pos, a + patch_y);
    relu_forward_3136(a + patch_y, a + patch_y);
    linear_forward_49_64_64(a + attn_q, p + attn_w_q, p + attn_b_q, a + patch_y);
    linear_forward_49_64_64(a + attn_k, p + attn_w_k, p + attn_b_k, a + patch_y);
    linear_forward_49_64_64(a + attn_v, p + attn_w_v, p + attn_b_v, a + patch_y);
    attention_forward_1_49_49_1_64_0p125(a + attn_z, a + attn_pattern, a + attn_transposed, a + attn_q, a + attn_k, a + attn_v);
    linear_forward_49_64_128(a + ff_hidden_pre, p + ff_w_up, p + ff_b_up, a + attn_z);
    relu_forward_6272(a + ff_hidden_pre, a + ff_hidden_pre);
    mean_pool_forward_1_49_128(a + pool_y, a + ff_hidden_pre);
    linear_forward_1_128_64(a + ff_y, p + ff_w_down, p + ff_b_down, a + pool_y);
    linear_forward_1_64_10(a + logits, p + head_w, p + head_b, a + ff_y);
}

#ifndef GF_FORWARD_ONLY

/* The kernels at the sizes used here. */
static void linear_backward_x_1_64_10_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 1, 64, 10, 0);
}
static void linear_backward_w_1_64_10(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 1, 64, 10);
}
static void linear_backward_x_1_128_64_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 1, 128, 64, 0);
}
static void linear_backward_w_1_128_64(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 1, 128, 64);
}
static void mean_pool_backward_1_49_128(float *x0, const float *x1)
{
    mean_pool_backward(x0, x1, 1, 49, 128);
}
static void relu_backward_6272(float *x0, const float *x1, const float *x2)
{
    relu_backward(x0, x1, x2, 6272);
}
static void linear_backward_x_49_64_128_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 64, 128, 0);
}
static void linear_backward_w_49_64_128(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 64, 128);
}
static void attention_backward_1_49_49_1_64_0p125(float *x0, float *x1, float *x2, float *x3, float *x4, const float *x5, const float *x6, const float *x7, const float *x8, const float *x9)
{
    attention_backward(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, 1, 49, 49, 1, 64, 0.125f);
}
static void linear_backward_x_49_64_64_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 64, 64, 0);
}
static void linear_backward_w_49_64_64(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 64, 64);
}
static void linear_backward_x_49_64_64_1(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 64, 64, 1);
}
static void relu_backward_3136(float *x0, const float *x1, const float *x2)
{
    relu_backward(x0, x1, x2, 3136);
}
static void positions_backward_1_49_64(float *x0, const float *x1)
{
    positions_backward(x0, x1, 1, 49, 64);
}
static void linear_backward_w_49_16_64(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 16, 64);
}

static void transpose_weights(float *t, const float *p)
{
    (void)t, (void)p;
    transpose(t + transposed_head_w, 64, p + head_w, 10, 64, 10);
    transpose(t + transposed_ff_w_down, 128, p + ff_w_down, 64, 128, 64);
    transpose(t + transposed_ff_w_up, 64, p + ff_w_up, 128, 64, 128);
    transpose(t + transposed_attn_w_q, 64, p + attn_w_q, 64, 64, 64);
    transpose(t + transposed_attn_w_k, 64, p + attn_w_k, 64, 64, 64);
    transpose(t + transposed_attn_w_v, 64, p + attn_w_v, 64, 64, 64);
}

static void backward(float *a, float *g, const float *p, const float *t)
{
    (void)p, (void)t;
    linear_backward_x_1_64_10_0(a + dff_y, t + transposed_head_w, a + dlogits);
    linear_backward_w_1_64_10(g + head_w, g + head_b, a + ff_y, a + dlogits);
    linear_backward_x_1_128_64_0(a + dpool_y, t + transposed_ff_w_down, a + dff_y);
    linear_backward_w_1_128_64(g + ff_w_down, g + ff_b_down, a + pool_y, a + dff_y);
    mean_pool_backward_1_49_128(a + dff_hidden_pre, a + dpool_y);
    relu_backward_6272(a + dff_hidden_pre, a + ff_hidden_pre, a + dff_hidden_pre);
    linear_backward_x_49_64_128_0(a + dattn_z, t + transposed_ff_w_up, a + dff_hidden_pre);
    linear_backward_w_49_64_128(g + ff_w_up, g + ff_b_up, a + attn_z, a + dff_hidden_pre);
    attention_backward_1_49_49_1_64_0p125(a + dattn_q, a + dattn_k, a + dattn_v, a + attn_transposed_v, a + dattn_scores, a + attn_q, a + attn_k, a + attn_v, a + attn_pattern, a + dattn_z);
    linear_backward_x_49_64_64_0(a + dpatch_y, t + transposed_attn_w_q, a + dattn_q);
    linear_backward_w_49_64_64(g + attn_w_q, g + attn_b_q, a + patch_y, a + dattn_q);
    linear_backward_x_49_64_64_1(a + dpatch_y, t + transposed_attn_w_k, a + dattn_k);
    linear_backward_w_49_64_64(g + attn_w_k, g + attn_b_k, a + patch_y, a + dattn_k);
    linear_backward_x_49_64_64_1(a + dpatch_y, t + transposed_attn_w_v, a + dattn_v);
    linear_backward_w_49_64_64(g + attn_w_v, g + attn_b_v, a + patch_y, a + dattn_v);
    relu_backward_3136(a + dpatch_y, a + patch_y, a + dpatch_y);
    positions_backward_1_49_64(g + positions_pos, a + dpatch_y);
    linear_backward_w_49_16_64(g + patch_w, g + patch_b, a + patches_y, a + dpatch_y);
}

enum { SUMMED = 1 };
static const int summed[SUMMED][2] = {{0, 33930}};

static void take_columns(float *g, const float *arenas, int groups, int part)
{
    (void)g, (void)arenas, (void)groups, (void)part;
}

#endif

#include "host.h"
