"""What if: change the input, or what flows through a model, and follow it through to the answer.

A change is a small record that Python, the studio and the page write alike; each is a patch (patch.py) of named values:

HeadOff       z of that head is zero                                        {"change": "head-off", "layer", "head"}
HideToken     no other token attends to it: its scores are -1e9             {"change": "hide", "position", "sequence"}
Temperature   scores / temperature, of one attention layer or of all        {"change": "temperature", "value", "layer"}
Scale         a named value times a number, all of it or some places        {"change": "scale", "name", "by", …}
Replace       a number in the place of a named value                        {"change": "replace", "name", "value", …}
Swap          the same value of another input (activation patching)         {"change": "swap", "name", …}
SetToken      another token in the input                                    {"change": "token", "position", "id", …}
SetImage      another image                                                 {"change": "image", "pixels"}

`…`: `head` and `position` (without them all of the value is meant); of a token, `sequence`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import SettingError, ShapeError
from glassformer.layers.contract import Layer
from glassformer.lens.attention_kind import AttentionLayer, attention_layers
from glassformer.lens.declared import forward_axes
from glassformer.lens.patch import chosen_cells, patch
from glassformer.lens.trace import Trace, trace
from glassformer.names import nearest
from glassformer.shapes import Array
from glassformer.tables import html_table, text_table

HEAD = ["answer", "before", "after", "largest change of a logit"]
HIDDEN = -1e9  # a score that softmax makes exactly zero of
LARGEST = {int: 1 << 31, float: 1e30}  # of a number in a record; NaN is not below it
WORDS = {int: "a whole number", float: "a number of at most 1e30", str: "a name", np.ndarray: "an array"}
Function = Callable[[Array], Any]


class Around(NamedTuple):
    """What a change may read besides the value: the trace before it, and the one of the other input."""

    before: Trace
    other: Trace | None


@dataclass(frozen=True)
class HeadOff:
    layer: str  # blocks.0.attn
    head: int

    def functions(self, around: Around) -> Iterator[tuple[str, Function]]:
        known_layer(around.before, self.layer)
        yield f"{self.layer}.z", lambda value: placed(f"{self.layer}.z", value, 0.0, self.head, None)


@dataclass(frozen=True)
class HideToken:
    position: int
    sequence: str = "tokens"  # memory: of a model that reads a second sequence, that one

    def functions(self, around: Around) -> Iterator[tuple[str, Function]]:
        for layer in attention_layers(around.before):
            if keys_of(around.before, layer) == self.sequence:
                yield f"{layer.name}.scores", lambda value, layer=layer: self.hidden(value, layer)

    def hidden(self, scores: Array, layer: AttentionLayer) -> Array:
        *_, T, S = scores.shape
        if not 0 <= self.position < S:
            raise SettingError(f"hide: position {self.position} came, {layer.name} has keys 0 to {S - 1}")
        if S == 1:
            raise SettingError(f"hide: {layer.name} has a single key; with none left there is nothing to attend to")
        itself = np.zeros(T, bool) if layer.kind == "cross" else np.arange(T) == self.position
        where = np.zeros((T, S), bool)
        where[~itself, self.position] = True
        return jnp.where(where, HIDDEN, scores)


@dataclass(frozen=True)
class Temperature:
    value: float
    layer: str = ""  # of all attention layers

    def functions(self, around: Around) -> Iterator[tuple[str, Function]]:
        if not self.value > 0:
            raise SettingError(f"temperature: {self.value:g} came, expected a number above 0; 1 changes nothing")
        layers = [known_layer(around.before, self.layer)] if self.layer else attention_layers(around.before)
        for layer in layers:
            yield f"{layer.name}.scores", lambda value: value / self.value


@dataclass(frozen=True)
class Scale:
    name: str
    by: float
    head: int | None = None
    position: int | None = None

    def functions(self, around: Around) -> Iterator[tuple[str, Function]]:
        yield self.name, lambda value: placed(self.name, value, value * self.by, self.head, self.position)


@dataclass(frozen=True)
class Replace:
    name: str
    value: float
    head: int | None = None
    position: int | None = None

    def functions(self, around: Around) -> Iterator[tuple[str, Function]]:
        yield self.name, lambda value: placed(self.name, value, self.value, self.head, self.position)


@dataclass(frozen=True)
class Swap:
    name: str
    head: int | None = None
    position: int | None = None

    def functions(self, around: Around) -> Iterator[tuple[str, Function]]:
        if around.other is None:
            raise SettingError(f"swap: {self.name} of which input? give the other one: what_if(…, other=…)")
        theirs = around.other[self.name]

        def swapped(value: Array) -> Array:
            if theirs.shape != value.shape:
                raise ShapeError(
                    f"swap: {self.name} is of shape {value.shape}, that of the other input of {theirs.shape}; take one "
                    "of as many tokens"
                )
            return placed(self.name, value, theirs, self.head, self.position)

        yield self.name, swapped


@dataclass(frozen=True)
class SetToken:
    position: int
    id: int
    sequence: str = "tokens"

    def applied(self, x: Any) -> Any:
        """Of a model with two sequences (T5), tokens are those it writes, memory those it reads."""
        leaves, tree = jax.tree.flatten(x)
        ids = np.array(leaves[0 if self.sequence == "memory" else -1])
        if not np.issubdtype(ids.dtype, np.integer) or ids.ndim != 2:
            raise SettingError(f"token: the input is {ids.dtype} of shape {ids.shape}, expected token ids")
        if not 0 <= self.position < ids.shape[1]:
            raise SettingError(f"token: position {self.position} came, the input has 0 to {ids.shape[1] - 1}")
        ids[:, self.position] = self.id
        leaves[0 if self.sequence == "memory" else -1] = ids
        return jax.tree.unflatten(tree, leaves)


@dataclass(frozen=True, eq=False)
class SetImage:
    pixels: np.ndarray  # of the shape of one image

    def applied(self, x: Any) -> Any:
        image = np.asarray(x)
        pixels = np.asarray(self.pixels)
        if pixels.size != image[0].size:
            raise ShapeError(f"image: {pixels.size:,} pixels came, expected {' x '.join(map(str, image.shape[1:]))}")
        return np.broadcast_to(pixels.reshape(image.shape[1:]).astype(image.dtype), image.shape)


ToInput = SetToken | SetImage
ToValue = HeadOff | HideToken | Temperature | Scale | Replace | Swap
Change = ToInput | ToValue
KINDS: dict[str, type] = {
    "head-off": HeadOff,
    "hide": HideToken,
    "temperature": Temperature,
    "scale": Scale,
    "replace": Replace,
    "swap": Swap,
    "token": SetToken,
    "image": SetImage,
}


@dataclass(frozen=True, eq=False)
class Outcome:
    before: Trace
    after: Trace

    @property
    def change(self) -> np.ndarray:
        """Of every logit."""
        return np.asarray(self.after.logits, np.float64) - np.asarray(self.before.logits, np.float64)

    def rows(self) -> list[list[str]]:
        """Of each answer (a sample's, or a token's): the likeliest before and after, and how far logits moved."""
        before, after, change = (np.asarray(one) for one in (self.before.logits, self.after.logits, self.change))
        return [
            [
                ", ".join(map(str, at)),
                str(before[at].argmax()),
                str(after[at].argmax()),
                f"{np.abs(change[at]).max():.4f}",
            ]
            for at in np.ndindex(before.shape[:-1])
        ]

    def __str__(self) -> str:
        return "\n".join(text_table(HEAD, self.rows(), left=1))

    def _repr_html_(self) -> str:
        return html_table(HEAD, self.rows(), left=1)


def what_if(model: Layer, params: Any, x: Any, changes: Sequence[Change], *, other: Any = None, **rest: Any) -> Outcome:
    """The pass as it is, and with these changes, in their order. `other` is a second input, for `Swap`.

    >>> from glassformer import lens
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> image = run.load_data().test.images[18:19]
    >>> outcome = lens.what_if(run.model, run.params, image, [lens.HeadOff("blocks.0.attn", 0)])
    >>> int(outcome.before.logits.argmax()), int(outcome.after.logits.argmax())
    (3, 1)
    """
    given = x
    for change in changes:
        if isinstance(change, ToInput):
            given = change.applied(given)
    before = trace(model, params, x, **rest)
    theirs = None if other is None else trace(model, params, other, **rest)
    values = [change for change in changes if isinstance(change, ToValue)]
    return Outcome(before, patch(model, params, given, patches(Around(before, theirs), values), **rest))


def patches(around: Around, changes: Sequence[ToValue]) -> dict[str, Function]:
    """One function for each value that is changed; several changes of one value follow each other."""
    found: dict[str, list[Function]] = {}
    for change in changes:
        for name, function in change.functions(around):
            found.setdefault(name, []).append(function)

    def joined(functions: list[Function]) -> Function:
        def apply(value: Array) -> Any:
            for function in functions:
                value = function(value)
            return value

        return apply

    return {name: joined(functions) for name, functions in found.items()}


def placed(name: str, value: Array, new: Any, head: int | None, position: int | None) -> Array:
    return jnp.where(chosen_cells(name, value, head, position), new, value)


def known_layer(traced: Trace, name: str) -> AttentionLayer:
    layers = {layer.name: layer for layer in attention_layers(traced)}
    if name not in layers:
        raise SettingError(
            f"what if: no attention layer is called {name!r}{nearest(name, layers)}; there are {', '.join(layers)}"
        )
    return layers[name]


def keys_of(traced: Trace, layer: AttentionLayer) -> str:
    """Which sequence is looked at: memory where it is the one that a decoder reads."""
    given = next(layer.around.given[name] for name in ("memory", "x") if name in layer.around.given)
    return "memory" if forward_axes(traced).get(id(given), [""])[0] == "S" else "tokens"


def change_of(plain: Mapping[str, Any]) -> Change:
    """A record as it comes from outside: its kind, its fields and their types are checked here."""
    kind = plain.get("change")
    if not isinstance(kind, str) or kind not in KINDS:
        raise SettingError(f"what if: {str(kind)[:40]!r} is no kind of change; known are {', '.join(KINDS)}")
    known = {field.name: field for field in fields(KINDS[kind])}
    given = {name: value for name, value in plain.items() if name != "change" and value is not None}
    for name, value in given.items():
        if name not in known:
            raise SettingError(f"{kind}: {name[:40]!r} came; expected {', '.join(known)}")
        must_be(f"{kind}: {name}", value, (get_args(known[name].type) or (known[name].type,))[0])
    missing = [name for name, field in known.items() if field.default is MISSING and name not in given]
    if missing:
        raise SettingError(f"{kind}: {missing[0]} is missing; expected {', '.join(known)}")
    return KINDS[kind](**given)


def must_be(where: str, value: Any, expected: Any) -> None:
    suits = isinstance(value, (int, float) if expected is float else expected) and not isinstance(value, bool)
    if not suits or (expected in (int, float) and not abs(value) <= LARGEST[expected]):
        raise SettingError(f"{where} is {str(value)[:40]!r}, expected {WORDS[expected]}")
