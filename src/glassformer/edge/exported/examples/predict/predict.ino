// @title@: an answer every second. Written by glassformer @version@.
#include <@name@.h>

#include "sample.h"

static float arena[@NAME@_ARENA / sizeof(float) + 1];

void setup() {
  Serial.begin(115200);
@if train@
  @name@_begin(arena, sizeof arena);
@end@
}

void loop() {
  float logits[@NAME@_OUTPUTS];
  const int best = @name@_predict(logits, sample, arena, sizeof arena);
  if (best < 0) {
    Serial.print("error ");
    Serial.println(best);
    return;
  }
@if classes@
  Serial.print("predicted ");
  Serial.print(classes[best]);
  Serial.print(", expected ");
  Serial.println(classes[label]);
@else@
  for (int i = 0; i < @NAME@_OUTPUTS; i++) {
    Serial.print(classes[i]);
    Serial.print(": ");
    Serial.println(logits[i]);
  }
@end@
@if train@
  float loss;
  @name@_train_step(&loss, sample, label, @rate@, arena, sizeof arena);
  Serial.print("learned from it; loss before: ");
  Serial.println(loss);
@end@
  delay(1000);
}
