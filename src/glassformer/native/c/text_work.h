/* What a stack of blocks is given (text_stack.h), and where it computes. Sizes come at run time: one library serves all
 * models. Memory comes from the caller: nothing is allocated here. */
#ifndef GF_TEXT_WORK_H
#define GF_TEXT_WORK_H

#include "weight_panels.h"

/* Parts of a block, as places in the weights. In the row behind the last block GAIN1 and BIAS1 are those of the last norm,
 * GAIN2 and BIAS2 those of a norm before the first block, and W_QKV is the head. */
enum { GAIN1, BIAS1, W_QKV, B_QKV, GAIN_Q, GAIN_K, W_O, B_O, GAIN2, BIAS2, W_GATE, B_GATE, W_UP, B_UP, W_DOWN, B_DOWN, PARTS };

typedef struct {
    const char *weights;
    const int64_t *parts;    /* (depth + 1, PARTS): bytes from the beginning of the weights; -1: left out */
    const float *rotations;  /* (places, D): cosines, then sines, of rotary positions; or NULL */
    char *keys, *values;     /* (cache_layers, sequences, J, the panels of a head), of cache_kind */
    const float *x;          /* (tokens, C): embedded */
    float *y;                /* (wants, PANELS(V) * PANEL): logits; without a head (wants, C) */
    float *space;            /* gf_text_space() floats, aligned to 64 bytes */
    const int32_t *owner;    /* (tokens): the text of each; those of one text lie side by side, in their order */
    const int32_t *place;    /* (tokens): where in it */
    const int32_t *wanted;   /* (wants): tokens whose values are asked for */
    const int32_t *length;   /* (sequences): tokens of each text, where all of them see all of them; NULL: causal */
    int32_t tokens, wants, sequences, slots; /* slots: places in the cache, whole panels; it may be a ring */
    int32_t width, heads, key_heads, head_width, hidden, depth, vocabulary; /* vocabulary 0: no head */
    int32_t kind, cache_kind, cache_layers; /* what weights and cache are made of */
    int32_t norm, post_norm, window, activation; /* window 0: everything is seen */
    int32_t threads;
    float eps, head_eps, scale; /* of norms, of norms of q and k; of scores */
} text_work;

/* Rows of activations: whole panels, and one line of memory more, so that rows do not all fall into the same corner of
 * the cache. */
INLINE int row_of(int n) { return PANELS(n) * PANEL + 16; }

typedef struct { int q, k, v, row; } qkv_row; /* where q, k and v begin in a row, each in whole panels */

INLINE qkv_row qkv_of(const text_work *work)
{
    const int A = PANELS(work->heads * work->head_width) * PANEL, E = PANELS(work->key_heads * work->head_width) * PANEL;
    return (qkv_row){0, A, A + E, A + 2 * E + 16};
}

/* A part of block l, or NULL. */
INLINE const char *part_of(const text_work *work, int l, int part)
{
    const int64_t at = work->parts[l * PARTS + part];
    return at < 0 ? NULL : work->weights + at;
}
INLINE const float *floats_of(const text_work *work, int l, int part) { return (const float *)part_of(work, l, part); }

typedef struct {
    const text_work *work;
    float *resid, *normed, *qkv, *joined, *hidden; /* shared: a row for each token */
    int8_t *q;                                     /* the rows that the next product reads, quantised */
    float *scales;
    int32_t *sums, *tiles;                         /* tiles: the tokens with which tiles of attention begin, and the last */
    float *scores, *z, *up;                        /* own: (TILE_ROWS, slots + PANEL), (TILE_ROWS, row_of(D)), (tokens, PANEL) */
} text_buffers;

INLINE int64_t next_buffer(int64_t *at, int64_t floats)
{
    const int64_t here = *at;
    *at += (floats + 15) / 16 * 16;
    return here;
}

INLINE int longest_row(const text_work *work)
{
    const int A = work->heads * work->head_width, most = work->hidden > A ? work->hidden : A;
    return most > work->width ? most : work->width;
}

/* Returns the floats needed in all. */
static inline int64_t lay_out_text(text_buffers *own, const text_work *work, int thread)
{
    const int64_t N = work->tokens, K = work->kind == INT8 ? longest_row(work) : 0;
    const int64_t scores = (int64_t)TILE_ROWS * (work->slots + PANEL), z = (int64_t)TILE_ROWS * row_of(work->head_width);
    const int64_t up = N * PANEL, rows = N * row_of(work->width);
    float *space = work->space;
    int64_t at = 0;
    own->work = work;
    own->resid = space + next_buffer(&at, rows);
    own->normed = work->post_norm ? own->resid : space + next_buffer(&at, rows);
    own->qkv = space + next_buffer(&at, N * qkv_of(work).row);
    own->joined = space + next_buffer(&at, N * row_of(work->heads * work->head_width));
    own->hidden = space + next_buffer(&at, N * row_of(work->hidden));
    own->q = (int8_t *)(space + next_buffer(&at, N * quantised_row((int)K) / 4));
    own->scales = space + next_buffer(&at, N * QUANT_GROUPS(K));
    own->sums = (int32_t *)(space + next_buffer(&at, N * QUANT_GROUPS(K)));
    own->tiles = (int32_t *)(space + next_buffer(&at, N + 1));
    at += thread * (scores + z + up + 48);
    own->scores = space + next_buffer(&at, scores);
    own->z = space + next_buffer(&at, z);
    own->up = space + next_buffer(&at, up);
    return at + (work->threads - 1 - thread) * (scores + z + up + 48) + 48;
}

#endif
