"""A trained float model as int8, calibrated on samples of its training data, and what it then computes.

Of every value the largest magnitude is measured on calibration samples, under the name by which the model tags it. Rows
become int16 with room for twice that; keys and values become int8 by channel, and so do the weights (quantiser.py, and
kernel for kernel int8_steps.py). Layers without an int8 kernel, and those that are asked to, stay float.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from math import inf, log10
from typing import Any

import jax
import numpy as np

from glassformer.edge.int8_steps import HANDLERS
from glassformer.edge.layers import program_of
from glassformer.edge.plan import Layout, layout_of
from glassformer.edge.quantiser import Quantiser
from glassformer.edge.steps import Program, Rows
from glassformer.edge.twin import computed, rows_of
from glassformer.errors import DataError, EngineError, FileError, SettingError
from glassformer.names import named_leaves, recording, visiting
from glassformer.predict.run import Run
from glassformer.structure import Node, structure

Array = np.ndarray

AT_ONCE = 250  # samples computed together
CALIBRATION = 1000  # samples


@dataclass(frozen=True)
class QuantisedModel:
    """The int8 steps of a model with their weights, and what they compute, bit for bit."""

    model: Any
    params: Any
    program: Program
    weights: dict[str, Array]  # as they lie in flash
    scales: dict[str, tuple[Rows, Array]]  # of values that the float model tags, by name
    stays_float: tuple[str, ...]  # layers

    def layout(self) -> Layout:
        """Its memory; of steps of its own, which a layout may change."""
        return layout_of(replace(self.program, steps=[replace(step) for step in self.program.steps]))

    def logits(self, samples: Array) -> Array:
        """(N, K), as a device gives them."""
        return np.concatenate([values[self.program.logits][:, 0] for _, values in self.computed(samples)])

    def computed(self, samples: Array) -> Iterator[tuple[Array, dict[Any, Array]]]:
        """Some samples after the others, and every value of theirs."""
        samples = checked(self.model, samples)
        for start in range(0, len(samples), AT_ONCE):
            part = samples[start : start + AT_ONCE]
            rows = part.reshape(len(part), self.program.sample.count, -1)
            yield part, computed(self.program, self.weights, rows, self.layers)

    @cached_property
    def layers(self) -> dict[str, Callable[[Array], Array]]:
        """Those that stay float, by name."""
        leaves = named_leaves(self.params)

        def forward(node: Node) -> Callable[[Array], Array]:
            params = jax.tree.map(lambda value: leaves[value.param], node.params)
            return lambda x: np.asarray(node.layer.forward(params, x.reshape(len(x), *node.x.shape[1:]))[0])

        return {node.name: forward(node) for node in structure(self.model).walk() if node.name in self.stays_float}

    def noise(self, samples: Array) -> dict[str, float]:
        """Signal-to-quantisation-noise ratio in dB of each value, by its name in the float model, in order."""
        signal, noise = dict.fromkeys(self.scales, 0.0), dict.fromkeys(self.scales, 0.0)
        for part, values in self.computed(samples):
            tagged = traced(self.model, self.params, part)
            for name, (rows, scale) in self.scales.items():
                exact = tagged[name].astype(np.float64)
                found = (rows_of(values, rows) * scale).reshape(exact.shape)
                signal[name] += (exact**2).sum()
                noise[name] += ((found - exact) ** 2).sum()
        return {name: 10 * log10(signal[name] / noise[name]) if noise[name] else inf for name in signal}


def quantise(model: Any, params: Any, samples: Array, keep_float: Sequence[str] = ()) -> QuantisedModel:
    """Calibrate on samples, as the model reads them. Layers whose name fits one of `keep_float` stay float."""
    program = program_of(model)
    layers = {step.layer for step in program.steps}
    for pattern in keep_float:
        if not any(fnmatchcase(layer, pattern) for layer in layers):
            raise SettingError(f"keep-float: no layer fits {pattern!r}; there are {', '.join(sorted(layers))}")
    weights = {name: np.asarray(leaf, np.float64) for name, leaf in named_leaves(params).items()}
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise EngineError(f"int8: the weight {name} has NaN or infinity in it; train again")
    samples = checked(model, samples, "calibration samples")
    largest: dict[str, Array] = {program.sample.name: np.abs(samples.astype(np.float32)).max(axis=0)}
    for start in range(0, len(samples), AT_ONCE):
        for name, value in traced(model, params, samples[start : start + AT_ONCE]).items():
            here = np.abs(value).max(axis=0)
            if not np.isfinite(here).all():
                raise DataError(f"int8: {name} becomes NaN or infinity on the calibration samples; the model is broken")
            largest[name] = np.maximum(here, largest.get(name, 0.0))
    work = Quantiser(program, weights, largest, tuple(keep_float))
    for step in program.steps:
        if work.is_kept(step) or not (step.kernel in HANDLERS and HANDLERS[step.kernel](work, step)):
            work.stay_float(step)
    made, tables = work.finished()
    return QuantisedModel(model, params, made, tables, work.scales(), tuple(dict.fromkeys(work.floats)))


def quantise_run(run: Run, data: str = "", keep_float: Sequence[str] = ()) -> QuantisedModel:
    """Calibrated on training samples of the run's data set, or of another one."""
    try:
        samples, _ = run.arrays(run.load_data(data or run.recipe.data).train, CALIBRATION)
    except (DataError, FileError) as error:
        raise DataError(
            f"int8 is calibrated on training data, which cannot be used: {error}; give others by --data"
        ) from None
    return quantise(run.model, run.params, samples, keep_float)


def checked(model: Any, samples: Array, what: str = "samples") -> Array:
    """Samples of the model's own shape and type."""
    samples, expected = np.asarray(samples), model.example(1)
    if len(samples) == 0:
        raise DataError(f"int8: no {what} came, expected some of the training data")
    if samples.shape[1:] != expected.shape[1:]:
        raise DataError(f"int8: {what} of shape {samples.shape[1:]} came, the model reads {expected.shape[1:]}")
    if expected.dtype != np.uint8:
        samples = samples.astype(np.float32)
    elif samples.dtype != np.uint8:
        raise DataError(f"int8: {what} of type {samples.dtype} came, the model reads bytes, 0 to 255")
    if samples.dtype == np.float32 and not np.isfinite(samples).all():
        raise DataError(f"int8: {what} have NaN or infinity in them")
    return samples


def traced(model: Any, params: Any, samples: Array) -> dict[str, Array]:
    """Every float value that the model tags. One program serves all: a smaller last part is padded."""
    found = compiled_trace(model, params, np.resize(samples, (AT_ONCE, *samples.shape[1:])))
    arrays = {name: np.asarray(value)[: len(samples)] for name, value in found.items()}
    return {name: value for name, value in arrays.items() if np.issubdtype(value.dtype, np.floating)}


@partial(jax.jit, static_argnums=0)
def compiled_trace(model: Any, params: Any, samples: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with visiting(recording(found)):
        model.forward(params, samples)
    return found
