"""Patch: replace what flows through a model, and see what follows from it. Ablate: put zeros there.

forward    every tagged value may be replaced as it is made; all that comes after is made from the new one
backward   the model's own, from the new values: the gradient at a replaced value is what it would have received

A value that is replaced by itself changes nothing, not one bit. Zeros in a head's z are what a model without that
head's rows of w_o computes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.errors import SettingError
from glassformer.layers.contract import Layer
from glassformer.lens.trace import Change, Trace, is_key, must_have, prepared, run
from glassformer.losses import CrossEntropy
from glassformer.names import last_word
from glassformer.shapes import Array

OF_HEADS = ("q", "k", "v", "z", "k_shared", "v_shared")  # B T H D
OF_PAIRS = ("scores", "pattern", "bias")  # B H T S

Changes = Mapping[str, Any | Callable[[Array], Any]]
Places = int | Sequence[int]


def patch(
    model: Layer,
    params: Any,
    x: Any,
    changes: Changes,
    *,
    labels: Any = None,
    weights: Any = None,
    loss: Layer = CrossEntropy(),
    dy: Any = None,
    **keywords: Any,
) -> Trace:
    """The trace of a pass in which the named values are replaced: by arrays, or by what a function makes of them.

    A function is given the value as it comes by, after the changes further up. Everything else is as for `trace`.

    >>> from glassformer import lens
    >>> from glassformer.predict.run import load
    >>> run, digits = load(), load().load_data().test.images[:2]
    >>> seven, two = (lens.trace(run.model, run.params, digits[i : i + 1]) for i in (0, 1))
    >>> swapped = lens.patch(run.model, run.params, digits[:1], {"pool.y": two["pool.y"]})
    >>> [int(one.logits.argmax()) for one in (seven, two, swapped)]
    [7, 2, 2]
    """
    go = partial(run, model, loss, params, prepared(model, x, labels, weights, dy, keywords))
    seen = now = go({})
    must_have(changes, seen.values)
    # one program serves every patch of this model: all values may be replaced in it, and most are not
    replaceable = [name for name in seen.values if name in changes or name not in seen.looped]
    places = {name: Change(np.False_, seen.values[name]) for name in replaceable if not is_key(seen.values[name])}
    for name in [name for name in seen.values if name in changes]:
        change = changes[name]
        value = jnp.asarray(change(now.values[name]) if callable(change) else change, seen.values[name].dtype)
        places[name] = Change(np.True_, value)
        now = go(places)
    return now


def ablate(
    model: Layer,
    params: Any,
    x: Any,
    name: str,
    *,
    head: Places | None = None,
    position: Places | None = None,
    **rest: Any,
) -> Trace:
    """The trace of a pass with zeros in a named value: all of it, or only some heads, only some tokens, or both.

    `blocks.0.attn.z` with `head=2` takes that head out of the block; of a pattern or scores, `position` is the token
    that looks. Everything else is as for `trace`.
    """
    return patch(model, params, x, {name: partial(zeroed, name, head=head, position=position)}, **rest)


def zeroed(name: str, value: Array, head: Places | None = None, position: Places | None = None) -> Array:
    """The value with zeros where heads and positions cross; None stands for all of them."""
    return jnp.where(chosen_cells(name, value, head, position), jnp.zeros_like(value), value)


def chosen_cells(name: str, value: Array, head: Places | None = None, position: Places | None = None) -> np.ndarray:
    """True where these heads and positions of a value cross; None stands for all of them."""
    where = np.ones(value.shape, bool)
    for what, places, axis in (("head", head, head_axis(name, value)), ("position", position, token_axis(name, value))):
        if places is None:
            continue
        if axis is None:
            raise SettingError(f"ablate: {name} of shape {value.shape} has no axis of {what}s; {ADVICE[what]}")
        where &= along(axis, marked(name, what, places, value.shape[axis]), value.ndim)
    return where


ADVICE = {
    "head": f"those that have end in {', '.join(OF_HEADS + OF_PAIRS)}",
    "position": "values of tokens have: positions.y, resid_post, attn.z, …",
}


def head_axis(name: str, value: Array) -> int | None:
    if value.ndim != 4:
        return None
    return 2 if last_word(name) in OF_HEADS else 1 if last_word(name) in OF_PAIRS else None


def token_axis(name: str, value: Array) -> int | None:
    """Of B T C, of B T H D, and of B H T S the T that asks."""
    heads = head_axis(name, value)
    return 3 - heads if heads else 1 if value.ndim == 3 else None


def marked(name: str, what: str, places: Places, size: int) -> np.ndarray:
    chosen = np.zeros(size, bool)
    for place in [places] if isinstance(places, int | np.integer) else places:
        if not -size <= place < size:
            raise SettingError(f"ablate: {what} {place} came, {name} has {what}s 0 to {size - 1}")
        chosen[place] = True
    return chosen


def along(axis: int, marks: np.ndarray, axes: int) -> np.ndarray:
    return marks.reshape([-1 if i == axis else 1 for i in range(axes)])
