"""A run on emulated boards: instructions, RAM, flash and accuracy of each way to ship it.

The C is that of `glassformer export --to c`; instructions and stack are counted by QEMU, flash is that of the model's
own objects. An emulator counts instructions, not cycles: no times are given.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glassformer.edge.comparison import compare
from glassformer.edge.emulator import run as emulate
from glassformer.edge.export import covered, lora_of, optimiser_for, smoothing_of
from glassformer.edge.learning import LearningSource
from glassformer.edge.objects import compiled, sizes
from glassformer.edge.quantise import QuantisedModel, quantise_run
from glassformer.edge.targets import TARGETS, Target, find, missing
from glassformer.edge.training import Tune
from glassformer.edge.write import Source
from glassformer.errors import EngineError, SettingError
from glassformer.names import named_leaves
from glassformer.native.write import number
from glassformer.predict.run import Run

BOARDS = tuple(name for name, target in TARGETS.items() if target.qemu)
VARIANTS = ("float", "int8", "head", "bias", "lora", "full")  # the last four learn
SLOW = 120.0  # seconds: float arithmetic without an FPU


@dataclass(frozen=True)
class Result:
    run: str
    target: str
    variant: str
    instructions: int  # of a prediction, or of a step of training
    arena: int  # bytes
    stack: int
    flash: int  # code and weights
    accuracy: float | None  # on the test samples; of training, as it comes out of the box: None

    @property
    def ram(self) -> int:
        return self.arena + self.stack


def boards(names: list[str]) -> list[Target]:
    """Those that can be emulated here; those asked for by name must be."""
    found = [find(name) for name in names or BOARDS]
    if wrong := [target.name for target in found if target.name not in BOARDS]:
        raise SettingError(
            f"bench edge: {wrong[0]} is not emulated, so nothing is counted; there are {', '.join(BOARDS)}"
        )
    return [target for target in found if not missing(target)] if not names else found


def measure(run: Run, targets: list[Target], variants: tuple[str, ...], level: str, data: str = "") -> Iterator[Result]:
    if run.recipe.output_axis != "classes":
        raise SettingError(f"{run.path}: bench edge measures models that tell classes, not {run.recipe.task.name}")
    covered(run)
    flags = (level, "-fno-math-errno", "-ffp-contract=fast")
    x, labels = run.arrays(run.load_data(data or run.recipe.data).test)
    logits = run.logits(x)
    accuracies: dict[str, float | None] = {"float": float((logits.argmax(axis=-1) == labels).mean())}
    with tempfile.TemporaryDirectory() as folder:
        for variant in variants:
            quantised = quantise_run(run, data) if variant == "int8" else None
            if quantised:
                accuracies[variant] = compare(logits, quantised.logits(x), labels).int8_accuracy
            source = source_of(run, variant, quantised)
            path = Path(folder) / variant / "model.c"
            path.parent.mkdir()
            for name, text in source.files.items():
                (path.parent / name).write_text(text)
            main = program(source, x[0], int(labels[0]))
            for target in targets:
                outcome = emulate(target, [path], main, flags, timeout=SLOW)
                if outcome.status:
                    raise EngineError(f"{run.path}: {variant} on {target.name} ended with status {outcome.status}")
                measured = outcome.measured("model")
                flash = sizes(target, compiled(target, [path], flags)).flash
                where = (run.path.name, target.name, variant)
                figures = (measured.instructions, source.arena, measured.stack, flash)
                yield Result(*where, *figures, accuracies.get(variant))


def source_of(run: Run, variant: str, quantised: QuantisedModel | None = None) -> Source:
    weights = {name: np.asarray(array) for name, array in named_leaves(run.params).items()}
    layout = covered(run)
    if variant == "float":
        return Source("model", variant, layout, weights)
    if quantised is not None:
        return Source("model", variant, quantised.layout(), quantised.weights)
    tune: Tune = variant  # pyright: ignore[reportAssignmentType]
    settings = (optimiser_for(run), 1, smoothing_of(run), lora_of(run))
    return LearningSource.of("model", variant, run.model, weights, tune, *settings)


def program(source: Source, x: np.ndarray, label: int) -> str:
    """One prediction, or one step of training, measured."""
    call = "model_predict(y, x, memory, sizeof memory)"
    if isinstance(source, LearningSource):
        call = f"model_train_step(y, x, {label}, 0.01f, memory, sizeof memory)"
    begin = "model_begin(memory, sizeof memory);" if isinstance(source, LearningSource) else ""
    values = ", ".join(map(number, x.ravel().tolist()))
    return f"""#include "emulator.h"
#include "model.h"
static const {source.layout.program.input.c_type} x[] = {{{values}}};
static uint32_t memory[MODEL_ARENA / 4 + 1];
static float y[MODEL_OUTPUTS];
int main(void)
{{
    {begin}
    emulator_begin();
    const int result = {call};
    emulator_end("model");
    return result < 0;
}}
"""
