/* Tied head and cross-entropy together, in pieces of the vocabulary (layers/tied_head.py, losses/cross_entropy.py,
 * losses/label_smoothing.py): logits of HEAD_TOKENS tokens and HEAD_PIECE symbols are there at a time, never all N x V.
 *
 *   loss = sum over n of  share (log sum exp(logits) - (1 - smoothing) logits[label] - smoothing mean(logits))
 *   dx   = share (softmax(logits) @ emb - (1 - smoothing) emb[label] - smoothing mean of emb's rows)
 *
 * The softmax is found while pieces come: when the highest logit rises, what was added up so far is scaled. The table's
 * gradient is computed later, rows by rows over all tokens, from the same logits once more.
 * A token without a share is left out: those that have one are packed, with zeros behind them to whole HEAD_ROWS.
 * tokens (HEAD_FILLED(N), C) are these; facts (4, HEAD_FILLED(N)): label, share, highest logit, share over the sum. */
#ifndef GF_HEAD_LOSS_H
#define GF_HEAD_LOSS_H

#include "exp.h"
#include "matmul.h"
#include "table_part.h"
#include "token_ids.h"
#include "transpose.h"

#define HEAD_ROWS 32 /* tokens of a product */
#define HEAD_TOKENS (4 * HEAD_ROWS)
#define HEAD_PIECE TABLE_PIECE /* symbols */
#define HEAD_FILLED(N) (((N) + HEAD_ROWS - 1) / HEAD_ROWS * HEAD_ROWS)

enum { LABEL, SHARE, TOP, SCALE };

/* tokens, facts  <-  x (N, C), labels (N), share (N).  Returns how many count. */
INLINE int head_pack(float *tokens, float *facts, const float *x, const int32_t *labels, const float *share, int N, int C)
{
    const int filled = HEAD_FILLED(N);
    int count = 0;
    for (int n = 0; n < N; n++) {
        if (share[n] == 0.0f) continue;
        memcpy(tokens + count * C, x + n * C, (size_t)C * sizeof *x);
        memcpy(facts + LABEL * filled + count, labels + n, sizeof *labels);
        facts[SHARE * filled + count++] = share[n];
    }
    memset(tokens + count * C, 0, (size_t)((filled - count) * C) * sizeof *tokens);
    for (int n = count; n < filled; n++) {
        facts[LABEL * filled + n] = facts[SHARE * filled + n] = facts[SCALE * filled + n] = 0.0f;
        facts[TOP * filled + n] = INFINITY; /* no logit comes near */
    }
    return count;
}

/* What is known of a token while pieces come. */
typedef struct {
    float top, sum, at_label, of_all;
} head_state;

/* logits (M)  <-  exp(logits - top), where top may rise: then dx (C) and the sum are scaled.  label: of the whole table. */
INLINE void head_row(float *logits, float *dx, head_state *now, int32_t label, int first, int C, int M)
{
    vec highest = vec_all(now->top), all = vec_all(0.0f), total = vec_all(0.0f);
    if (label >= first && label < first + M) now->at_label = logits[label - first];
    for (int m = 0; m < M; m += LANES) {
        const vec v = vec_load_part(logits + m, LEFT(M, m));
        highest = vec_max(highest, M % LANES ? vec_fill_from(v, M - m, -INFINITY) : v);
        all += v;
    }
    const float top = vec_highest(highest), before = now->top == top ? 1.0f : expf(now->top - top);
    for (int m = 0; m < M; m += LANES) {
        const vec v = vec_load_part(logits + m, LEFT(M, m)) - vec_all(top);
        const vec e = vec_exp(M % LANES ? vec_fill_from(v, M - m, -INFINITY) : v);
        vec_store_part(logits + m, e, LEFT(M, m));
        total += e;
    }
    if (before != 1.0f)
        for (int c = 0; c < C; c += LANES) vec_store_part(dx + c, vec_load_part(dx + c, LEFT(C, c)) * vec_all(before), LEFT(C, c));
    now->sum = now->sum * before + vec_sum(total);
    now->of_all += vec_sum(all);
    now->top = top;
}

