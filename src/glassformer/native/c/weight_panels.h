/* Weights for writing and reading texts: every matrix in panels (panels.h), of float32, bf16 or int8, in one array that
 * is read from its first byte to its last. They are packed once, when a model is loaded. */
#ifndef GF_WEIGHT_PANELS_H
#define GF_WEIGHT_PANELS_H

#include "phases.h"
#include "quantised_matmul.h"

INLINE size_t bytes_of_panel(int K, int kind)
{
    return kind == INT8 ? bytes_of_quantised_panel(K) : (size_t)K * PANEL * (kind == BF16 ? 2 : 4);
}

/* A matrix (K, O) wherever it lies, w[k * row + o * column], and where its panels go. */
typedef struct {
    char *to;
    const float *w;
    int64_t row, column;
    int32_t K, O, kind, threads;
} packing;

/* Rows of one panel from k on, up to QUANT_GROUP of them: block (rows, PANEL), zeros beyond the last column. */
static inline void panel_block(float *block, const packing *work, int panel, int k, int rows)
{
    const int columns = work->O - panel * PANEL < PANEL ? work->O - panel * PANEL : PANEL;
    const float *w = work->w + k * work->row + (int64_t)panel * PANEL * work->column;
    if (columns < PANEL) memset(block, 0, (size_t)rows * PANEL * sizeof *block);
    if (work->column == 1)
        for (int r = 0; r < rows; r++) memcpy(block + r * PANEL, w + r * work->row, (size_t)columns * sizeof *block);
    else
        for (int o = 0; o < columns; o++)
            for (int r = 0; r < rows; r++) block[r * PANEL + o] = w[r * work->row + o * work->column];
}

static inline void pack_panel(const packing *work, int panel)
{
    float block[QUANT_GROUP * PANEL];
    char *to = work->to + (size_t)panel * bytes_of_panel(work->K, work->kind);
    for (int k = 0; k < work->K; k += QUANT_GROUP) {
        const int rows = length_of_group(work->K, k / QUANT_GROUP), numbers = rows * PANEL;
        panel_block(block, work, panel, k, rows);
        if (work->kind == INT8) {
            to = quantise_group(to, block, rows);
        } else if (work->kind == BF16) {
            for (int i = 0; i < numbers; i++) ((uint16_t *)to)[i] = to_bf16(block[i]);
            to += numbers * 2;
        } else {
            memcpy(to, block, (size_t)numbers * sizeof *block);
            to += numbers * 4;
        }
    }
}

static int items_of_packing(void *argument, int phase)
{
    const packing *work = argument;
    return phase ? 0 : PANELS(work->O) < MOST_ITEMS ? PANELS(work->O) : MOST_ITEMS;
}

static void pack_item(void *argument, int thread, int phase, int item)
{
    const packing *work = argument;
    int from, to;
    (void)thread;
    share_out(PANELS(work->O), item, items_of_packing(argument, phase), &from, &to);
    for (int panel = from; panel < to; panel++) pack_panel(work, panel);
}

void gf_pack(packing *work) { in_phases(work, items_of_packing, pack_item, work->threads); }
int64_t gf_bytes_of_matrix(int K, int O, int kind) { return (int64_t)(PANELS(O) * bytes_of_panel(K, kind)); }
int gf_packing_size(void) { return (int)sizeof(packing); }
int gf_panel(void) { return PANEL; }

/* What a product reads: rows of floats, and the same quantised where the weights are int8. */
typedef struct {
    const float *x;
    int row;
    quantised_rows quantised;
} product_rows;

/* The columns of one panel of y (N, …)  <-  b + x (N, K) @ w.  Overwrites, or adds. */
INLINE void weight_panel(float *y, int y_row, const char *w, const float *b, const product_rows *x, int K, int N,
                         int add, int kind)
{
    if (kind == INT8) quantised_product(y, y_row, w, b, &x->quantised, K, N, add);
    else panel_product(y, y_row, w, b, x->x, x->row, K, N, add, kind);
}

#endif
