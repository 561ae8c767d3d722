"""Over time: one step repeated along a sequence, each handed what the step before it left.

`lax.scan` along the second axis of (B, T, …), for steps that tag their values. A loop is compiled once, so whoever is
visiting sees each name once, with all times stacked (B, T, …). What the visitor adds to a value cannot reach into a
loop that has run: the loop runs again, and it is added at each step. With nobody visiting nothing of this is compiled.
"""

from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from glassformer.names import is_visited, tag, visiting
from glassformer.shapes import Array, Float

Results = dict[str, Array]
Step = Callable[[Any, Any], tuple[Any, Results]]  # (what was left, what comes in now) -> (what is left, results)

_looping: ContextVar[bool] = ContextVar("looping", default=False)


def is_looping() -> bool:
    """Whether what is being tagged comes out of a loop: the loop runs again where a visitor returns another array."""
    return _looping.get()


def over_time(step: Step, start: Any, xs: Any, *, reverse: bool = False) -> Results:
    """The results of every time; `reverse` begins at the last. A step tags its results under the names it returns."""
    if not is_visited():
        return scan(step, start, xs, reverse)
    values = scan(shown(step), start, (xs, {}), reverse)
    token = _looping.set(True)
    tagged = {name: tag(name, value) for name, value in values.items()}
    _looping.reset(token)
    added = {name: tagged[name] - value for name, value in values.items() if tagged[name] is not value}
    return scan(shown(step), start, (xs, added), reverse) if added else tagged


def shown(step: Step) -> Step:
    """The same step, which returns everything it tags; what a visitor added is added here."""

    def step_shown(left: Any, now: tuple[Any, Results]) -> tuple[Any, Results]:
        x, added = now
        tagged: Results = OrderedDict()

        def visitor(name: str, value: Any) -> Any:
            tagged[name] = value + added[name] if name in added else value
            return tagged[name]

        with visiting(visitor):
            left, _ = step(left, x)
        return left, tagged

    return step_shown


def scan(step: Step, start: Any, xs: Any, reverse: bool) -> Results:
    _, results = lax.scan(step, start, jax.tree.map(swap, xs), reverse=reverse)
    return jax.tree.map(swap, results)


def swap(x: Float[Array, "B T *C"]) -> Float[Array, "T B *C"]:
    return jnp.swapaxes(x, 0, 1)


def one_earlier(x: Float[Array, "B T C"]) -> Float[Array, "B T C"]:
    """At each time the value of the time before; at the first, zero: the state that every sequence starts from."""
    return jnp.pad(x[:, :-1], ((0, 0), (1, 0), (0, 0)))
