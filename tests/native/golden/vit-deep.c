/* ViT for images of 28x28x1: 1 sample at a time. Generated; the kernels are in c/. */

#include "attention.h"
#include "gelu.h"
#include "layer_norm.h"
#include "linear.h"
#include "mean_pool.h"
#include "patches.h"
#include "positions.h"
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
    PARAMETERS = 204938,
    TRANSPOSED = 197248,
    ARENA = 267856,
    LOGITS = 150592,
    DLOGITS = 150608,
    COLUMN_PARTS = 0,
};

/* Weights p, and their gradients g. */
enum {
    patch_w = 0, /* (16, 64) */
    patch_b = 1024, /* (64) */
    positions_pos = 1088, /* (49, 64) */
    blocks_0_norm1_gain = 4224, /* (64) */
    blocks_0_norm1_bias = 4288, /* (64) */
    blocks_0_attn_w_q = 4352, /* (64, 64) */
    blocks_0_attn_w_k = 8448, /* (64, 64) */
    blocks_0_attn_w_v = 12544, /* (64, 64) */
    blocks_0_attn_w_o = 16640, /* (64, 64) */
    blocks_0_attn_b_q = 20736, /* (64) */
    blocks_0_attn_b_k = 20800, /* (64) */
    blocks_0_attn_b_v = 20864, /* (64) */
    blocks_0_attn_b_o = 20928, /* (64) */
    blocks_0_norm2_gain = 20992, /* (64) */
    blocks_0_norm2_bias = 21056, /* (64) */
    blocks_0_ff_w_up = 21120, /* (64, 256) */
    blocks_0_ff_b_up = 37504, /* (256) */
    blocks_0_ff_w_down = 37760, /* (256, 64) */
    blocks_0_ff_b_down = 54144, /* (64) */
    blocks_1_norm1_gain = 54208, /* (64) */
    blocks_1_norm1_bias = 54272, /* (64) */
    blocks_1_attn_w_q = 54336, /* (64, 64) */
    blocks_1_attn_w_k = 58432, /* (64, 64) */
    blocks_1_attn_w_v = 62528, /* (64, 64) */
    blocks_1_attn_w_o = 66624, /* (64, 64) */
    blocks_1_attn_b_q = 70720, /* (64) */
    blocks_1_attn_b_k = 70784, /* (64) */
    blocks_1_attn_b_v = 70848, /* (64) */
    blocks_1_attn_b_o = 70912, /* (64) */
    blocks_1_norm2_gain = 70976, /* (64) */
    blocks_1_norm2_bias = 71040, /* (64) */
    blocks_1_ff_w_up = 71104, /* (64, 256) */
    blocks_1_ff_b_up = 87488, /* (256) */
    blocks_1_ff_w_down = 87744, /* (256, 64) */
    blocks_1_ff_b_down = 104128, /* (64) */
    blocks_2_norm1_gain = 104192, /* (64) */
    blocks_2_norm1_bias = 104256, /* (64) */
    blocks_2_attn_w_q = 104320, /* (64, 64) */
    blocks_2_attn_w_k = 108416, /* (64, 64) */
    blocks_2_attn_w_v = 112512, /* (64, 64) */
    blocks_2_attn_w_o = 116608, /* (64, 64) */
    blocks_2_attn_b_q = 120704, /* (64) */
    blocks_2_attn_b_k = 120768, /* (64) */
    blocks_2_attn_b_v = 120832, /* (64) */
    blocks_2_attn_b_o = 120896, /* (64) */
    blocks_2_norm2_gain = 120960, /* (64) */
    blocks_2_norm2_bias = 121024, /* (64) */
    blocks_2_ff_w_up = 121088, /* (64, 256) */
    blocks_2_ff_b_up = 137472, /* (256) */
    blocks_2_ff_w_down = 137728, /* (256, 64) */
    blocks_2_ff_b_down = 154112, /* (64) */
    blocks_3_norm1_gain = 154176, /* (64) */
    blocks_3_norm1_bias = 154240, /* (64) */
    blocks_3_attn_w_q = 154304, /* (64, 64) */
    blocks_3_attn_w_k = 158400, /* (64, 64) */
    blocks_3_attn_w_v = 162496, /* (64, 64) */
    blocks_3_attn_w_o = 166592, /* (64, 64) */
    blocks_3_attn_b_q = 170688, /* (64) */
    blocks_3_attn_b_k = 170752, /* (64) */
    blocks_3_attn_b_v = 170816, /* (64) */
    blocks_3_attn_b_o = 170880, /* (64) */
    blocks_3_norm2_gain = 170944, /* (64) */
    blocks_3_norm2_bias = 171008, /* (64) */
    blocks_3_ff_w_up = 171072, /* (64, 256) */
    blocks_3_ff_b_up = 187456, /* (256) */
    blocks_3_ff_w_down = 187712, /* (256, 64) */
    blocks_3_ff_b_down = 204096, /* (64) */
    norm_gain = 204160, /* (64) */
    norm_bias = 204224, /* (64) */
    head_w = 204288, /* (64, 10) */
    head_b = 204928, /* (10) */
};

