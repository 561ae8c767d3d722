"""An example to check a layer on, drawn from the layer's own signatures.

`x: Float[Array, "B T C"]` says what to draw. Letters that the parameters also carry take their sizes; the others get
sizes of their own, no two alike, so that a transposed or mis-summed axis cannot hide.
"""

import dataclasses
import inspect
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import ContractError
from glassformer.layers.contract import Layer, described, keywords
from glassformer.layers.masks import Mask
from glassformer.shapes import Array, Bool, Key

FREE_SIZES = (2, 3, 5, 7, 11, 13, 17, 19)
SETTINGS = {"width": "C", "heads": "H", "vocabulary": "V"}
COUNTS = ("V", "K")  # axes that integers count along: symbols and labels


class Drawn(NamedTuple):
    params: Any
    x: Any
    keywords: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A layer and how to draw an example for it."""

    name: str
    layer: Layer
    shape: tuple[int, ...] | None = None  # of x, where the signature does not settle it
    given: tuple[str, ...] = ()  # optional inputs to draw as well: "mask", "bias", "key"
    mask: Mask | None = None  # the keyword `mask`; with "keep" among those given, padding is drawn too
    square: bool = False  # sources are as many as tokens
    spread: float = 1.0  # standard deviation of x
    file: Path | None = None  # where a user's own layer stands: what it raises is a finding, not our bug

    def draw(self, seed: int, dtype: Any = None) -> Drawn:
        """Random params (also where they start at 0 or 1: those hide mistakes), random x, random keywords."""
        rng = np.random.default_rng(seed)
        params = jax.eval_shape(self.layer.init, jax.random.key(0))
        params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape, scale=0.5)), params)
        hints = typing.get_type_hints(described(self.layer).forward)
        sizes = sizes_of_settings(self.layer)
        bind(typing.get_type_hints(self.layer.forward).get("params"), params, sizes)
        if self.square:
            sizes |= dict.fromkeys("TS", size_of("T", sizes))
        x = self.draw_x(rng, hints.get("x"), sizes)
        rest = {
            name: draw_value(rng, hints[name], sizes, self.given)
            for name, parameter in keywords(self.layer).items()
            if name in self.given or parameter.default is parameter.empty
        }
        if self.mask is not None:
            keep = draw_array(rng, Bool[Array, "B S"], {"S": sizes["T"], **sizes}) if "keep" in self.given else None
            rest["mask"] = dataclasses.replace(self.mask, keep=keep)
        return Drawn(params=cast(params, dtype), x=cast(x, dtype), keywords=rest)

    def draw_x(self, rng: np.random.Generator, annotation: Any, sizes: dict[str, int]) -> Any:
        if self.shape is not None:
            x: Any = jnp.asarray(rng.normal(size=self.shape))
            bind(annotation, x, sizes)
        elif annotation in (None, Any, inspect.Parameter.empty):
            raise ContractError(
                f"{self.name}: the signature of forward does not say what x is; annotate it, for instance "
                'x: Float[Array, "B T C"] (from jaxtyping), or give its shape: --x 2,5,6'
            )
        else:
            x = draw_value(rng, annotation, sizes, self.given)
        return jax.tree.map(lambda leaf: leaf * self.spread if is_float(leaf) else leaf, x)

    def draw_dy(self, seed: int, drawn: Drawn) -> Any:
        """A random gradient to come in: an all-ones dy cannot see softmax."""
        rng = np.random.default_rng(seed + 1)
        y, _ = jax.eval_shape(lambda d: self.layer.forward(d.params, d.x, **d.keywords), drawn)
        return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), y)


def sizes_of_settings(layer: Any) -> dict[str, int]:
    """Axis letters that a layer's settings, or those of its parts, decide."""
    sizes: dict[str, int] = {}
    for field in dataclasses.fields(layer):
        value = getattr(layer, field.name)
        if field.name in SETTINGS:
            sizes.setdefault(SETTINGS[field.name], value)
        elif dataclasses.is_dataclass(value):
            sizes = sizes_of_settings(value) | sizes
    return sizes


def is_float(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def cast(tree: Any, dtype: Any) -> Any:
    """The floats of a tree in another precision; integers and booleans as they are."""
    return jax.tree.map(lambda leaf: leaf.astype(dtype or leaf.dtype) if is_float(leaf) else leaf, tree)


def is_named_tuple(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields")


def is_array(annotation: Any) -> bool:
    return hasattr(annotation, "dim_str")


def choices(annotation: Any) -> tuple[Any, ...]:
    """The members of `A | B`, or the annotation alone."""
    origin = typing.get_origin(annotation)
    return typing.get_args(annotation) if origin in (types.UnionType, typing.Union) else (annotation,)


def bind(annotation: Any, value: Any, sizes: dict[str, int]) -> None:
    """Read the sizes of axis letters off values that are there already."""
    if value is None:
        return
    for choice in choices(annotation):
        if is_named_tuple(choice) and isinstance(value, choice):
            hints = typing.get_type_hints(choice)
            for field in choice._fields:
                bind(hints[field], getattr(value, field), sizes)
        elif is_array(choice) and "*" not in choice.dim_str:
            for letter, size in zip(choice.dim_str.split(), value.shape, strict=False):
                sizes.setdefault(letter.lstrip("#"), size)


def draw_value(rng: np.random.Generator, annotation: Any, sizes: dict[str, int], given: tuple[str, ...]) -> Any:
    choice = choices(annotation)[0]
    if is_named_tuple(choice):
        return draw_fields(rng, choice, sizes, given)
    if choice in choices(Key):
        return jax.random.key(int(rng.integers(2**31)))
    if not is_array(choice):
        raise ContractError(
            f"cannot draw a value for {annotation}; annotate it with jaxtyping, or give a shape: --x 2,5,6"
        )
    return draw_array(rng, choice, sizes)


def draw_fields(rng: np.random.Generator, named_tuple: Any, sizes: dict[str, int], given: tuple[str, ...]) -> Any:
    hints = typing.get_type_hints(named_tuple)
    wanted = [field for field in named_tuple._fields if field in given or type(None) not in choices(hints[field])]
    absent = dict.fromkeys(named_tuple._fields)
    return named_tuple(**absent | {field: draw_value(rng, hints[field], sizes, given) for field in wanted})


def draw_array(rng: np.random.Generator, annotation: Any, sizes: dict[str, int]) -> Any:
    shape: list[int] = []
    for axis in annotation.dim_str.split():
        if axis.startswith("*"):  # any number of axes: take two
            shape += [size_of(f"{axis[1:]}{i}", sizes) for i in range(2)]
        else:
            shape.append(int(axis) if axis.isdigit() else size_of(axis.lstrip("#"), sizes))
    if any("bool" in dtype for dtype in annotation.dtypes):
        allowed = rng.random(shape) < 0.7
        allowed[..., 0, :] = False  # one row may look nowhere
        return jnp.asarray(allowed)
    if all("int" in dtype for dtype in annotation.dtypes):
        return jnp.asarray(rng.integers(0, next((sizes[axis] for axis in COUNTS if axis in sizes), 256), shape))
    return jnp.asarray(rng.normal(size=shape))


def size_of(letter: str, sizes: dict[str, int]) -> int:
    if letter not in sizes:
        sizes[letter] = next(size for size in FREE_SIZES if size not in sizes.values())
    return sizes[letter]
