"""Trace: every number of one pass through a model, forward and backward, by its dotted name.

The model's own forward and backward run with a visitor that writes down what is tagged, and a watcher that writes down
which layer was at work on what: the numbers are those that training uses. One program is compiled for each model and
each shape of its input, the first time it is asked for.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from glassformer.errors import DataError, SettingError, ShapeError, UnknownNameError
from glassformer.layers.contract import Layer
from glassformer.layers.contract import keywords as keywords_of
from glassformer.layers.over_time import is_looping
from glassformer.losses import CrossEntropy
from glassformer.models.model import Network
from glassformer.names import Call, Direction, at, gradient_name, last_word, named_leaves, nearest, visiting, watching
from glassformer.shapes import Array, Static
from glassformer.tables import html_table, text_table

HEAD = ["name", "shape", "mean", "spread", "norm"]
NEAREST = 3  # names in an error message


@dataclass(frozen=True, eq=False)
class Work:
    """A layer at work: what it was given and what it gave. An array is the same object wherever it is read."""

    name: str  # as in names.Call: blocks.0.attn
    layer: Any
    direction: Direction
    around: int  # number of the work this one is part of; -1: of none
    params: dict[str, str]  # field -> name of the parameter
    given: dict[str, Any]  # x, or the fields of Inputs; in backward dy
    keywords: dict[str, Any]
    gave: dict[str, Any]  # y; in backward dx, or d and the fields of Inputs
    dparams: dict[str, Any]  # by the field of the parameter; none in forward


@dataclass(frozen=True, eq=False)
class Trace:
    """What flowed through a model, in the order it was made; prints as a table.

    >>> from glassformer import lens
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> traced = lens.trace(run.model, run.params, run.load_data().test.images[:1], labels=[7])
    >>> traced["blocks.0.attn.pattern"].shape, traced["blocks.0.attn.dscores"].shape
    ((1, 1, 49, 49), (1, 1, 49, 49))
    >>> list(traced.match("*.w_?").params)
    ['blocks.0.attn.w_q', 'blocks.0.attn.w_k', 'blocks.0.attn.w_v', 'blocks.0.attn.w_o']
    """

    model: Layer
    values: dict[str, Array]  # every tagged value of forward; of the loss too, where labels were given: loss.log_p
    gradients: dict[str, Array]  # every tagged value of backward: blocks.0.attn.dscores; in the order of backward
    params: dict[str, Array]
    param_gradients: dict[str, Array]  # by the name of the parameter
    logits: Any  # what forward gave
    loss: float | None  # None: no labels were given
    works: tuple[Work, ...] = ()  # in the order in which they began
    looped: frozenset[str] = frozenset()  # values that are made in a loop over time

    def sections(self) -> dict[str, dict[str, Array]]:
        """All arrays under the names that `match` and `[name]` know them by."""
        return {
            "forward": self.values,
            "backward": self.gradients,
            "parameters": self.params,
            "gradients of the parameters": {gradient_name(name): d for name, d in self.param_gradients.items()},
        }

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for section in self.sections().values() for name in section))

    def match(self, pattern: str) -> "Trace":
        """Only what is called so: `*.pattern`, `blocks.0.attn.*`, `*.dw_[qk]`."""
        if not any(fnmatchcase(name, pattern) for name in self.names()):
            missing = self.missing(lambda name: fnmatchcase(name, pattern))
            raise UnknownNameError(
                f"nothing in the trace matches {pattern!r}{suggestion(pattern, self.names())}{missing}"
            )

        def chosen(arrays: Mapping[str, Array], as_named: Callable[[str], str] = str) -> dict[str, Array]:
            return {name: array for name, array in arrays.items() if fnmatchcase(as_named(name), pattern)}

        return replace(
            self,
            values=chosen(self.values),
            gradients=chosen(self.gradients),
            params=chosen(self.params),
            param_gradients=chosen(self.param_gradients, gradient_name),
        )

    def __getitem__(self, name: str) -> np.ndarray:
        """The value, parameter or gradient of that name; `blocks.0.attn.dw_q` is the gradient of a parameter."""
        for section in self.sections().values():
            if name in section:
                return as_numpy(section[name])
        missing = self.missing(lambda gradient: gradient == name)
        raise UnknownNameError(f"nothing in the trace is called {name!r}{suggestion(name, self.names())}{missing}")

    def missing(self, is_meant: Callable[[str], bool]) -> str:
        """For a message: that a gradient was meant, and there is no way back in this trace."""
        if self.gradients or not any(is_meant(gradient_name(name)) for name in self.names()):
            return ""
        return "; gradients need labels=…, or dy=…; on the command line --grad"

    def __contains__(self, name: object) -> bool:
        return any(name in section for section in self.sections().values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def title(self) -> str:
        loss = "" if self.loss is None else f", loss {number(self.loss)}"
        backward = f", {len(self.gradients)} gradients" if self.gradients else ""
        return f"{type(self.model).__name__}: {len(self.values)} values{backward}{loss}"

    def rows(self) -> dict[str, list[list[str]]]:
        """Of each section that has any: name, shape, mean, spread (standard deviation) and norm, as text."""
        return {
            title: [[name, by(array.shape), *map(number, measures(array))] for name, array in section.items()]
            for title, section in self.sections().items()
            if section
        }

    def table(self) -> str:
        rows = self.rows()
        lines = text_table(HEAD, [row for section in rows.values() for row in section], left=2)
        shown, rest = lines[:2], iter(lines[2:])
        for title, section in rows.items():
            shown += ["", title, *(next(rest) for _ in section)] if len(rows) > 1 else rest
        return "\n".join([self.title(), *shown])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<trace of {self.title()}>"

    def _repr_html_(self) -> str:
        tables = [html_table(HEAD, rows, left=2, caption=title) for title, rows in self.rows().items()]
        return html_table([self.title()], [], left=1) + "".join(tables)


def trace(
    model: Layer,
    params: Any,
    x: Any,
    *,
    labels: Any = None,
    weights: Any = None,
    loss: Layer = CrossEntropy(),
    dy: Any = None,
    **keywords: Any,
) -> Trace:
    """Run a model, or any layer, on a batch and keep everything it tags.

    With labels the loss follows and the gradient runs back from it, as in training; with `dy` it runs back from there;
    with neither there is no backward. `keywords` are what else forward takes: keep, segments, key. A model that attends
    without a pattern (blockwise, banded) or computes its blocks again in backward is run as the plain one that it is.
    """
    return run(model, loss, params, prepared(model, x, labels, weights, dy, keywords), {})


class Given(NamedTuple):
    """What one pass reads besides the parameters."""

    x: Any
    labels: Array | None
    weights: Array | None
    dy: Any
    keywords: dict[str, Any]


class Passed(NamedTuple):
    """What one pass gave. An array that carries several names (one layer's y, the next one's x) is here once."""

    arrays: list[Array]
    values: Static  # ((name, number of the array), …): a compiled function would put a dict into another order
    gradients: Static
    dparams: Static
    works: Static  # as Work has them, with numbers in the place of arrays
    looped: Static
    came: Static  # ((name, number of the array that came to this tag), …), of those that had a number before
    logits: Any
    loss: Array | None


def prepared(model: Layer, x: Any, labels: Any, weights: Any, dy: Any, keywords: Mapping[str, Any]) -> Given:
    """Checked as far as it can be before the model runs."""
    if labels is not None and dy is not None:
        raise SettingError("trace: labels and dy came, expected one of them: where the gradient comes from")
    if weights is not None and labels is None:
        raise SettingError("trace: weights came without labels; they say how much each label counts")
    known = keywords_of(model)
    for name in keywords:
        if name not in known:
            raise SettingError(
                f"trace: {type(model).__name__} takes no {name!r}{nearest(name, known)}; it takes "
                f"{', '.join(known) or 'nothing besides params and x'}"
            )
    return Given(
        x=x,
        labels=None if labels is None else jnp.asarray(labels),
        weights=None if weights is None else jnp.asarray(weights),
        dy=dy,
        keywords=dict(keywords),
    )


class Change(NamedTuple):
    """What is put in the place of a tagged value (patch.py)."""

    on: Any  # a bool that is only known when the program runs
    value: Array


def run(model: Layer, loss: Layer, params: Any, given: Given, changes: dict[str, Change]) -> Trace:
    model = model.to_look_at() if isinstance(model, Network) else model
    passed = compiled_pass(model, loss, params, given, changes, np.False_)
    must_be_classes("trace", given, passed.logits)
    return read_pass(model, params, passed)


def read_pass(model: Layer, params: Any, passed: "Passed") -> Trace:
    """What a pass gave, by name. Of one that was only traced the arrays are shapes, and the loss has no number."""
    leaves = named_leaves(params)

    def arrays(numbers: tuple[tuple[str, int | str], ...]) -> dict[str, Any]:
        return {name: leaves[i] if isinstance(i, str) else passed.arrays[i] for name, i in numbers}

    return Trace(
        model=model,
        values=arrays(passed.values.value),
        gradients=arrays(passed.gradients.value),
        params=leaves,
        param_gradients=arrays(passed.dparams.value),
        logits=passed.logits,
        loss=float(passed.loss) if isinstance(passed.loss, jax.Array) else None,
        works=tuple(
            Work(name, layer, direction, around, dict(own), *map(arrays, flows))
            for (name, layer, direction, around), own, *flows in passed.works.value
        ),
        looped=passed.looped.value,
    )


class Recorder:
    """Numbers every array that has a name, or that goes into a layer or comes out of one."""

    def __init__(self, params: Any) -> None:
        self.params = {id(leaf): name for name, leaf in named_leaves(params).items()}
        self.numbers: dict[int, int] = {}
        self.arrays: list[Array] = []
        self.kept: list[Any] = []  # while they live, no other array has their id
        self.works: list[Any] = []
        self.inside: list[int] = []
        self.direction: Direction = "forward"

    def number(self, array: Array) -> int | str:
        """Or the name of the parameter that it is."""
        if id(array) in self.params:
            return self.params[id(array)]
        if id(array) not in self.numbers:
            self.numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)
        return self.numbers[id(array)]

    def has(self, array: Array) -> bool:
        return id(array) in self.params or id(array) in self.numbers

    def same(self, array: Array, other: Array) -> None:
        """One is the other, held."""
        self.kept.append(other)
        number = self.number(array)
        if isinstance(number, str):
            self.params[id(other)] = number
        else:
            self.numbers[id(other)] = number

    def leaves(self, tree: Any, alone: str, before: str = "") -> tuple[tuple[str, int | str], ...]:
        """Of all arrays in the tree; one that is no field of anything is called `alone`."""
        named = named_leaves(tree).items()
        return tuple(
            (f"{before}{name}" if name else alone, self.number(leaf))
            for name, leaf in named
            if isinstance(leaf, jax.Array) and not is_key(leaf)
        )

    def watch(self, call: Call) -> Any:
        if call.direction != self.direction:  # a forward that is run again for its cache: seen already
            return call.run()
        at, around = len(self.works), self.inside[-1] if self.inside else -1
        self.works.append(None)
        self.inside.append(at)
        given, result = call.given, call.run()
        self.inside.pop()
        way = ("x", "", "y", "") if call.direction == "forward" else ("dy", "d", "dx", "d")
        own = named_leaves(call.params).items()
        self.works[at] = (
            (call.name, call.layer, call.direction, around),
            tuple((field, self.params[id(leaf)]) for field, leaf in own if id(leaf) in self.params),
            self.leaves(given, *way[:2]),
            self.leaves({name: value for name, value in call.keywords.items() if value is not None}, ""),
            self.leaves(result[0], *way[2:]),
            () if call.direction == "forward" else self.leaves(result[1], ""),
        )
        return result


@partial(jax.jit, static_argnums=(0, 1))
def compiled_pass(
    model: Layer, loss: Layer, params: Any, given: Given, changes: dict[str, Change], never: Any
) -> Passed:
    """Forward, and backward where there is something to begin with."""
    values: dict[str, Array] = {}
    gradients: dict[str, Array] = {}
    opaque: set[int] = set()
    looped: set[str] = set()
    came: dict[str, Any] = {}
    recorder = Recorder(params)

    def changed(name: str, value: Any) -> Any:
        if is_looping():
            looped.add(name)
        came[name] = value
        if name in changes or not (is_looping() or id(value) in opaque):
            result = held(name, value, changes.get(name), never)
            if name not in changes:
                recorder.same(value, result)
            value = result
            opaque.add(id(value))
        values[name] = value
        return value

    def seen(name: str, value: Any) -> Any:
        gradients[name] = value
        return value

    dy, dparams, number, loss_cache = given.dy, None, None, None
    with visiting(changed), watching(recorder.watch):
        y, cache = at("", model).forward(params, given.x, **given.keywords)
        if given.labels is not None:
            must_fit(given.labels, y)
            number, loss_cache = at("loss", loss).forward(None, y, labels=given.labels, weights=given.weights)
    must_have(changes, values)
    must_be_replaceable(changes, values, cache)
    recorder.direction = "backward"
    with visiting(seen), watching(recorder.watch):
        if number is not None:
            dy, _ = at("loss", loss).backward(None, loss_cache, jnp.ones_like(number))
        if dy is not None:
            _, dparams = at("", model).backward(params, cache, dy)

    def numbered(arrays: Mapping[str, Array]) -> Static:
        return Static(tuple((name, recorder.number(array)) for name, array in arrays.items()))

    return Passed(
        values=numbered(values),
        gradients=numbered(gradients),
        dparams=numbered(named_leaves(dparams)),
        works=Static(tuple(recorder.works)),
        looped=Static(frozenset(looped)),
        came=Static(tuple((name, recorder.number(array)) for name, array in came.items() if recorder.has(array))),
        logits=y,
        loss=number,
        arrays=recorder.arrays,
    )


def must_fit(labels: Array, logits: Array) -> None:
    expected = logits.shape if jnp.issubdtype(labels.dtype, jnp.floating) else logits.shape[:-1]
    if labels.shape != expected:
        raise ShapeError(
            f"trace: labels of shape {labels.shape} came, expected one for each of the model's answers: {expected}"
        )


def must_be_classes(where: str, given: Given, logits: Any) -> None:
    if given.labels is None or jnp.issubdtype(given.labels.dtype, jnp.floating):  # or numbers, of a regression
        return
    counted = np.asarray(given.labels)[... if given.weights is None else np.asarray(given.weights) > 0]
    classes = logits.shape[-1]
    if counted.size and (counted.min() < 0 or counted.max() >= classes):
        raise DataError(
            f"{where}: labels from {counted.min()} to {counted.max()} came, the model knows classes 0 to {classes - 1}"
        )


def held(name: str, value: Any, change: Change | None, never: Any) -> Any:
    """The value, or what is put in its place, by a branch that is taken when the program runs.

    Compilers do not fuse through a branch. What comes before and what comes after is therefore the same program
    whether something was changed or not, and a value that is replaced by itself changes not one bit.
    """
    if change is not None:
        if change.value.shape != value.shape:
            raise ShapeError(f"patch: {name} is of shape {value.shape}, what came for it of {change.value.shape}")
        return lax.cond(change.on, lambda v: change.value.astype(v.dtype), lambda v: v, value)
    if not jnp.issubdtype(value.dtype, jnp.floating):
        return value
    return lax.cond(never, jnp.zeros_like, lambda v: v, value)


def must_have(names: Iterable[str], values: Mapping[str, Array]) -> None:
    for name in names:
        if name not in values:
            raise UnknownNameError(f"patch: no value of forward is called {name!r}{suggestion(name, values)}")


def must_be_replaceable(names: Iterable[str], values: Mapping[str, Array], cache: Any) -> None:
    """In a loop over time a change is only added to each step: the cache then holds other values than were shown."""
    kept = named_leaves(cache)
    for name in names:
        beside = [one for one in kept if owner(one) == owner(name) and one in values]
        if any(kept[one] is not values[one] for one in beside):
            raise SettingError(
                f"patch: {name} is made in a loop over time, each step from the one before, and cannot be replaced "
                "from outside; patch what goes into the loop (x, from_x) or what follows it"
            )


def suggestion(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'blocks.0.attn.pattern'?)`: whole names that are near, then names whose last word is."""
    known = list(known)
    words = difflib.get_close_matches(last_word(name), list(dict.fromkeys(map(last_word, known))), n=NEAREST)
    close = difflib.get_close_matches(name, known, n=NEAREST)
    close += [one for word in words for one in known if last_word(one) == word]
    close = list(dict.fromkeys(close))[:NEAREST]
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""


def owner(name: str) -> str:
    return name.rpartition(".")[0]


def as_numpy(array: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(array) if is_key(array) else array)


def is_key(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


class Measures(NamedTuple):
    """None where they mean nothing: of ids, labels and keys."""

    mean: float | None
    spread: float | None  # standard deviation
    norm: float | None  # root of the sum of squares


def measures(array: Any) -> Measures:
    if array.size == 0 or not (jnp.issubdtype(array.dtype, jnp.floating) or array.dtype == bool):
        return Measures(None, None, None)
    numbers = np.asarray(array).astype(np.float64)
    with np.errstate(invalid="ignore"):  # infinities may be among them
        return Measures(float(numbers.mean()), float(numbers.std()), float(np.linalg.norm(numbers)))


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def by(shape: tuple[int, ...]) -> str:
    """`1x4x49x49`; a single number has no shape."""
    return "x".join(map(str, shape)) or "-"
