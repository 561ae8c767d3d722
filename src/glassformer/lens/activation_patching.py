"""Activation patching: where in the model does the difference between two inputs live?

change = logit with the stream of the other input put in at one block and one position - logit as it was

The residual stream before the first block and behind each one is taken, position by position; every cell of the table
is one pass from there to the answer. All of them are one compiled program. Where a cell is as large as the whole
difference, that place carries what tells the inputs apart; a cell near zero carries none of it. Meng et al., 2022.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from glassformer.errors import SettingError, ShapeError
from glassformer.layers.contract import Layer
from glassformer.lens.residual_stream import streams_of
from glassformer.lens.trace import Trace, prepared, trace
from glassformer.models.model import Network
from glassformer.names import visiting
from glassformer.tables import html_table, text_table

PASSES_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class PatchTable:
    """The change of one logit; prints as a table."""

    label: int  # which logit
    place: int | None  # at which token of the answer; None: the model answers for the whole input
    before: float  # the logit as it is
    other: float  # that of the other input
    rows: dict[str, np.ndarray]  # by the name of the value that was put in: the change, (T,)

    def as_dict(self) -> dict[str, Any]:
        rows = {name: row.tolist() for name, row in self.rows.items()}
        return {"label": self.label, "place": self.place, "before": self.before, "other": self.other, "rows": rows}

    def title(self) -> str:
        where = "" if self.place is None else f", token {self.place}"
        return f"change of logit {self.label}{where} ({self.before:.4f}; of the other input {self.other:.4f})"

    def head(self) -> list[str]:
        return ["put in", *map(str, range(max(map(len, self.rows.values()))))]

    def cells(self) -> list[list[str]]:
        many = len(self.head()) - 1
        return [[name, *(f"{x:+.3f}" for x in row), *[""] * (many - len(row))] for name, row in self.rows.items()]

    def __str__(self) -> str:
        return "\n".join([self.title(), *text_table(self.head(), self.cells(), left=1)])

    def _repr_html_(self) -> str:
        return html_table(self.head(), self.cells(), left=1, caption=self.title())


def activation_patching(
    model: Layer,
    params: Any,
    x: Any,
    other: Any,
    *,
    label: int | None = None,
    place: int | None = None,
    **keywords: Any,
) -> PatchTable:
    """Of two inputs, one each, with as many tokens: `label` is the logit that is followed (none: the likeliest of the
    other input), `place` the token at which it is read (none: the last).

    >>> from glassformer import lens
    >>> from glassformer.predict.run import load
    >>> run, digits = load(), load().load_data().test.images
    >>> table = lens.activation_patching(run.model, run.params, digits[:1], digits[1:2])
    >>> table.label, [(name, len(row)) for name, row in table.rows.items()]
    (2, [('blocks.0.resid_pre', 49), ('blocks.0.resid_post', 49)])
    """
    model = model.to_look_at() if isinstance(model, Network) else model
    given = prepared(model, x, None, None, None, keywords)
    here, theirs = (trace(model, params, one, **keywords) for one in (x, other))
    names = stream_names(here)
    if not names:
        raise SettingError(f"activation patching: {type(model).__name__} has no residual stream to patch")
    for name in names:
        if here.values[name].shape != theirs.values[name].shape:
            raise ShapeError(
                f"activation patching: {name} is of shape {here.values[name].shape}, that of the other input of "
                f"{theirs.values[name].shape}; take one of as many tokens"
            )
    before, after = (np.asarray(one.logits, np.float64)[0] for one in (here, theirs))
    place = answer_place(before, place)
    read = before if place is None else before[place], after if place is None else after[place]
    label = int(read[1].argmax()) if label is None else label
    if not 0 <= label < len(read[0]):
        raise SettingError(f"activation patching: label {label} came, the model knows 0 to {len(read[0]) - 1}")
    sizes = {name: here.values[name].shape[1] for name in names}
    stored = {name: theirs.values[name] for name in names}
    logits = np.asarray(compiled_table(model, params, given.x, given.keywords, stored, one_place_each(sizes)))[:, 0]
    changes = (logits if place is None else logits[:, place])[:, label].astype(np.float64) - read[0][label]
    ends = np.cumsum(list(sizes.values()))
    rows = {name: changes[end - size : end] for (name, size), end in zip(sizes.items(), ends, strict=True)}
    return PatchTable(label, place, float(read[0][label]), float(read[1][label]), rows)


def stream_names(traced: Trace) -> list[str]:
    """Before the first block, and behind each; of T5 in its encoder and in its decoder."""
    streams = streams_of(traced.model) if isinstance(traced.model, Network) else []
    found = [name for stream in streams for name in (*stream.starts()[:1], *stream.ends())]
    return [name for name in found if name in traced.values]


def answer_place(logits: np.ndarray, place: int | None) -> int | None:
    if logits.ndim == 1:
        if place is not None:
            raise SettingError(f"activation patching: place {place} came, the model answers for the whole input")
        return None
    tokens = len(logits)
    if place is not None and not -tokens <= place < tokens:
        raise SettingError(f"activation patching: place {place} came, the model answers at 0 to {tokens - 1}")
    return (tokens - 1 if place is None else place) % tokens


def one_place_each(sizes: dict[str, int]) -> dict[str, np.ndarray]:
    """Which places are put in, of each value (N, T): one cell of the table after the other."""
    marks = np.eye(sum(sizes.values()), dtype=bool)
    ends = np.cumsum(list(sizes.values()))
    return {name: marks[:, end - size : end] for (name, size), end in zip(sizes.items(), ends, strict=True)}


@partial(jax.jit, static_argnums=0)
def compiled_table(model: Layer, params: Any, x: Any, keywords: Any, stored: Any, marks: dict[str, Any]) -> Any:
    def with_one_in(marked: dict[str, Any]) -> Any:
        def visitor(name: str, value: Any) -> Any:
            return jnp.where(marked[name][:, None], stored[name], value) if name in marked else value

        with visiting(visitor):
            return model.forward(params, x, **keywords)[0]

    return lax.map(with_one_in, marks, batch_size=PASSES_AT_ONCE)
