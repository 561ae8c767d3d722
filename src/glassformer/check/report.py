"""One layer, all checks, one verdict that says which gradient is wrong, by how much, and where to read."""

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.check import gradients, shapes, tags
from glassformer.check.draw import Case, Drawn
from glassformer.check.observe import observe
from glassformer.errors import ContractError
from glassformer.layers.contract import Layer

AUTODIFF_TOLERANCE = 1e-9
DIFFERENCES_TOLERANCE = 1e-6

READ = (
    "how to derive a backward, line by line: docs/derivations/README.md; "
    "a short worked example: glassformer/layers/rms_norm.py"
)


@dataclass(frozen=True)
class Report:
    name: str
    parameters: int
    against_autodiff: float  # worst error over the gradients
    against_differences: float
    problems: tuple[str, ...]  # what breaks the contract
    notes: tuple[str, ...]  # what the lens would miss

    @property
    def ok(self) -> bool:
        return not self.problems


def must_be_settings(layer: Layer) -> None:
    """A layer is a frozen dataclass, so that it can be a static argument of `jax.jit`."""
    frozen = is_dataclass(layer) and layer.__dataclass_params__.frozen  # pyright: ignore
    if not frozen:
        raise ContractError(f"{type(layer).__name__} is not a frozen dataclass; write @dataclass(frozen=True) above it")
    try:
        hash(layer)
    except TypeError as error:
        raise ContractError(
            f"{type(layer).__name__} has a setting that cannot be hashed ({error}); use a tuple"
        ) from None


def raised_in(file: Path, error: Exception) -> str:
    """Where in the user's file an error came from, and its first line."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == file]
    where = f"{file.name}, line {lines[-1]}" if lines else file.name
    return f"{where}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"


class Measured(NamedTuple):
    """What one compiled run computes: each gradient by name, beside what the referees say."""

    ours: gradients.Gradients
    autodiff: gradients.Gradients
    ours_at_entries: gradients.Gradients
    differences: gradients.Gradients  # at some entries of each leaf
    tagged: gradients.Gradients  # the gradients that backward shows
    tagged_truth: gradients.Gradients


def check(case: Case, seed: int = 0) -> Report:
    """Draw an example in float64 with a random dy (an all-ones dy cannot see softmax) and run every check on it."""
    problems: list[str] = []
    notes: list[str] = []
    parameters = 0
    with jax.enable_x64(True):
        try:
            must_be_settings(case.layer)
            drawn = case.draw(seed, jnp.float64)
            parameters = sum(leaf.size for leaf in jax.tree.leaves(drawn.params))
            compiled = jax.jit(lambda drawn, dy: measure(case, drawn, dy, seed, problems, notes))
            measured = compiled(drawn, case.draw_dy(seed, drawn))
        except Exception as error:
            if isinstance(error, ContractError):
                problem = str(error)
            elif case.file:
                problem = raised_in(case.file, error)
            else:
                raise
            return Report(case.name, parameters, float("inf"), float("inf"), (problem,), ())
    autodiff = gradients.leaf_errors(measured.ours, measured.autodiff)
    differences = gradients.leaf_errors(measured.ours_at_entries, measured.differences)
    return Report(
        name=case.name,
        parameters=parameters,
        against_autodiff=max(autodiff.values(), default=0.0),
        against_differences=max(differences.values(), default=0.0),
        problems=(*problems, *wrong_gradients(measured, autodiff, differences)),
        notes=tuple(notes),
    )


def measure(case: Case, drawn: Drawn, dy: Any, seed: int, problems: list[str], notes: list[str]) -> Measured:
    """Everything that is computed, as one program; what shapes and names show while tracing goes into the lists."""
    seen = observe(case.layer, drawn, dy)
    ours = gradients.ours(case.layer, drawn, seen)
    problems += shapes.undeclared_shapes(case.layer, drawn, dy, seen)
    for name in tags.nameless_gradients(seen):
        problems.append(f"the tag {name!r} is not `d` + the name of a value tagged in forward")
    for name in tags.untagged_cache(seen):
        notes.append(f"the cache field {name!r} is not tagged under its own name: the lens cannot show it")
    autodiff, tagged_truth = gradients.by_autodiff(case.layer, drawn, dy, seen)
    differences, entries = gradients.by_differences(case.layer, drawn, dy, seed)
    return Measured(
        ours=ours,
        autodiff=autodiff,
        ours_at_entries={name: ours[name].ravel()[entries[name]] for name in ours},
        differences=differences,
        tagged={name: seen.backward[name] for name in tagged_truth},
        tagged_truth=tagged_truth,
    )


def wrong_gradients(measured: Measured, autodiff: dict[str, float], differences: dict[str, float]) -> Iterator[str]:
    """Each gradient that a referee refuses, by how much, and what it looks like."""
    for name, error in autodiff.items():
        if error > AUTODIFF_TOLERANCE:
            words = gradients.what_is_wrong(measured.ours[name], measured.autodiff[name])
            yield f"{name} is wrong by {error:.2g} of the largest gradient: {words}"
        elif differences[name] > DIFFERENCES_TOLERANCE:
            yield (
                f"{name} agrees with autodiff but not with finite differences ({differences[name]:.2g}): "
                "forward has a kink or a jump here, or hides part of itself from autodiff"
            )
    for name, error in gradients.leaf_errors(measured.tagged, measured.tagged_truth).items():
        if error > AUTODIFF_TOLERANCE:
            yield f"the value tagged {name!r} is not the gradient of what it names (off by {error:.2g})"