/* M symbols from `first` on, for `count` tokens: dx (count, C) is added to.  emb_t, logits: room. */
INLINE void head_piece(float *dx, head_state *now, float *emb_t, float *logits, const float *emb, const float *b,
                       const float *tokens, const float *labels, int count, int first, int C, int M)
{
    emb += (size_t)first * C;
    transpose(emb_t, HEAD_PIECE, emb, C, M, C);
    for (int n = 0; n < count; n += HEAD_ROWS) {
        matmul(logits, HEAD_PIECE, b ? b + first : NULL, 0, tokens + n * C, C, 1, emb_t, HEAD_PIECE, HEAD_ROWS, C, M);
        for (int r = 0; r < HEAD_ROWS; r++)
            head_row(logits + r * HEAD_PIECE, dx + (n + r) * C, now + n + r, id_at(labels, n + r), first, C, M);
        matmul(dx + n * C, C, dx + n * C, C, logits, HEAD_PIECE, 1, emb, C, HEAD_ROWS, M, C);
    }
}

/* When all pieces have come: dx (C) of one token, and its part of the loss. */
INLINE float head_end(float *dx, float *facts, const head_state *now, const float *emb, const float *all, int filled, int C,
                      int V, float smoothing)
{
    const int32_t label = id_at(facts + LABEL * filled, 0);
    const float share = facts[SHARE * filled], log_sum = logf(now->sum), even = share * smoothing / (float)V;
    const int known = label >= 0 && label < V;
    const float *own = emb + (size_t)(known ? label : 0) * C;
    const vec scale = vec_all(share / now->sum), missed = vec_all(known ? share * (1.0f - smoothing) : 0.0f);
    for (int c = 0; c < C; c += LANES) {
        vec d = vec_load_part(dx + c, LEFT(C, c)) * scale - vec_load_part(own + c, LEFT(C, c)) * missed;
        if (smoothing > 0.0f) d -= vec_load_part(all + c, LEFT(C, c)) * vec_all(even);
        vec_store_part(dx + c, d, LEFT(C, c));
    }
    facts[TOP * filled] = now->top;
    facts[SCALE * filled] = share / now->sum;
    const float at_label = known ? now->at_label - now->top - log_sum : NAN;
    const float of_all = smoothing > 0.0f ? smoothing * (now->of_all / (float)V - now->top - log_sum) : 0.0f;
    return -share * ((1.0f - smoothing) * at_label + of_all);
}

/* The loss, and dx (N, C), tokens, facts  <-  emb (V, C), b (V) or NULL, x (N, C), labels (N), share (N).  Overwrites them.
 * work: (C + HEAD_ROWS) * HEAD_PIECE + HEAD_TOKENS * (C + 4) + C floats. */
