/* @title@: the device at the desk. It is asked and answers in lines, so that `glassformer view RUN INPUT --device CMD`
 * can show its own numbers beside Python's. Written by glassformer @version@.
 *
 *   model          glassformer 1 @name@ INPUTS OUTPUTS bytes|floats WEIGHTS
 *   input HEX      attention NAME HEAD QUERY HEX ...     a line for each query of each head
 *                  logits HEX ...
@if train@
 *   label NUMBER   loss HEX                            of the last input
 *                  gradient NAME HEX ...                 a line for each trained weight; the weights stay as exported
@end@
 *
 * An answer ends with a line `end`, or is one line `error ...`. HEX: the bits of a float, 8 digits; an input's byte, 2.
 * It reads stdin and writes stdout: a pipe, semihosting, or a serial port where the C library has bound them to one. A
 * board without stdio defines DESK_GET (the next byte, or -1 at the end), DESK_PUT (a byte) and DESK_FLUSH. */
#ifndef DESK_GET
#include <stdio.h>
#define DESK_GET() getchar()
#define DESK_PUT(byte) putchar(byte)
#define DESK_FLUSH() fflush(stdout)
#endif
#include <stdint.h>
#include <string.h>

static int desk_looks, desk_query;
static const char *desk_name; /* of the attention weights that come next; NULL: nobody looks */

static void desk_attention(int head);
static void desk_float(float x);

#define ATTENTION_QUERY(name, t) (desk_name = desk_looks ? (name) : NULL, desk_query = (t))
#define ATTENTION_WEIGHTS(h, powers, share, T)                                                                         \
    do {                                                                                                               \
        if (desk_name) {                                                                                               \
            desk_attention(h);                                                                                         \
            for (int desk_key = 0; desk_key < (T); desk_key++) desk_float((float)(powers)[desk_key] * (share));        \
            DESK_PUT('\n');                                                                                            \
        }                                                                                                              \
    } while (0)

#include "@name@.c"

static float desk_arena[@NAME@_ARENA / sizeof(float) + 1];
static @c_type@ desk_x[@NAME@_INPUTS];
static int desk_has_input;

static void desk_text(const char *text)
{
    while (*text) DESK_PUT(*text++);
}

static void desk_number(int number)
{
    char digits[12];
    int i = 0;
    do digits[i++] = (char)('0' + number % 10), number /= 10;
    while (number > 0);
    DESK_PUT(' ');
    while (i > 0) DESK_PUT(digits[--i]);
}

static void desk_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    DESK_PUT(' ');
    for (int shift = 28; shift >= 0; shift -= 4) DESK_PUT("0123456789abcdef"[bits >> shift & 15]);
}

static void desk_floats(const float *x, int count)
{
    for (int i = 0; i < count; i++) desk_float(x[i]);
    DESK_PUT('\n');
}

static void desk_attention(int head)
{
    desk_text("attention ");
    desk_text(desk_name);
    desk_number(head);
    desk_number(desk_query);
}

static int desk_line_ended, desk_ended;

/* The next byte of this line; -1 behind its last. */
static int desk_next(void)
{
    if (desk_line_ended) return -1;
    int byte = DESK_GET();
    while (byte == '\r') byte = DESK_GET();
    desk_ended = byte < 0;
    desk_line_ended = desk_ended || byte == '\n';
    return desk_line_ended ? -1 : byte;
}

