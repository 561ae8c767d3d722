"""From a run to a folder of C."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.edge.desk import fingerprint
from glassformer.edge.folder import Folder, write
from glassformer.edge.layers import program_of
from glassformer.edge.learning import LearningSource
from glassformer.edge.plan import Layout, layout_of
from glassformer.edge.quantise import QuantisedModel
from glassformer.edge.training import Tune
from glassformer.edge.vectors import trained_by, vectors_of
from glassformer.edge.write import Source
from glassformer.errors import EngineError, SettingError, at_least
from glassformer.losses import CrossEntropy, LabelSmoothing
from glassformer.names import named_leaves
from glassformer.native.lower import title_of
from glassformer.predict.run import Run
from glassformer.structure import structure
from glassformer.train.optimiser import Optimiser
from glassformer.train.tune import LowRank
from glassformer.train.weights import must_be_finite

INT8_TRUTH = "the same int8 arithmetic in NumPy"
RATES = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001, "adamw": 0.001}  # of the example and of the test
# Words of C99 and C++ (an Arduino sketch includes the header), and headers: a math.h in src/ would hide the library's.
WORDS = """
asm auto bool break case catch char class compl const constexpr continue decltype default delete do double else enum
explicit export extern false final float for friend goto if inline int long mutable namespace new noexcept not nullptr
operator or override private protected public register restrict return short signed sizeof static struct switch template
this throw true try typedef typeid typename typeof union unsigned using virtual void volatile while xor and
arduino assert complex ctype errno fenv inttypes limits locale math setjmp signal stdarg stdbool stddef stdint stdio
stdlib string tgmath time wchar wctype
"""


@dataclass(frozen=True)
class Exported:
    out: Path
    files: tuple[str, ...]
    facts: dict[str, Any]  # Folder.facts


def export(
    run: Run,
    out: Path,
    *,
    name: str = "",
    tune: Tune | None = None,
    optimiser: Optimiser | None = None,
    batch: int = 1,
    int8: QuantisedModel | None = None,
    check: Callable[[Source], None] = lambda source: None,
) -> Exported:
    """Write the C of a run, and all that belongs to it, into the folder `out`.

    With `tune` it learns on the device, by default by SGD that updates the weights at once. With `int8` (quantise.py)
    it predicts with whole numbers. `check` may refuse it before anything is written.
    """
    folder = folder_of(run, name, tune, optimiser or optimiser_for(run), batch, int8)
    check(folder.source)
    files = folder.files
    write(out, files)
    return Exported(out, tuple(sorted(files)), folder.facts)


def folder_of(
    run: Run, name: str, tune: Tune | None, optimiser: Optimiser, batch: int, int8: QuantisedModel | None = None
) -> Folder:
    name = checked_name(name) if name else c_name(run.path.resolve().name)
    weights = {leaf: np.asarray(array) for leaf, array in named_leaves(run.params).items()}
    must_be_finite(weights, run.path)
    layout, own = covered(run), fingerprint(weights)
    title, vectors = title_of(structure(run.model)), vectors_of(run)
    if int8 is not None:
        if tune is not None:
            raise SettingError("export: weights of int8 do not learn; export twice, once --int8 and once --train")
        # a float that is rounded otherwise may fall into the next step of int8
        allowed = 1e-2 if int8.stays_float else 0.0
        vectors = vectors._replace(logits=int8.logits(vectors.x), truth=INT8_TRUTH, allowed=allowed)
        return Folder(
            Source(name, f"{title}, int8", int8.layout(), int8.weights),
            vectors,
            run.classes,
            run.gives_numbers,
            fingerprint=own,
        )
    if tune is None:
        source = Source(name, title, layout, weights)
        return Folder(source, vectors, run.classes, run.gives_numbers, fingerprint=own)
    at_least("export", 1, batch=batch)
    smoothing = smoothing_of(run)
    try:
        source = LearningSource.of(name, title, run.model, weights, tune, optimiser, batch, smoothing, lora_of(run))
    except EngineError as error:
        raise EngineError(f"{run.path}: it cannot learn on a device: {error}") from None
    rate = RATES[optimiser.name]
    training = trained_by(run, source, vectors, rate)
    return Folder(source, vectors, run.classes, training=training, rate=rate, fingerprint=own)


def lora_of(run: Run) -> LowRank | None:
    """As the run was tuned, if it was."""
    return run.recipe.tune if isinstance(run.recipe.tune, LowRank) else None


def covered(run: Run) -> Layout:
    try:
        return layout_of(program_of(run.model))
    except EngineError as error:
        raise EngineError(f"{run.path}: there is no C of it for a device: {error}") from None


def smoothing_of(run: Run) -> float:
    """A device learns classes, by cross-entropy."""
    loss = run.recipe.loss
    if run.recipe.task.name != "classify" or not isinstance(loss, CrossEntropy | LabelSmoothing):
        came = f"the task {run.recipe.task.name} with the loss {type(loss).__name__}"
        raise SettingError(
            f"{run.path}: a device learns classes by cross-entropy, and {came} came; export without --train"
        )
    return loss.smoothing if isinstance(loss, LabelSmoothing) else 0.0


def optimiser_for(run: Run, name: str = "sgd") -> Optimiser:
    """With the settings of the run's own, where it is the same: one rate, an argument in C, and one decay for all."""
    own = run.recipe.optimiser
    return replace(own, clip=0.0, decay="all", groups=(), freeze=()) if own.name == name else Optimiser(name=name)


def c_name(text: str) -> str:
    """An identifier of C.

    >>> c_name("vit-pico"), c_name("2layers"), c_name("int"), c_name("…")
    ('vit_pico', 'model_2layers', 'int_model', 'model')
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "model"
    name = f"model_{name}" if name[0].isdigit() else name
    return f"{name}_model" if name.lower() in WORDS.split() else name


def checked_name(name: str) -> str:
    if c_name(name) != name:
        raise SettingError(f"export: --name {name!r} is no name for C; try --name {c_name(name)}")
    return name