INLINE float head_loss(float *dx, float *tokens, float *facts, float *work, const float *emb, const float *b, const float *x,
                       const int32_t *labels, const float *share, int N, int C, int V, float smoothing)
{
    float *emb_t = work, *logits = emb_t + C * HEAD_PIECE, *packed = logits + HEAD_ROWS * HEAD_PIECE, loss = 0.0f;
    float *all = packed + HEAD_TOKENS * C;
    head_state *now = (head_state *)(all + C);
    const int filled = HEAD_FILLED(N), count = head_pack(tokens, facts, x, labels, share, N, C), rest = V % HEAD_PIECE;
    memset(dx, 0, (size_t)(N * C) * sizeof *dx);
    if (smoothing > 0.0f) add_rows(all, NULL, emb, C, V, C);
    for (int first = 0, n = 0; first < count; first += HEAD_TOKENS) {
        const int here = count - first < HEAD_TOKENS ? count - first : HEAD_TOKENS;
        memset(packed, 0, (size_t)(HEAD_FILLED(here) * C) * sizeof *packed);
        for (int i = 0; i < HEAD_FILLED(here); i++) now[i] = (head_state){-INFINITY, 0.0f, 0.0f, 0.0f};
        for (int v = 0; v + HEAD_PIECE <= V; v += HEAD_PIECE)
            head_piece(packed, now, emb_t, logits, emb, b, tokens + first * C, facts + first, here, v, C, HEAD_PIECE);
        if (rest) head_piece(packed, now, emb_t, logits, emb, b, tokens + first * C, facts + first, here, V - rest, C, rest);
        for (int i = 0; i < here; i++, n++) {
            loss += head_end(packed + i * C, facts + first + i, now + i, emb, all, filled, C, V, smoothing);
            while (share[n] == 0.0f) n++;
            memcpy(dx + n * C, packed + i * C, (size_t)C * sizeof *dx);
        }
    }
    return loss;
}

/* logits (n, M)  <-  their gradient, of tokens with these facts. */
INLINE void head_dlogits(float *logits, const float *facts, int n, int filled, int first, int V, int M, float smoothing)
{
    for (int r = 0; r < n; r++, logits += HEAD_PIECE, facts++) {
        const int32_t label = id_at(facts + LABEL * filled, 0);
        const float share = facts[SHARE * filled], even = share * smoothing / (float)V;
        for (int m = 0; m < M; m += LANES) {
            const vec e = vec_exp(vec_load_part(logits + m, LEFT(M, m)) - vec_all(facts[TOP * filled]));
            vec_store_part(logits + m, e * vec_all(facts[SCALE * filled]) - vec_all(even), LEFT(M, m));
        }
        if (label >= first && label < first + M) logits[label - first] -= share * (1.0f - smoothing);
    }
}

INLINE void head_rows(float *demb, float *db, const float *emb, const float *b, const float *tokens, const float *facts,
                      int N, int C, int V, int M, const table_part *part)
{
    float *emb_t = part->work, *logits = emb_t + C * HEAD_PIECE;
    const int first = part->first, filled = HEAD_FILLED(N);
    transpose(emb_t, HEAD_PIECE, emb + (size_t)first * C, C, M, C);
    for (int begin = 0; begin < filled; begin += HEAD_TOKENS) {
        int n = 0;
        for (; n < HEAD_TOKENS && begin + n < filled && facts[SHARE * filled + begin + n] != 0.0f; n += HEAD_ROWS) {
            float *here = logits + n * HEAD_PIECE;
            matmul(here, HEAD_PIECE, b ? b + first : NULL, 0, tokens + (begin + n) * C, C, 1, emb_t, HEAD_PIECE, HEAD_ROWS, C, M);
            head_dlogits(here, facts + begin + n, HEAD_ROWS, filled, first, V, M, part->smoothing);
        }
        float *rows = demb ? demb + (size_t)first * C : NULL;
        if (rows) matmul(rows, C, rows, C, logits, 1, HEAD_PIECE, tokens + begin * C, C, M, n, C);
        if (db) add_rows(db + first, db + first, logits, HEAD_PIECE, n, M);
    }
}

/* The rows of one part: demb (V, C) or NULL, db (V) or NULL  +=  emb, b, tokens, facts.  Adds.
 * part->work: (C + HEAD_TOKENS) * HEAD_PIECE floats. */
INLINE void head_loss_rows(float *demb, float *db, const float *emb, const float *b, const float *tokens, const float *facts,
                           int N, int C, int V, const table_part *part)
{
    if (part->first + HEAD_PIECE <= V) head_rows(demb, db, emb, b, tokens, facts, N, C, V, HEAD_PIECE, part);
    else head_rows(demb, db, emb, b, tokens, facts, N, C, V, V % HEAD_PIECE, part);
}

#endif