static int desk_hex(int byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Every answer is NULL, and then `end`, or what is wrong. */
static const char *desk_model(void)
{
    desk_text("glassformer 1 @name@");
    desk_number(@NAME@_INPUTS);
    desk_number(@NAME@_OUTPUTS);
    desk_text(" @given@ @fingerprint@\n");
    return NULL;
}

static const char *desk_input(void)
{
    enum { DIGITS = 2 * sizeof desk_x[0], ALL = DIGITS * @NAME@_INPUTS };
    uint32_t bits = 0;
    int count = 0;
    desk_has_input = 0;
    for (int byte = desk_next(); byte >= 0; byte = desk_next()) {
        const int digit = desk_hex(byte);
        if (byte == ' ') continue;
        if (digit < 0) return "input: expected the digits 0-9 and a-f";
        if (count == ALL) return "input: too many digits";
        bits = bits << 4 | (uint32_t)digit;
        count++;
@if bytes@
        if (count % DIGITS == 0) desk_x[count / DIGITS - 1] = (uint8_t)bits;
@else@
        if (count % DIGITS == 0) memcpy(&desk_x[count / DIGITS - 1], &bits, sizeof bits);
@end@
    }
    if (count < ALL) return "input: too few digits";
    float logits[@NAME@_OUTPUTS];
    desk_looks = 1;
    const int best = @name@_predict(logits, desk_x, desk_arena, sizeof desk_arena);
    desk_looks = 0;
    if (best < 0) return "input: the model refused it";
    desk_text("logits");
    desk_floats(logits, @NAME@_OUTPUTS);
    desk_has_input = 1;
    return NULL;
}

@if at_once@
/* Weights are updated at once, w - rate * gradient: at this rate that is the gradient, hardly rounded. */
enum { DESK_RATE = 1024 };
static float desk_gradient(const learner *own, int i)
{
    return (((const float *)&exported)[i] - ((const float *)&own->weights)[i]) / (float)DESK_RATE;
}

@end@
@if gathers@
enum { DESK_RATE = 0 };
static float desk_gradient(const learner *own, int i) { return ((const float *)&own->gradient)[i]; }

@end@
static const char *desk_label(void)
{
@if train@
    static const struct { const char *name; int begin, count; } gradients[] = {
@gradients@
    };
    float loss;
    int label = 0, digits = 0;
    for (int byte = desk_next(); byte >= 0; byte = desk_next()) {
        if (byte == ' ' && digits == 0) continue;
        if (byte < '0' || byte > '9' || ++digits > 6) return "label: expected the number of a class";
        label = 10 * label + byte - '0';
    }
    if (digits == 0) return "label: expected the number of a class";
    if (!desk_has_input) return "label: expected an input first";
    learner *const own = (learner *)desk_arena;
    own->samples = BATCH; /* one more is not the last: gradients that are gathered stay, and update nothing */
    if (@name@_train_step(&loss, desk_x, label, DESK_RATE, desk_arena, sizeof desk_arena)) return "label: no such class";
    desk_text("loss");
    desk_floats(&loss, 1);
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        desk_text("gradient ");
        desk_text(gradients[i].name);
        for (int k = 0; k < gradients[i].count; k++) desk_float(desk_gradient(own, gradients[i].begin + k));
        DESK_PUT('\n');
    }
    @name@_begin(desk_arena, sizeof desk_arena);
    return NULL;
@else@
    return "label: this model does not learn here; export it with --train";
@end@
}

/* One line, and its answer. */
static void desk_answer(void)
{
    char word[8];
    size_t length = 0;
    desk_line_ended = 0;
    for (int byte = desk_next(); byte >= 0 && byte != ' '; byte = desk_next())
        if (length < sizeof word) word[length++] = (char)byte;
    if (length == 0 && desk_line_ended) return;
    const char *wrong = "expected model, input or label";
    if (length == 5 && memcmp(word, "model", 5) == 0) wrong = desk_model();
    if (length == 5 && memcmp(word, "input", 5) == 0) wrong = desk_input();
    if (length == 5 && memcmp(word, "label", 5) == 0) wrong = desk_label();
    while (desk_next() >= 0) {}
    if (wrong) desk_text("error ");
    desk_text(wrong ? wrong : "end");
    DESK_PUT('\n');
    DESK_FLUSH();
}

int main(void)
{
@if train@
    if (@name@_begin(desk_arena, sizeof desk_arena)) return 1;
@end@
    while (!desk_ended) desk_answer();
    return 0;
}