/* Transposes t of weights. */
enum {
    transposed_head_w = 0, /* (10, 64) */
    transposed_blocks_3_ff_w_down = 640, /* (64, 256) */
    transposed_blocks_3_ff_w_up = 17024, /* (256, 64) */
    transposed_blocks_3_attn_w_o = 33408, /* (64, 64) */
    transposed_blocks_3_attn_w_q = 37504, /* (64, 64) */
    transposed_blocks_3_attn_w_k = 41600, /* (64, 64) */
    transposed_blocks_3_attn_w_v = 45696, /* (64, 64) */
    transposed_blocks_2_ff_w_down = 49792, /* (64, 256) */
    transposed_blocks_2_ff_w_up = 66176, /* (256, 64) */
    transposed_blocks_2_attn_w_o = 82560, /* (64, 64) */
    transposed_blocks_2_attn_w_q = 86656, /* (64, 64) */
    transposed_blocks_2_attn_w_k = 90752, /* (64, 64) */
    transposed_blocks_2_attn_w_v = 94848, /* (64, 64) */
    transposed_blocks_1_ff_w_down = 98944, /* (64, 256) */
    transposed_blocks_1_ff_w_up = 115328, /* (256, 64) */
    transposed_blocks_1_attn_w_o = 131712, /* (64, 64) */
    transposed_blocks_1_attn_w_q = 135808, /* (64, 64) */
    transposed_blocks_1_attn_w_k = 139904, /* (64, 64) */
    transposed_blocks_1_attn_w_v = 144000, /* (64, 64) */
    transposed_blocks_0_ff_w_down = 148096, /* (64, 256) */
    transposed_blocks_0_ff_w_up = 164480, /* (256, 64) */
    transposed_blocks_0_attn_w_o = 180864, /* (64, 64) */
    transposed_blocks_0_attn_w_q = 184960, /* (64, 64) */
    transposed_blocks_0_attn_w_k = 189056, /* (64, 64) */
    transposed_blocks_0_attn_w_v = 193152, /* (64, 64) */
};

