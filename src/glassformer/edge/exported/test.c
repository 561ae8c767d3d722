/* @title@: this build against Python's numbers (vectors.h). Written by glassformer @version@.
 * Exits with 0 where all agree. */
#include <stdio.h>
@if train@
#include <string.h>
@end@

#include "@name@.h"
#include "vectors.h"

#define ALLOWED @allowed@ /* of the largest number that was expected */

static float arena[@NAME@_ARENA / sizeof(float) + 1];
static int failures;

static float size_of(float x) { return x < 0.0f ? -x : x; }

static void expect(int holds, const char *what)
{
    if (holds) return;
    printf("FAILED: %s\n", what);
    failures++;
}

/* The largest of all numbers, and of what came before them. */
static float scale_of(const float *expected, int count, float largest)
{
    for (int i = 0; i < count; i++)
        if (size_of(expected[i]) > largest) largest = size_of(expected[i]);
    return largest;
}

/* The largest difference, as a share of the largest number, or of `least`. What was expected as NaN is not compared. */
static float difference(const float *came, const float *expected, int count, float least)
{
    const float scale = scale_of(expected, count, least);
    float largest = 0.0f;
    for (int i = 0; i < count; i++) {
        const float one = size_of(came[i] - expected[i]) / scale;
        if (expected[i] == expected[i] && !(one <= largest)) largest = one < 1e9f ? one : 1e9f; /* 1e9: NaN came */
    }
    return largest;
}

static void predictions(void)
{
    float logits[@NAME@_OUTPUTS], largest = 0.0f;
    int wrong = 0;
    for (int i = 0; i < VECTORS; i++) {
        const float *const expected = expected_logits[i];
        const int best = @name@_predict(logits, samples[i], arena, sizeof arena);
        if (best < 0) {
            printf("error %d\n", best);
            expect(0, "a prediction");
            return;
        }
        const float one = difference(logits, expected, @NAME@_OUTPUTS, 1.0f);
        const float allowed = ALLOWED * scale_of(expected, @NAME@_OUTPUTS, 1.0f);
        int is_wrong = 0;
        for (int k = 0; k < @NAME@_OUTPUTS; k++) is_wrong |= expected[k] > expected[best] + allowed;
        wrong += is_wrong;
        if (one > largest) largest = one;
    }
    printf("@name@: %d samples, logits: largest difference %.1e, wrong classes: %d\n", VECTORS, (double)largest, wrong);
    expect(largest <= ALLOWED, "logits are Python's");
    expect(wrong == 0, "classes are Python's");
}

static void errors(void)
{
    float logits[@NAME@_OUTPUTS];
    const int error = @name@_predict(logits, samples[0], arena, @NAME@_ARENA - 1);
    expect(error == @NAME@_ARENA_TOO_SMALL, "an arena that is too small is an error");
    void *const odd = (unsigned char *)arena + 1;
    expect(@name@_predict(logits, samples[0], odd, @NAME@_ARENA) == @NAME@_ARENA_NOT_ALIGNED, "so is an odd address");
}
@if train@

static unsigned char slots[2][@NAME@_SAVED];

static void beginning(void)
{
    float logits[@NAME@_OUTPUTS];
    const int error = @name@_predict(logits, samples[0], arena, sizeof arena);
    expect(error == @NAME@_NOT_BEGUN, "a prediction before the beginning is an error");
    expect(@name@_begin(arena, sizeof arena) == 0, "it begins");
}

static void training(void)
{
    enum { TRAINED = (@NAME@_SAVED - @header@) / 4 };
    static float losses[STEPS], before[TRAINED], after[TRAINED], change[TRAINED], expected_change[TRAINED];
    expect(@name@_save(slots[0], @NAME@_SAVED, 6, arena, sizeof arena) == 0, "weights are saved");
    memcpy(before, slots[0] + @header@, sizeof before);
    for (int i = 0; i < STEPS; i++) {
        const int n = i % VECTORS;
        const int error = @name@_train_step(&losses[i], samples[n], labels[n], @rate@, arena, sizeof arena);
        expect(error == 0, "a training step");
    }
    expect(@name@_save(slots[0], @NAME@_SAVED, 7, arena, sizeof arena) == 0, "trained weights are saved");
    memcpy(after, slots[0] + @header@, sizeof after);
    int compared = 0;
    for (int i = 0; i < TRAINED; i++) {
        change[i] = after[i] - before[i];
        expected_change[i] = expected_trained[i] - before[i];
        compared += expected_trained[i] == expected_trained[i];
    }
    const float loss = difference(losses, expected_losses, STEPS, 1.0f);
    const float weights = difference(change, expected_change, TRAINED, 0.01f); /* a weight near 1 is rounded by 1e-7 */
    printf("@name@: %d training steps, losses: largest difference %.1e\n", STEPS, (double)loss);
    printf("@name@: changes of %d of %d weights: largest difference %.1e\n", compared, TRAINED, (double)weights);
    expect(loss <= ALLOWED, "losses are Python's");
    expect(weights <= 5.0f * ALLOWED, "trained weights are Python's"); /* updated at once, a weight is rounded many times */
}

static void saving(void)
{
    float before[@NAME@_OUTPUTS], after[@NAME@_OUTPUTS], loss;
    uint32_t number = 0;
    @name@_predict(before, samples[0], arena, sizeof arena);
    @name@_train_step(&loss, samples[0], labels[0], @rate@, arena, sizeof arena);
    expect(@name@_load(arena, sizeof arena, slots[0], @NAME@_SAVED) == 0, "saved weights are loaded");
    @name@_predict(after, samples[0], arena, sizeof arena);
    expect(memcmp(before, after, sizeof before) == 0, "with them predictions are as before");
    expect(@name@_save(slots[1], @NAME@_SAVED, 8, arena, sizeof arena) == 0, "weights are saved once more");
    expect(@name@_newest(&number, slots[0], slots[1], @NAME@_SAVED) == 1 && number == 8, "the newest is found");
    slots[1][@NAME@_SAVED - 1] ^= 1;
    expect(@name@_newest(&number, slots[0], slots[1], @NAME@_SAVED) == 0 && number == 7, "the newest that is whole");
    int error = @name@_load(arena, sizeof arena, slots[1], @NAME@_SAVED);
    expect(error == @NAME@_SAVED_DAMAGED, "damaged weights are an error");
    error = @name@_load(arena, sizeof arena, slots[0], @NAME@_SAVED - 1);
    expect(error == @NAME@_SAVED_TOO_SHORT, "so are those that were cut short");
    slots[0][4] ^= 1;
    error = @name@_load(arena, sizeof arena, slots[0], @NAME@_SAVED);
    expect(error == @NAME@_SAVED_BY_ANOTHER, "and those of another model");
}
@end@

int main(void)
{
@if train@
    beginning();
@end@
    predictions();
    errors();
@if train@
    training();
    saving();
@end@
    printf("@name@: failures: %d\n", failures);
    return failures != 0;
}
