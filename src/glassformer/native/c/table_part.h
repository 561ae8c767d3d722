/* Rows of a table, whose gradient a thread computes at a time over all tokens of a step (host.h). */
#ifndef GF_TABLE_PART_H
#define GF_TABLE_PART_H

#include "simd.h"

#define TABLE_PIECE 64

typedef struct {
    int first;       /* of up to TABLE_PIECE rows */
    float smoothing; /* of labels, for the loss */
    float *work;     /* TABLE_WORK floats */
} table_part;

INLINE void clear_rows(float *table, int V, int C, const table_part *part)
{
    const int left = V - part->first;
    memset(table + (size_t)part->first * C, 0, (size_t)(left < TABLE_PIECE ? left : TABLE_PIECE) * C * sizeof *table);
}

#endif
