"""What a device learns by itself, in an emulator: iris from random weights, and digits that come inverted."""

from pathlib import Path

import jax
import numpy as np
import pytest
from tests.edge.boards import needs
from tests.edge.devices import c_array, written

from glassformer.data import load
from glassformer.data.iris import load_iris
from glassformer.edge.emulator import Measured, run
from glassformer.edge.layers import program_of
from glassformer.edge.learning import LearningSource
from glassformer.edge.plan import layout_of
from glassformer.edge.targets import find
from glassformer.edge.training import lesson_of
from glassformer.models import TinyIris
from glassformer.models.columns import Columns
from glassformer.names import named_leaves
from glassformer.predict.run import load as load_run
from glassformer.train.optimiser import Optimiser

FAST = ("-O3", "-fno-math-errno", "-ffp-contract=fast")
M4 = find("m4")

LEARN = """#include "emulator.h"
#include "model.h"
DATA
static float memory[MODEL_ARENA / 4];
static int32_t right(void)
{
    float logits[MODEL_OUTPUTS];
    int32_t count = 0;
    for (int i = 0; i < TEST; i++)
        count += model_predict(logits, test + i * MODEL_INPUTS, memory, sizeof memory) == test_labels[i];
    return count;
}
int main(void)
{
    float loss;
    if (model_begin(memory, sizeof memory)) return 1;
    const int32_t before = right();
    emulator_report("before", &before, sizeof before);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        for (int i = 0; i < TRAIN; i++) {
            const int at = (i * STRIDE + epoch) % TRAIN;
            if (i < 3 && epoch == 0) emulator_begin();
            const int wrong = model_train_step(&loss, train + at * MODEL_INPUTS, train_labels[at], RATE, memory,
                                               sizeof memory);
            if (i < 3 && epoch == 0) emulator_end("step");
            if (wrong) return 2;
        }
    const int32_t after = right();
    emulator_report("after", &after, sizeof after);
    return 0;
}
"""


def learning(
    train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray], epochs: int, rate: float
) -> str:
    (x, y), (test_x, test_y) = train, test
    data = c_array("train", x) + c_array("train_labels", y.astype(np.int32))
    data += c_array("test", test_x) + c_array("test_labels", test_y.astype(np.int32))
    sizes = {"TRAIN": len(x), "TEST": len(test_x), "EPOCHS": epochs, "STRIDE": 37, "RATE": f"{rate}f"}
    return LEARN.replace("DATA", data + "".join(f"#define {name} {value}\n" for name, value in sizes.items()))


@needs("m4")
def test_iris_from_random_weights(tmp_path: Path) -> None:
    """The bars: a step within 24 k instructions, 6 KB in all, 42 of 45 flowers right."""
    data = load_iris()
    train, test = ((part.x.astype(np.float32), part.labels) for part in (data.train, data.test))
    mean, std = (tuple(map(float, one)) for one in (train[0].mean(axis=0), train[0].std(axis=0)))
    model = TinyIris(columns=Columns(mean=mean, std=std))
    weights = {name: np.asarray(leaf) for name, leaf in named_leaves(model.init(jax.random.key(1))).items()}
    source = LearningSource(
        "model", "iris", layout_of(program_of(model)), weights, lesson_of(model, "full"), Optimiser("sgd")
    )
    outcome = run(M4, [written(source, tmp_path)], learning(train, test, 60, 0.01), FAST, timeout=60)
    assert outcome.status == 0
    before, after = (int(outcome.values(name, np.int32)[0]) for name in ("before", "after"))
    step: Measured = outcome.measured("step")
    print(before, after, step, source.arena)
    assert len(test[1]) == 45
    assert before < 30
    assert after >= 42
    assert step.instructions <= 24_000
    assert source.arena + step.stack <= 6 * 1024


@needs("m4")
@pytest.mark.slow
def test_the_head_of_vit_pico_learns_inverted_digits(tmp_path: Path) -> None:
    """Trained on white digits, it meets black ones: the head alone, on the device."""
    trained, digits = load_run(), load("mnist-mini")
    images, labels = 255 - digits.train.images, digits.train.labels
    source = LearningSource(
        "model",
        "vit-pico",
        layout_of(program_of(trained.model)),
        {name: np.asarray(leaf) for name, leaf in named_leaves(trained.params).items()},
        lesson_of(trained.model, "head"),
        Optimiser("sgd"),
    )
    train, test = (images[:200], labels[:200]), (255 - digits.test.images[:150], digits.test.labels[:150])
    outcome = run(M4, [written(source, tmp_path)], learning(train, test, 8, 0.05), FAST, timeout=120)
    assert outcome.status == 0
    before, after = (int(outcome.values(name, np.int32)[0]) for name in ("before", "after"))
    print(before, after, outcome.measured("step"), source.arena)
    assert after > before + 25