/* Buffers in the arena a. Those that are never alive together share bytes. */
enum {
    prepare_y = 0, /* (1, 28, 28, 1), from call 0 to 1 */
    patches_y = 266560, /* (1, 49, 16), from call 1 to 124 */
    patch_y = 150528, /* (1, 49, 64), from call 2 to 52 */
    blocks_0_norm1_y = 163072, /* (1, 49, 64), from call 4 to 121 */
    blocks_0_norm1_xhat = 166208, /* (1, 49, 64), from call 4 to 122 */
    blocks_0_norm1_std_inv = 267344, /* (49), from call 4 to 122 */
    blocks_0_attn_q = 169344, /* (1, 49, 64), from call 5 to 115 */
    blocks_0_attn_k = 172480, /* (1, 49, 64), from call 6 to 115 */
    blocks_0_attn_v = 175616, /* (1, 49, 64), from call 7 to 115 */
    blocks_0_attn_z = 178752, /* (1, 49, 64), from call 8 to 114 */
    blocks_0_attn_pattern = 0, /* (1, 4, 49, PADDED(49)), from call 8 to 115 */
    blocks_0_attn_transposed = 12544, /* (16, PADDED(49)), from call 8 to 8 */
    blocks_0_attn_y = 12544, /* (1, 49, 64), from call 9 to 10 */
    blocks_0_norm2_y = 181888, /* (1, 49, 64), from call 11 to 111 */
    blocks_0_norm2_xhat = 185024, /* (1, 49, 64), from call 11 to 112 */
    blocks_0_norm2_std_inv = 267408, /* (49), from call 11 to 112 */
    blocks_0_ff_hidden_pre = 12544, /* (1, 49, 256), from call 12 to 109 */
    blocks_0_ff_activation_y = 25088, /* (1, 49, 256), from call 13 to 108 */
    blocks_0_ff_y = 37632, /* (1, 49, 64), from call 14 to 15 */
    blocks_1_norm1_y = 188160, /* (1, 49, 64), from call 16 to 105 */
    blocks_1_norm1_xhat = 191296, /* (1, 49, 64), from call 16 to 106 */
    blocks_1_norm1_std_inv = 267472, /* (49), from call 16 to 106 */
    blocks_1_attn_q = 194432, /* (1, 49, 64), from call 17 to 99 */
    blocks_1_attn_k = 197568, /* (1, 49, 64), from call 18 to 99 */
    blocks_1_attn_v = 200704, /* (1, 49, 64), from call 19 to 99 */
    blocks_1_attn_z = 203840, /* (1, 49, 64), from call 20 to 98 */
    blocks_1_attn_pattern = 37632, /* (1, 4, 49, PADDED(49)), from call 20 to 99 */
    blocks_1_attn_transposed = 50176, /* (16, PADDED(49)), from call 20 to 20 */
    blocks_1_attn_y = 50176, /* (1, 49, 64), from call 21 to 22 */
    blocks_1_norm2_y = 206976, /* (1, 49, 64), from call 23 to 95 */
    blocks_1_norm2_xhat = 210112, /* (1, 49, 64), from call 23 to 96 */
    blocks_1_norm2_std_inv = 267536, /* (49), from call 23 to 96 */
    blocks_1_ff_hidden_pre = 50176, /* (1, 49, 256), from call 24 to 93 */
    blocks_1_ff_activation_y = 62720, /* (1, 49, 256), from call 25 to 92 */
    blocks_1_ff_y = 75264, /* (1, 49, 64), from call 26 to 27 */
    blocks_2_norm1_y = 213248, /* (1, 49, 64), from call 28 to 89 */
    blocks_2_norm1_xhat = 216384, /* (1, 49, 64), from call 28 to 90 */
    blocks_2_norm1_std_inv = 267600, /* (49), from call 28 to 90 */
    blocks_2_attn_q = 219520, /* (1, 49, 64), from call 29 to 83 */
    blocks_2_attn_k = 222656, /* (1, 49, 64), from call 30 to 83 */
    blocks_2_attn_v = 225792, /* (1, 49, 64), from call 31 to 83 */
    blocks_2_attn_z = 228928, /* (1, 49, 64), from call 32 to 82 */
    blocks_2_attn_pattern = 75264, /* (1, 4, 49, PADDED(49)), from call 32 to 83 */
    blocks_2_attn_transposed = 87808, /* (16, PADDED(49)), from call 32 to 32 */
    blocks_2_attn_y = 87808, /* (1, 49, 64), from call 33 to 34 */
    blocks_2_norm2_y = 232064, /* (1, 49, 64), from call 35 to 79 */
    blocks_2_norm2_xhat = 235200, /* (1, 49, 64), from call 35 to 80 */
    blocks_2_norm2_std_inv = 267664, /* (49), from call 35 to 80 */
    blocks_2_ff_hidden_pre = 87808, /* (1, 49, 256), from call 36 to 77 */
    blocks_2_ff_activation_y = 100352, /* (1, 49, 256), from call 37 to 76 */
    blocks_2_ff_y = 112896, /* (1, 49, 64), from call 38 to 39 */
    blocks_3_norm1_y = 238336, /* (1, 49, 64), from call 40 to 73 */
    blocks_3_norm1_xhat = 241472, /* (1, 49, 64), from call 40 to 74 */
    blocks_3_norm1_std_inv = 267728, /* (49), from call 40 to 74 */
    blocks_3_attn_q = 244608, /* (1, 49, 64), from call 41 to 67 */
    blocks_3_attn_k = 247744, /* (1, 49, 64), from call 42 to 67 */
    blocks_3_attn_v = 250880, /* (1, 49, 64), from call 43 to 67 */
    blocks_3_attn_z = 254016, /* (1, 49, 64), from call 44 to 66 */
    blocks_3_attn_pattern = 112896, /* (1, 4, 49, PADDED(49)), from call 44 to 67 */
    blocks_3_attn_transposed = 125440, /* (16, PADDED(49)), from call 44 to 44 */
    blocks_3_attn_y = 125440, /* (1, 49, 64), from call 45 to 46 */
    blocks_3_norm2_y = 257152, /* (1, 49, 64), from call 47 to 63 */
    blocks_3_norm2_xhat = 260288, /* (1, 49, 64), from call 47 to 64 */
    blocks_3_norm2_std_inv = 267792, /* (49), from call 47 to 64 */
    blocks_3_ff_hidden_pre = 125440, /* (1, 49, 256), from call 48 to 61 */
    blocks_3_ff_activation_y = 137984, /* (1, 49, 256), from call 49 to 60 */
    blocks_3_ff_y = 153664, /* (1, 49, 64), from call 50 to 51 */
    norm_y = 153664, /* (1, 49, 64), from call 52 to 53 */
    norm_xhat = 156800, /* (1, 49, 64), from call 52 to 58 */
    norm_std_inv = 159936, /* (49), from call 52 to 58 */
    pool_y = 150528, /* (1, 64), from call 53 to 56 */
    logits = 150592, /* (1, 10), from call 54 to 55 */
    dlogits = 150608, /* (1, 10), from call 54 to 56 */
    dpool_y = 153664, /* (1, 64), from call 55 to 57 */
    dnorm_y = 150528, /* (1, 49, 64), from call 57 to 58 */
    dpatch_y = 263424, /* (1, 49, 64), from call 58 to 124 */
    dblocks_3_ff_activation_y = 150528, /* (1, 49, 256), from call 59 to 63 */
    dblocks_3_norm2_y = 125440, /* (1, 49, 64), from call 62 to 64 */
    dblocks_3_attn_z = 125440, /* (1, 49, 64), from call 65 to 67 */
    dblocks_3_attn_q = 128576, /* (1, 49, 64), from call 67 to 69 */
    dblocks_3_attn_k = 131712, /* (1, 49, 64), from call 67 to 71 */
    dblocks_3_attn_v = 134848, /* (1, 49, 64), from call 67 to 73 */
    blocks_3_attn_transposed_v = 141120, /* (16, PADDED(49)), from call 67 to 67 */
    dblocks_3_attn_scores = 137984, /* (49, PADDED(49)), from call 67 to 67 */
    dblocks_3_norm1_y = 112896, /* (1, 49, 64), from call 68 to 74 */
    dblocks_2_ff_activation_y = 112896, /* (1, 49, 256), from call 75 to 79 */
    dblocks_2_norm2_y = 87808, /* (1, 49, 64), from call 78 to 80 */
    dblocks_2_attn_z = 87808, /* (1, 49, 64), from call 81 to 83 */
    dblocks_2_attn_q = 90944, /* (1, 49, 64), from call 83 to 85 */
    dblocks_2_attn_k = 94080, /* (1, 49, 64), from call 83 to 87 */
    dblocks_2_attn_v = 97216, /* (1, 49, 64), from call 83 to 89 */
    blocks_2_attn_transposed_v = 103488, /* (16, PADDED(49)), from call 83 to 83 */
    dblocks_2_attn_scores = 100352, /* (49, PADDED(49)), from call 83 to 83 */
    dblocks_2_norm1_y = 75264, /* (1, 49, 64), from call 84 to 90 */
    dblocks_1_ff_activation_y = 75264, /* (1, 49, 256), from call 91 to 95 */
    dblocks_1_norm2_y = 50176, /* (1, 49, 64), from call 94 to 96 */
    dblocks_1_attn_z = 50176, /* (1, 49, 64), from call 97 to 99 */
    dblocks_1_attn_q = 53312, /* (1, 49, 64), from call 99 to 101 */
    dblocks_1_attn_k = 56448, /* (1, 49, 64), from call 99 to 103 */
    dblocks_1_attn_v = 59584, /* (1, 49, 64), from call 99 to 105 */
    blocks_1_attn_transposed_v = 65856, /* (16, PADDED(49)), from call 99 to 99 */
    dblocks_1_attn_scores = 62720, /* (49, PADDED(49)), from call 99 to 99 */
    dblocks_1_norm1_y = 37632, /* (1, 49, 64), from call 100 to 106 */
    dblocks_0_ff_activation_y = 37632, /* (1, 49, 256), from call 107 to 111 */
    dblocks_0_norm2_y = 12544, /* (1, 49, 64), from call 110 to 112 */
    dblocks_0_attn_z = 12544, /* (1, 49, 64), from call 113 to 115 */
    dblocks_0_attn_q = 15680, /* (1, 49, 64), from call 115 to 117 */
    dblocks_0_attn_k = 18816, /* (1, 49, 64), from call 115 to 119 */
    dblocks_0_attn_v = 21952, /* (1, 49, 64), from call 115 to 121 */
    blocks_0_attn_transposed_v = 28224, /* (16, PADDED(49)), from call 115 to 115 */
    dblocks_0_attn_scores = 25088, /* (49, PADDED(49)), from call 115 to 115 */
    dblocks_0_norm1_y = 0, /* (1, 49, 64), from call 116 to 122 */
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
static void layer_norm_forward_49_64_1em05(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5)
{
    layer_norm_forward(x0, x1, x2, x3, x4, x5, 49, 64, 1e-05f);
}
static void linear_forward_49_64_64(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 64, 64);
}
static void attention_forward_1_49_49_4_16_0p25(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5)
{
    attention_forward(x0, x1, x2, x3, x4, x5, 1, 49, 49, 4, 16, 0.25f);
}
static void residual_forward_3136(float *x0, const float *x1, const float *x2)
{
    residual_forward(x0, x1, x2, 3136);
}
static void linear_forward_49_64_256(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 64, 256);
}
static void gelu_forward_12544(float *x0, const float *x1)
{
    gelu_forward(x0, x1, 12544);
}
static void linear_forward_49_256_64(float *x0, const float *x1, const float *x2, const float *x3)
{
    linear_forward(x0, x1, x2, x3, 49, 256, 64);
}
static void mean_pool_forward_1_49_64(float *x0, const float *x1)
{
    mean_pool_forward(x0, x1, 1, 49, 64);
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
    layer_norm_forward_49_64_1em05(a + blocks_0_norm1_y, a + blocks_0_norm1_xhat, a + blocks_0_norm1_std_inv, p + blocks_0_norm1_gain, p + blocks_0_norm1_bias, a + patch_y);
    linear_forward_49_64_64(a + blocks_0_attn_q, p + blocks_0_attn_w_q, p + blocks_0_attn_b_q, a + blocks_0_norm1_y);
    linear_forward_49_64_64(a + blocks_0_attn_k, p + blocks_0_attn_w_k, p + blocks_0_attn_b_k, a + blocks_0_norm1_y);
    linear_forward_49_64_64(a + blocks_0_attn_v, p + blocks_0_attn_w_v, p + blocks_0_attn_b_v, a + blocks_0_norm1_y);
    attention_forward_1_49_49_4_16_0p25(a + blocks_0_attn_z, a + blocks_0_attn_pattern, a + blocks_0_attn_transposed, a + blocks_0_attn_q, a + blocks_0_attn_k, a + blocks_0_attn_v);
    linear_forward_49_64_64(a + blocks_0_attn_y, p + blocks_0_attn_w_o, p + blocks_0_attn_b_o, a + blocks_0_attn_z);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_0_attn_y);
    layer_norm_forward_49_64_1em05(a + blocks_0_norm2_y, a + blocks_0_norm2_xhat, a + blocks_0_norm2_std_inv, p + blocks_0_norm2_gain, p + blocks_0_norm2_bias, a + patch_y);
    linear_forward_49_64_256(a + blocks_0_ff_hidden_pre, p + blocks_0_ff_w_up, p + blocks_0_ff_b_up, a + blocks_0_norm2_y);
    gelu_forward_12544(a + blocks_0_ff_activation_y, a + blocks_0_ff_hidden_pre);
    linear_forward_49_256_64(a + blocks_0_ff_y, p + blocks_0_ff_w_down, p + blocks_0_ff_b_down, a + blocks_0_ff_activation_y);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_0_ff_y);
    layer_norm_forward_49_64_1em05(a + blocks_1_norm1_y, a + blocks_1_norm1_xhat, a + blocks_1_norm1_std_inv, p + blocks_1_norm1_gain, p + blocks_1_norm1_bias, a + patch_y);
    linear_forward_49_64_64(a + blocks_1_attn_q, p + blocks_1_attn_w_q, p + blocks_1_attn_b_q, a + blocks_1_norm1_y);
    linear_forward_49_64_64(a + blocks_1_attn_k, p + blocks_1_attn_w_k, p + blocks_1_attn_b_k, a + blocks_1_norm1_y);
    linear_forward_49_64_64(a + blocks_1_attn_v, p + blocks_1_attn_w_v, p + blocks_1_attn_b_v, a + blocks_1_norm1_y);
    attention_forward_1_49_49_4_16_0p25(a + blocks_1_attn_z, a + blocks_1_attn_pattern, a + blocks_1_attn_transposed, a + blocks_1_attn_q, a + blocks_1_attn_k, a + blocks_1_attn_v);
    linear_forward_49_64_64(a + blocks_1_attn_y, p + blocks_1_attn_w_o, p + blocks_1_attn_b_o, a + blocks_1_attn_z);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_1_attn_y);
    layer_norm_forward_49_64_1em05(a + blocks_1_norm2_y, a + blocks_1_norm2_xhat, a + blocks_1_norm2_std_inv, p + blocks_1_norm2_gain, p + blocks_1_norm2_bias, a + patch_y);
    linear_forward_49_64_256(a + blocks_1_ff_hidden_pre, p + blocks_1_ff_w_up, p + blocks_1_ff_b_up, a + blocks_1_norm2_y);
    gelu_forward_12544(a + blocks_1_ff_activation_y, a + blocks_1_ff_hidden_pre);
    linear_forward_49_256_64(a + blocks_1_ff_y, p + blocks_1_ff_w_down, p + blocks_1_ff_b_down, a + blocks_1_ff_activation_y);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_1_ff_y);
    layer_norm_forward_49_64_1em05(a + blocks_2_norm1_y, a + blocks_2_norm1_xhat, a + blocks_2_norm1_std_inv, p + blocks_2_norm1_gain, p + blocks_2_norm1_bias, a + patch_y);
    linear_forward_49_64_64(a + blocks_2_attn_q, p + blocks_2_attn_w_q, p + blocks_2_attn_b_q, a + blocks_2_norm1_y);
    linear_forward_49_64_64(a + blocks_2_attn_k, p + blocks_2_attn_w_k, p + blocks_2_attn_b_k, a + blocks_2_norm1_y);
    linear_forward_49_64_64(a + blocks_2_attn_v, p + blocks_2_attn_w_v, p + blocks_2_attn_b_v, a + blocks_2_norm1_y);
    attention_forward_1_49_49_4_16_0p25(a + blocks_2_attn_z, a + blocks_2_attn_pattern, a + blocks_2_attn_transposed, a + blocks_2_attn_q, a + blocks_2_attn_k, a + blocks_2_attn_v);
    linear_forward_49_64_64(a + blocks_2_attn_y, p + blocks_2_attn_w_o, p + blocks_2_attn_b_o, a + blocks_2_attn_z);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_2_attn_y);
    layer_norm_forward_49_64_1em05(a + blocks_2_norm2_y, a + blocks_2_norm2_xhat, a + blocks_2_norm2_std_inv, p + blocks_2_norm2_gain, p + blocks_2_norm2_bias, a + patch_y);
    linear_forward_49_64_256(a + blocks_2_ff_hidden_pre, p + blocks_2_ff_w_up, p + blocks_2_ff_b_up, a + blocks_2_norm2_y);
    gelu_forward_12544(a + blocks_2_ff_activation_y, a + blocks_2_ff_hidden_pre);
    linear_forward_49_256_64(a + blocks_2_ff_y, p + blocks_2_ff_w_down, p + blocks_2_ff_b_down, a + blocks_2_ff_activation_y);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_2_ff_y);
    layer_norm_forward_49_64_1em05(a + blocks_3_norm1_y, a + blocks_3_norm1_xhat, a + blocks_3_norm1_std_inv, p + blocks_3_norm1_gain, p + blocks_3_norm1_bias, a + patch_y);
    linear_forward_49_64_64(a + blocks_3_attn_q, p + blocks_3_attn_w_q, p + blocks_3_attn_b_q, a + blocks_3_norm1_y);
    linear_forward_49_64_64(a + blocks_3_attn_k, p + blocks_3_attn_w_k, p + blocks_3_attn_b_k, a + blocks_3_norm1_y);
    linear_forward_49_64_64(a + blocks_3_attn_v, p + blocks_3_attn_w_v, p + blocks_3_attn_b_v, a + blocks_3_norm1_y);
    attention_forward_1_49_49_4_16_0p25(a + blocks_3_attn_z, a + blocks_3_attn_pattern, a + blocks_3_attn_transposed, a + blocks_3_attn_q, a + blocks_3_attn_k, a + blocks_3_attn_v);
    linear_forward_49_64_64(a + blocks_3_attn_y, p + blocks_3_attn_w_o, p + blocks_3_attn_b_o, a + blocks_3_attn_z);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_3_attn_y);
    layer_norm_forward_49_64_1em05(a + blocks_3_norm2_y, a + blocks_3_norm2_xhat, a + blocks_3_norm2_std_inv, p + blocks_3_norm2_gain, p + blocks_3_norm2_bias, a + patch_y);
    linear_forward_49_64_256(a + blocks_3_ff_hidden_pre, p + blocks_3_ff_w_up, p + blocks_3_ff_b_up, a + blocks_3_norm2_y);
    gelu_forward_12544(a + blocks_3_ff_activation_y, a + blocks_3_ff_hidden_pre);
    linear_forward_49_256_64(a + blocks_3_ff_y, p + blocks_3_ff_w_down, p + blocks_3_ff_b_down, a + blocks_3_ff_activation_y);
    residual_forward_3136(a + patch_y, a + patch_y, a + blocks_3_ff_y);
    layer_norm_forward_49_64_1em05(a + norm_y, a + norm_xhat, a + norm_std_inv, p + norm_gain, p + norm_bias, a + patch_y);
    mean_pool_forward_1_49_64(a + pool_y, a + norm_y);
    linear_forward_1_64_10(a + logits, p + head_w, p + head_b, a + pool_y);
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
static void mean_pool_backward_1_49_64(float *x0, const float *x1)
{
    mean_pool_backward(x0, x1, 1, 49, 64);
}
static void layer_norm_backward_49_64_0(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5, const float *x6)
{
    layer_norm_backward(x0, x1, x2, x3, x4, x5, x6, 49, 64, 0);
}
static void linear_backward_x_49_256_64_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 256, 64, 0);
}
static void linear_backward_w_49_256_64(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 256, 64);
}
static void gelu_backward_12544(float *x0, const float *x1, const float *x2)
{
    gelu_backward(x0, x1, x2, 12544);
}
static void linear_backward_x_49_64_256_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 64, 256, 0);
}
static void linear_backward_w_49_64_256(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 64, 256);
}
static void layer_norm_backward_49_64_1(float *x0, float *x1, float *x2, const float *x3, const float *x4, const float *x5, const float *x6)
{
    layer_norm_backward(x0, x1, x2, x3, x4, x5, x6, 49, 64, 1);
}
static void linear_backward_x_49_64_64_0(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 64, 64, 0);
}
static void linear_backward_w_49_64_64(float *x0, float *x1, const float *x2, const float *x3)
{
    linear_backward_w(x0, x1, x2, x3, 49, 64, 64);
}
static void attention_backward_1_49_49_4_16_0p25(float *x0, float *x1, float *x2, float *x3, float *x4, const float *x5, const float *x6, const float *x7, const float *x8, const float *x9)
{
    attention_backward(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, 1, 49, 49, 4, 16, 0.25f);
}
static void linear_backward_x_49_64_64_1(float *x0, const float *x1, const float *x2)
{
    linear_backward_x(x0, x1, x2, 49, 64, 64, 1);
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
    transpose(t + transposed_blocks_3_ff_w_down, 256, p + blocks_3_ff_w_down, 64, 256, 64);
    transpose(t + transposed_blocks_3_ff_w_up, 64, p + blocks_3_ff_w_up, 256, 64, 256);
    transpose(t + transposed_blocks_3_attn_w_o, 64, p + blocks_3_attn_w_o, 64, 64, 64);
    transpose(t + transposed_blocks_3_attn_w_q, 64, p + blocks_3_attn_w_q, 64, 64, 64);
    transpose(t + transposed_blocks_3_attn_w_k, 64, p + blocks_3_attn_w_k, 64, 64, 64);
    transpose(t + transposed_blocks_3_attn_w_v, 64, p + blocks_3_attn_w_v, 64, 64, 64);
    transpose(t + transposed_blocks_2_ff_w_down, 256, p + blocks_2_ff_w_down, 64, 256, 64);
    transpose(t + transposed_blocks_2_ff_w_up, 64, p + blocks_2_ff_w_up, 256, 64, 256);
    transpose(t + transposed_blocks_2_attn_w_o, 64, p + blocks_2_attn_w_o, 64, 64, 64);
    transpose(t + transposed_blocks_2_attn_w_q, 64, p + blocks_2_attn_w_q, 64, 64, 64);
    transpose(t + transposed_blocks_2_attn_w_k, 64, p + blocks_2_attn_w_k, 64, 64, 64);
    transpose(t + transposed_blocks_2_attn_w_v, 64, p + blocks_2_attn_w_v, 64, 64, 64);
    transpose(t + transposed_blocks_1_ff_w_down, 256, p + blocks_1_ff_w_down, 64, 256, 64);
    transpose(t + transposed_blocks_1_ff_w_up, 64, p + blocks_1_ff_w_up, 256, 64, 256);
    transpose(t + transposed_blocks_1_attn_w_o, 64, p + blocks_1_attn_w_o, 64, 64, 64);
    transpose(t + transposed_blocks_1_attn_w_q, 64, p + blocks_1_attn_w_q, 64, 64, 64);
    transpose(t + transposed_blocks_1_attn_w_k, 64, p + blocks_1_attn_w_k, 64, 64, 64);
    transpose(t + transposed_blocks_1_attn_w_v, 64, p + blocks_1_attn_w_v, 64, 64, 64);
    transpose(t + transposed_blocks_0_ff_w_down, 256, p + blocks_0_ff_w_down, 64, 256, 64);
    transpose(t + transposed_blocks_0_ff_w_up, 64, p + blocks_0_ff_w_up, 256, 64, 256);
    transpose(t + transposed_blocks_0_attn_w_o, 64, p + blocks_0_attn_w_o, 64, 64, 64);
    transpose(t + transposed_blocks_0_attn_w_q, 64, p + blocks_0_attn_w_q, 64, 64, 64);
    transpose(t + transposed_blocks_0_attn_w_k, 64, p + blocks_0_attn_w_k, 64, 64, 64);
    transpose(t + transposed_blocks_0_attn_w_v, 64, p + blocks_0_attn_w_v, 64, 64, 64);
}

