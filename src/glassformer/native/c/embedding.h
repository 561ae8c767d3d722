/* Embedding: a token's value is the row of its symbol (layers/embedding.py).  V rows of width C. */
#ifndef GF_EMBEDDING_H
#define GF_EMBEDDING_H

#include "table_part.h"
#include "token_ids.h"

/* y (N, C)  <-  emb (V, C), ids (N).  Overwrites y. An id outside the table shows at once, as NaN. */
INLINE void embedding_forward(float *y, const float *emb, const float *ids, int N, int V, int C)
{
    for (int n = 0; n < N; n++, y += C) {
        const int32_t id = id_at(ids, n);
        if (id >= 0 && id < V) memcpy(y, emb + (size_t)id * C, (size_t)C * sizeof *y);
        else
            for (int c = 0; c < C; c++) y[c] = NAN;
    }
}

/* The rows from `first` to `last` of demb (V, C)  +=  ids (N), dy (N, C).  Adds, token after token. */
INLINE void embedding_add(float *demb, const float *ids, const float *dy, int N, int C, int first, int last)
{
    for (int n = 0; n < N; n++, dy += C) {
        const int32_t id = id_at(ids, n);
        if (id < first || id >= last) continue;
        float *row = demb + (size_t)id * C;
        for (int c = 0; c < C; c += LANES)
            vec_store_part(row + c, vec_load_part(row + c, LEFT(C, c)) + vec_load_part(dy + c, LEFT(C, c)), LEFT(C, c));
    }
}

/* demb (V, C)  +=  ids (N), dy (N, C).  Adds. */
INLINE void embedding_backward(float *demb, const float *ids, const float *dy, int N, int V, int C)
{
    embedding_add(demb, ids, dy, N, C, 0, V);
}

/* The same for the rows of one part. */
INLINE void embedding_rows(float *demb, const float *ids, const float *dy, int N, int V, int C, const table_part *part)
{
    const int end = part->first + TABLE_PIECE;
    embedding_add(demb, ids, dy, N, C, part->first, end < V ? end : V);
}

/* The same where all tokens have the symbol 0: a text without a second one has one kind of segment. */
INLINE void embedding_same_forward(float *y, const float *emb, int N, int C)
{
    for (int n = 0; n < N; n++) memcpy(y + n * C, emb, (size_t)C * sizeof *y);
}

/* demb (C), its first row  +=  dy (N, C).  Adds. */
INLINE void embedding_same_backward(float *demb, const float *dy, int N, int C)
{
    for (int n = 0; n < N; n++, dy += C)
        for (int c = 0; c < C; c += LANES)
            vec_store_part(demb + c, vec_load_part(demb + c, LEFT(C, c)) + vec_load_part(dy + c, LEFT(C, c)), LEFT(C, c));
}

#endif
