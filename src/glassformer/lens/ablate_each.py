"""Which heads matter? Take each head of each block out, one at a time, and see how much worse the answers get.

change of a head = loss (or accuracy) without it - loss (or accuracy) with all of them

A head is out where its z is zero. All heads are tried in one compiled program, several at a time (`vmap`), on the same
samples. A small change says that a head is not needed while all the others are there, not that it does nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from glassformer.errors import DataError, SettingError, UnknownNameError
from glassformer.layers.contract import Layer
from glassformer.lens.trace import Given, must_be_classes, must_fit, prepared
from glassformer.losses import CrossEntropy
from glassformer.names import last_word, recording, visiting
from glassformer.shapes import Array, Bool, Float
from glassformer.tables import html_table, text_table

HEAD = ["block", "head", "loss", "change", "accuracy", "change"]
SAMPLES_AT_ONCE = 64
HEADS_AT_ONCE = 16


@dataclass(frozen=True)
class WithoutHead:
    name: str  # of the value that was made zero: blocks.0.attn.z
    head: int
    loss: float
    accuracy: float  # share of the labels that are right
    loss_change: float  # above zero: worse without it
    accuracy_change: float  # below zero: worse without it


@dataclass(frozen=True)
class HeadEffects:
    """What each head is worth to the answers; prints as a table."""

    loss: float  # with all heads
    accuracy: float
    labels: float  # how many were counted, by weight
    heads: tuple[WithoutHead, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[list[str]]:
        return [
            [
                one.name.rpartition(".")[0] or one.name,
                str(one.head),
                f"{one.loss:.4f}",
                f"{one.loss_change:+.4f}",
                f"{100 * one.accuracy:.2f} %",
                f"{100 * one.accuracy_change:+.2f} %",
            ]
            for one in self.heads
        ]

    def total(self) -> list[str]:
        return ["all heads", "", f"{self.loss:.4f}", "", f"{100 * self.accuracy:.2f} %", ""]

    def title(self) -> str:
        return f"without one head, over {self.labels:,.0f} labels"

    def table(self) -> str:
        return "\n".join([self.title(), *text_table(HEAD, self.rows(), left=1, total=self.total())])

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return html_table(HEAD, self.rows(), left=1, total=self.total(), caption=self.title())


def ablate_each(
    model: Layer,
    params: Any,
    x: Any,
    *,
    labels: Any,
    weights: Any = None,
    loss: Layer = CrossEntropy(),
    samples_at_once: int = SAMPLES_AT_ONCE,
    heads_at_once: int = HEADS_AT_ONCE,
    **keywords: Any,
) -> HeadEffects:
    """Take out every head in turn; `x`, labels, weights and keywords hold one row for each sample.

    >>> from glassformer import lens
    >>> from glassformer.predict.run import load
    >>> run, test = load(), load().load_data().test
    >>> effects = lens.ablate_each(run.model, run.params, test.images[:200], labels=test.labels[:200])
    >>> [(one.name, one.head, one.loss > effects.loss) for one in effects.heads]
    [('blocks.0.attn.z', 0, True)]
    """
    if keywords.get("key") is not None:
        raise SettingError("ablate_each: a key came; with dropout the heads would be compared by chance, leave it out")
    given = prepared(model, x, labels, weights, None, keywords)
    params = jax.tree.map(jnp.asarray, params)  # those of a file are NumPy arrays, which traced ids cannot index
    count = rows_of(given)
    heads = heads_of(model, params, given)
    sums = np.zeros((3, 1 + sum(heads.values())))
    for start in range(0, count, samples_at_once):
        part = rows(given, start, min(samples_at_once, count), count)
        sums += np.asarray(compiled_sums(model, loss, heads_at_once, params, part, one_out(heads)), np.float64)
    return effects(heads, sums)


class Sums(NamedTuple):
    """Over the labels of one part of the samples."""

    loss: Float[Array, ""]
    right: Float[Array, ""]
    counted: Float[Array, ""]


def rows_of(given: Given) -> int:
    sizes = {len(leaf) for leaf in jax.tree.leaves(given)}
    if len(sizes) != 1 or 0 in sizes:
        raise DataError(
            f"ablate_each: arrays of {' and '.join(map(str, sorted(sizes)))} rows came, expected one row for each "
            "sample in x, labels, weights and keywords alike"
        )
    return sizes.pop()


def heads_of(model: Layer, params: Any, given: Given) -> dict[str, int]:
    """How many heads there are in each attention, by the name of its z (B T H D)."""
    seen: dict[str, Any] = {}
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf[:1]), given)
    with visiting(recording(seen)):
        logits, _ = jax.eval_shape(lambda: model.forward(params, first.x, **first.keywords))
    must_fit(first.labels, logits)  # pyright: ignore[reportArgumentType]
    must_be_classes("ablate_each", given, logits)
    found = {name: value.shape[2] for name, value in seen.items() if last_word(name) == "z" and value.ndim == 4}
    if not found:
        raise UnknownNameError(f"ablate_each: {type(model).__name__} has no attention: no value is called z")
    return found


def rows(given: Given, start: int, size: int, count: int) -> Given:
    """`size` samples from `start` on; past the end the first again, which weigh nothing, so that one program serves."""
    chosen = np.arange(start, start + size)
    part = jax.tree.map(lambda leaf: jnp.asarray(leaf)[chosen % count], given)
    real = jnp.asarray(chosen < count, jnp.float32).reshape(-1, *(1,) * (part.labels.ndim - 1))
    weights = jnp.ones(part.labels.shape, jnp.float32) if part.weights is None else part.weights
    return part._replace(weights=weights * real)


def one_out(heads: Mapping[str, int]) -> dict[str, Bool[Array, "N H"]]:
    """Which heads stay: all of them in the first row, then all but one."""
    stay = ~np.eye(1 + sum(heads.values()), dtype=bool)[:, 1:]
    stay[0] = True
    ends = np.cumsum(list(heads.values()))
    return {name: jnp.asarray(stay[:, end - size : end]) for (name, size), end in zip(heads.items(), ends, strict=True)}


@partial(jax.jit, static_argnums=(0, 1, 2))
def compiled_sums(model: Layer, loss: Layer, at_once: int, params: Any, given: Given, stay: dict[str, Any]) -> Sums:
    weights: Any = given.weights

    def without(stay: dict[str, Bool[Array, "H"]]) -> Sums:
        def visitor(name: str, value: Any) -> Any:
            return jnp.where(stay[name][:, None], value, 0) if name in stay else value

        with visiting(visitor):
            logits, _ = model.forward(params, given.x, **given.keywords)
        mean, _ = loss.forward(None, logits, labels=given.labels, weights=weights)
        counted = jnp.sum(weights)
        right = jnp.sum(weights * (jnp.argmax(logits, axis=-1) == given.labels))
        return Sums(loss=jnp.where(counted > 0, mean * counted, 0), right=right, counted=counted)

    return lax.map(without, stay, batch_size=at_once)


def effects(heads: Mapping[str, int], sums: np.ndarray) -> HeadEffects:
    losses, right, counted = sums
    if not counted[0]:
        raise DataError("ablate_each: all weights are zero, expected some label that counts")
    losses, accuracies = losses / counted, right / counted
    places = [(name, head) for name, size in heads.items() for head in range(size)]
    return HeadEffects(
        loss=float(losses[0]),
        accuracy=float(accuracies[0]),
        labels=float(counted[0]),
        heads=tuple(
            WithoutHead(
                name=name,
                head=head,
                loss=float(loss),
                accuracy=float(accuracy),
                loss_change=float(loss - losses[0]),
                accuracy_change=float(accuracy - accuracies[0]),
            )
            for (name, head), loss, accuracy in zip(places, losses[1:], accuracies[1:], strict=True)
        ),
    )