static void backward(float *a, float *g, const float *p, const float *t)
{
    (void)p, (void)t;
    linear_backward_x_1_64_10_0(a + dpool_y, t + transposed_head_w, a + dlogits);
    linear_backward_w_1_64_10(g + head_w, g + head_b, a + pool_y, a + dlogits);
    mean_pool_backward_1_49_64(a + dnorm_y, a + dpool_y);
    layer_norm_backward_49_64_0(a + dpatch_y, g + norm_gain, g + norm_bias, p + norm_gain, a + norm_xhat, a + norm_std_inv, a + dnorm_y);
    linear_backward_x_49_256_64_0(a + dblocks_3_ff_activation_y, t + transposed_blocks_3_ff_w_down, a + dpatch_y);
    linear_backward_w_49_256_64(g + blocks_3_ff_w_down, g + blocks_3_ff_b_down, a + blocks_3_ff_activation_y, a + dpatch_y);
    gelu_backward_12544(a + dblocks_3_ff_activation_y, a + blocks_3_ff_hidden_pre, a + dblocks_3_ff_activation_y);
    linear_backward_x_49_64_256_0(a + dblocks_3_norm2_y, t + transposed_blocks_3_ff_w_up, a + dblocks_3_ff_activation_y);
    linear_backward_w_49_64_256(g + blocks_3_ff_w_up, g + blocks_3_ff_b_up, a + blocks_3_norm2_y, a + dblocks_3_ff_activation_y);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_3_norm2_gain, g + blocks_3_norm2_bias, p + blocks_3_norm2_gain, a + blocks_3_norm2_xhat, a + blocks_3_norm2_std_inv, a + dblocks_3_norm2_y);
    linear_backward_x_49_64_64_0(a + dblocks_3_attn_z, t + transposed_blocks_3_attn_w_o, a + dpatch_y);
    linear_backward_w_49_64_64(g + blocks_3_attn_w_o, g + blocks_3_attn_b_o, a + blocks_3_attn_z, a + dpatch_y);
    attention_backward_1_49_49_4_16_0p25(a + dblocks_3_attn_q, a + dblocks_3_attn_k, a + dblocks_3_attn_v, a + blocks_3_attn_transposed_v, a + dblocks_3_attn_scores, a + blocks_3_attn_q, a + blocks_3_attn_k, a + blocks_3_attn_v, a + blocks_3_attn_pattern, a + dblocks_3_attn_z);
    linear_backward_x_49_64_64_0(a + dblocks_3_norm1_y, t + transposed_blocks_3_attn_w_q, a + dblocks_3_attn_q);
    linear_backward_w_49_64_64(g + blocks_3_attn_w_q, g + blocks_3_attn_b_q, a + blocks_3_norm1_y, a + dblocks_3_attn_q);
    linear_backward_x_49_64_64_1(a + dblocks_3_norm1_y, t + transposed_blocks_3_attn_w_k, a + dblocks_3_attn_k);
    linear_backward_w_49_64_64(g + blocks_3_attn_w_k, g + blocks_3_attn_b_k, a + blocks_3_norm1_y, a + dblocks_3_attn_k);
    linear_backward_x_49_64_64_1(a + dblocks_3_norm1_y, t + transposed_blocks_3_attn_w_v, a + dblocks_3_attn_v);
    linear_backward_w_49_64_64(g + blocks_3_attn_w_v, g + blocks_3_attn_b_v, a + blocks_3_norm1_y, a + dblocks_3_attn_v);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_3_norm1_gain, g + blocks_3_norm1_bias, p + blocks_3_norm1_gain, a + blocks_3_norm1_xhat, a + blocks_3_norm1_std_inv, a + dblocks_3_norm1_y);
    linear_backward_x_49_256_64_0(a + dblocks_2_ff_activation_y, t + transposed_blocks_2_ff_w_down, a + dpatch_y);
    linear_backward_w_49_256_64(g + blocks_2_ff_w_down, g + blocks_2_ff_b_down, a + blocks_2_ff_activation_y, a + dpatch_y);
    gelu_backward_12544(a + dblocks_2_ff_activation_y, a + blocks_2_ff_hidden_pre, a + dblocks_2_ff_activation_y);
    linear_backward_x_49_64_256_0(a + dblocks_2_norm2_y, t + transposed_blocks_2_ff_w_up, a + dblocks_2_ff_activation_y);
    linear_backward_w_49_64_256(g + blocks_2_ff_w_up, g + blocks_2_ff_b_up, a + blocks_2_norm2_y, a + dblocks_2_ff_activation_y);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_2_norm2_gain, g + blocks_2_norm2_bias, p + blocks_2_norm2_gain, a + blocks_2_norm2_xhat, a + blocks_2_norm2_std_inv, a + dblocks_2_norm2_y);
    linear_backward_x_49_64_64_0(a + dblocks_2_attn_z, t + transposed_blocks_2_attn_w_o, a + dpatch_y);
    linear_backward_w_49_64_64(g + blocks_2_attn_w_o, g + blocks_2_attn_b_o, a + blocks_2_attn_z, a + dpatch_y);
    attention_backward_1_49_49_4_16_0p25(a + dblocks_2_attn_q, a + dblocks_2_attn_k, a + dblocks_2_attn_v, a + blocks_2_attn_transposed_v, a + dblocks_2_attn_scores, a + blocks_2_attn_q, a + blocks_2_attn_k, a + blocks_2_attn_v, a + blocks_2_attn_pattern, a + dblocks_2_attn_z);
    linear_backward_x_49_64_64_0(a + dblocks_2_norm1_y, t + transposed_blocks_2_attn_w_q, a + dblocks_2_attn_q);
    linear_backward_w_49_64_64(g + blocks_2_attn_w_q, g + blocks_2_attn_b_q, a + blocks_2_norm1_y, a + dblocks_2_attn_q);
    linear_backward_x_49_64_64_1(a + dblocks_2_norm1_y, t + transposed_blocks_2_attn_w_k, a + dblocks_2_attn_k);
    linear_backward_w_49_64_64(g + blocks_2_attn_w_k, g + blocks_2_attn_b_k, a + blocks_2_norm1_y, a + dblocks_2_attn_k);
    linear_backward_x_49_64_64_1(a + dblocks_2_norm1_y, t + transposed_blocks_2_attn_w_v, a + dblocks_2_attn_v);
    linear_backward_w_49_64_64(g + blocks_2_attn_w_v, g + blocks_2_attn_b_v, a + blocks_2_norm1_y, a + dblocks_2_attn_v);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_2_norm1_gain, g + blocks_2_norm1_bias, p + blocks_2_norm1_gain, a + blocks_2_norm1_xhat, a + blocks_2_norm1_std_inv, a + dblocks_2_norm1_y);
    linear_backward_x_49_256_64_0(a + dblocks_1_ff_activation_y, t + transposed_blocks_1_ff_w_down, a + dpatch_y);
    linear_backward_w_49_256_64(g + blocks_1_ff_w_down, g + blocks_1_ff_b_down, a + blocks_1_ff_activation_y, a + dpatch_y);
    gelu_backward_12544(a + dblocks_1_ff_activation_y, a + blocks_1_ff_hidden_pre, a + dblocks_1_ff_activation_y);
    linear_backward_x_49_64_256_0(a + dblocks_1_norm2_y, t + transposed_blocks_1_ff_w_up, a + dblocks_1_ff_activation_y);
    linear_backward_w_49_64_256(g + blocks_1_ff_w_up, g + blocks_1_ff_b_up, a + blocks_1_norm2_y, a + dblocks_1_ff_activation_y);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_1_norm2_gain, g + blocks_1_norm2_bias, p + blocks_1_norm2_gain, a + blocks_1_norm2_xhat, a + blocks_1_norm2_std_inv, a + dblocks_1_norm2_y);
    linear_backward_x_49_64_64_0(a + dblocks_1_attn_z, t + transposed_blocks_1_attn_w_o, a + dpatch_y);
    linear_backward_w_49_64_64(g + blocks_1_attn_w_o, g + blocks_1_attn_b_o, a + blocks_1_attn_z, a + dpatch_y);
    attention_backward_1_49_49_4_16_0p25(a + dblocks_1_attn_q, a + dblocks_1_attn_k, a + dblocks_1_attn_v, a + blocks_1_attn_transposed_v, a + dblocks_1_attn_scores, a + blocks_1_attn_q, a + blocks_1_attn_k, a + blocks_1_attn_v, a + blocks_1_attn_pattern, a + dblocks_1_attn_z);
    linear_backward_x_49_64_64_0(a + dblocks_1_norm1_y, t + transposed_blocks_1_attn_w_q, a + dblocks_1_attn_q);
    linear_backward_w_49_64_64(g + blocks_1_attn_w_q, g + blocks_1_attn_b_q, a + blocks_1_norm1_y, a + dblocks_1_attn_q);
    linear_backward_x_49_64_64_1(a + dblocks_1_norm1_y, t + transposed_blocks_1_attn_w_k, a + dblocks_1_attn_k);
    linear_backward_w_49_64_64(g + blocks_1_attn_w_k, g + blocks_1_attn_b_k, a + blocks_1_norm1_y, a + dblocks_1_attn_k);
    linear_backward_x_49_64_64_1(a + dblocks_1_norm1_y, t + transposed_blocks_1_attn_w_v, a + dblocks_1_attn_v);
    linear_backward_w_49_64_64(g + blocks_1_attn_w_v, g + blocks_1_attn_b_v, a + blocks_1_norm1_y, a + dblocks_1_attn_v);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_1_norm1_gain, g + blocks_1_norm1_bias, p + blocks_1_norm1_gain, a + blocks_1_norm1_xhat, a + blocks_1_norm1_std_inv, a + dblocks_1_norm1_y);
    linear_backward_x_49_256_64_0(a + dblocks_0_ff_activation_y, t + transposed_blocks_0_ff_w_down, a + dpatch_y);
    linear_backward_w_49_256_64(g + blocks_0_ff_w_down, g + blocks_0_ff_b_down, a + blocks_0_ff_activation_y, a + dpatch_y);
    gelu_backward_12544(a + dblocks_0_ff_activation_y, a + blocks_0_ff_hidden_pre, a + dblocks_0_ff_activation_y);
    linear_backward_x_49_64_256_0(a + dblocks_0_norm2_y, t + transposed_blocks_0_ff_w_up, a + dblocks_0_ff_activation_y);
    linear_backward_w_49_64_256(g + blocks_0_ff_w_up, g + blocks_0_ff_b_up, a + blocks_0_norm2_y, a + dblocks_0_ff_activation_y);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_0_norm2_gain, g + blocks_0_norm2_bias, p + blocks_0_norm2_gain, a + blocks_0_norm2_xhat, a + blocks_0_norm2_std_inv, a + dblocks_0_norm2_y);
    linear_backward_x_49_64_64_0(a + dblocks_0_attn_z, t + transposed_blocks_0_attn_w_o, a + dpatch_y);
    linear_backward_w_49_64_64(g + blocks_0_attn_w_o, g + blocks_0_attn_b_o, a + blocks_0_attn_z, a + dpatch_y);
    attention_backward_1_49_49_4_16_0p25(a + dblocks_0_attn_q, a + dblocks_0_attn_k, a + dblocks_0_attn_v, a + blocks_0_attn_transposed_v, a + dblocks_0_attn_scores, a + blocks_0_attn_q, a + blocks_0_attn_k, a + blocks_0_attn_v, a + blocks_0_attn_pattern, a + dblocks_0_attn_z);
    linear_backward_x_49_64_64_0(a + dblocks_0_norm1_y, t + transposed_blocks_0_attn_w_q, a + dblocks_0_attn_q);
    linear_backward_w_49_64_64(g + blocks_0_attn_w_q, g + blocks_0_attn_b_q, a + blocks_0_norm1_y, a + dblocks_0_attn_q);
    linear_backward_x_49_64_64_1(a + dblocks_0_norm1_y, t + transposed_blocks_0_attn_w_k, a + dblocks_0_attn_k);
    linear_backward_w_49_64_64(g + blocks_0_attn_w_k, g + blocks_0_attn_b_k, a + blocks_0_norm1_y, a + dblocks_0_attn_k);
    linear_backward_x_49_64_64_1(a + dblocks_0_norm1_y, t + transposed_blocks_0_attn_w_v, a + dblocks_0_attn_v);
    linear_backward_w_49_64_64(g + blocks_0_attn_w_v, g + blocks_0_attn_b_v, a + blocks_0_norm1_y, a + dblocks_0_attn_v);
    layer_norm_backward_49_64_1(a + dpatch_y, g + blocks_0_norm1_gain, g + blocks_0_norm1_bias, p + blocks_0_norm1_gain, a + blocks_0_norm1_xhat, a + blocks_0_norm1_std_inv, a + dblocks_0_norm1_y);
    positions_backward_1_49_64(g + positions_pos, a + dpatch_y);
    linear_backward_w_49_16_64(g + patch_w, g + patch_b, a + patches_y, a + dpatch_y);
}

enum { SUMMED = 1 };
static const int summed[SUMMED][2] = {{0, 204938}};

static void take_columns(float *g, const float *arenas, int groups, int part)
{
    (void)g, (void)arenas, (void)groups, (void)part;
}

#endif

#include "host.h"
