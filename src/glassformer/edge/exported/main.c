/* @title@: how its C is used. Written by glassformer @version@. */
#include <stdio.h>

#include "@name@.h"
#include "examples/predict/sample.h"

static float arena[@NAME@_ARENA / sizeof(float) + 1]; /* all the memory that it works in, with a float to spare */
@if train@
static unsigned char slots[2][@NAME@_SAVED]; /* on a device: two pages of flash */
@end@

static int predict(void)
{
    float logits[@NAME@_OUTPUTS];
    const int best = @name@_predict(logits, sample, arena, sizeof arena);
    if (best < 0) return best;
@if classes@
    printf("predicted %s, expected %s; logits:", classes[best], classes[label]);
    for (int i = 0; i < @NAME@_OUTPUTS; i++) printf(" %.3f", (double)logits[i]);
    printf("\n");
@else@
    for (int i = 0; i < @NAME@_OUTPUTS; i++) printf("%s: %g\n", classes[i], (double)logits[i]);
@end@
    return 0;
}
@if train@

static int learn(void)
{
    for (int step = 1; step <= 5 * @batch@; step++) {
        float loss;
        const int error = @name@_train_step(&loss, sample, label, @rate@, arena, sizeof arena);
        if (error) return error;
        printf("step %d: loss %.4f\n", step, (double)loss);
    }
    return 0;
}

/* To the slot that is not the newest: a power failure while it is written leaves the other. */
static int save(void)
{
    uint32_t number = 0;
    const int newest = @name@_newest(&number, slots[0], slots[1], @NAME@_SAVED);
    return @name@_save(slots[newest == 0], @NAME@_SAVED, number + 1, arena, sizeof arena);
}

/* After a start: the weights that were saved last, or those that were exported. */
static int begin(void)
{
    uint32_t number;
    const int newest = @name@_newest(&number, slots[0], slots[1], @NAME@_SAVED);
    if (newest < 0) return @name@_begin(arena, sizeof arena);
    printf("begins with what was saved as number %lu\n", (unsigned long)number);
    return @name@_load(arena, sizeof arena, slots[newest], @NAME@_SAVED);
}
@end@

int main(void)
{
@if train@
    int error = begin();
    if (!error) error = predict();
    if (!error) error = learn();
    if (!error) error = save();
    if (!error) error = begin();
    if (!error) error = predict();
@else@
    const int error = predict();
@end@
    if (error) printf("error %d: see @name@.h\n", error);
    return error != 0;
}
