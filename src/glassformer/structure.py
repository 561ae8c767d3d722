"""What a model is made of: a graph of its layers and of the values that flow between them, told by the model itself.

`structure(model)` traces forward, without computing anything. Every layer that is at work (`at`, names.py) becomes a
node, nested like the names; values are the edges. Backward is the graph reversed, with gradients summed where a value
was read twice. Between the parts of a model only sums of values may stand, and arithmetic on integers and booleans
(masks, places): whoever writes a model out in another language takes a layer that it knows whole, or else descends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal, Primitive

from glassformer.layers.contract import Layer
from glassformer.names import Call, at, named_leaves, visiting, watching


class Origin(NamedTuple):
    """How an integer or boolean between the parts was made: JAX's primitive, its settings, and what it read."""

    primitive: str
    settings: dict[str, Any]
    read: tuple["Value", ...]


@dataclass(eq=False)
class Value:
    """An array on its way: the same object wherever it is read."""

    shape: tuple[int, ...]
    dtype: Any
    param: str = ""  # the dotted name of the parameter that it is
    names: list[str] = field(default_factory=list)  # under which it is tagged, in order
    origin: Origin | None = None  # of a mask or a place
    literal: Any = None  # the number, where it is written in the model

    def __repr__(self) -> str:
        return f"<{self.param or ', '.join(self.names) or 'value'} {self.shape}>"


@dataclass(frozen=True, eq=False)
class Sum:
    """y = a + b, between two parts."""

    a: Value
    b: Value
    y: Value


@dataclass(frozen=True, eq=False)
class Node:
    """A layer at work. Params, x, keywords and y have the form in which the layer takes and gives them, of values."""

    name: str  # blocks.0.attn; the model itself has none
    layer: Layer
    params: Any
    x: Any
    keywords: dict[str, Any]
    y: Any
    parts: tuple["Node | Sum", ...]  # what is at work inside, in order
    glue: tuple[str, ...]  # what else is computed between the parts, by the names of JAX's primitives

    @property
    def is_composite(self) -> bool:
        """Whether its parts and their sums are all it computes."""
        return bool(self.parts) and not self.glue

    def walk(self) -> Iterator["Node"]:
        """This node and all inside it, in the order of forward."""
        yield self
        for part in self.parts:
            if isinstance(part, Node):
                yield from part.walk()

    def find(self, name: str) -> "Node":
        """The outermost node of this name."""
        return next(node for node in self.walk() if node.name == name)

    def first(self, kind: type) -> "Node | None":
        """The first node inside at which a layer of this class is at work."""
        return next((node for node in self.walk() if isinstance(node.layer, kind)), None)

    def flat(self) -> Iterator["Node | Sum"]:
        """The layers that compute something themselves and the sums between them, in the order of forward."""
        for part in self.parts:
            if isinstance(part, Node) and part.is_composite:
                yield from part.flat()
            else:
                yield part


def resume(model: Node, params: Any, known: dict[Value, Any]) -> Any:
    """What a model gives when some of its values are known; what does not follow from them is not computed."""
    weights, known = named_leaves(params), dict(known)

    def array(value: Value) -> Any:
        return weights[value.param] if value.param else known[value]

    for part in model.flat():
        read = [part.a, part.b] if isinstance(part, Sum) else jax.tree.leaves(part.x)
        given = jax.tree.leaves(part.y)
        if all(value in known for value in given) or not all(value in known or value.param for value in read):
            continue
        if isinstance(part, Sum):
            known[part.y] = array(part.a) + array(part.b)
        else:
            y, _ = part.layer.forward(jax.tree.map(array, part.params), jax.tree.map(array, part.x))
            known.update(zip(given, jax.tree.leaves(y), strict=True))
    return jax.tree.map(lambda value: known[value], model.y)


def structure(model: Layer, x: Any = None, **keywords: Any) -> Node:
    """The graph of a model at work on `x`: arrays, or their shapes; without one, the model's own example of a batch.

    >>> from glassformer.models import ViT
    >>> [part.name for part in structure(ViT(depth=1)).parts]
    ['prepare', 'patches', 'patch', 'positions', 'blocks.0', 'norm', 'pool', 'head']
    """
    if x is None and not keywords:
        return _structure(model)
    return _traced(model, model.example(1) if x is None else x, keywords)  # pyright: ignore[reportAttributeAccessIssue]


@lru_cache(maxsize=64)
def _structure(model: Layer) -> Node:
    return _traced(model, model.example(1), {})  # pyright: ignore[reportAttributeAccessIssue]


_part = Primitive("part")
_part.multiple_results = True
_part.def_abstract_eval(lambda *_, traced: traced.jaxpr.out_avals)
_tagged = Primitive("tagged")
_tagged.def_abstract_eval(lambda aval, **_: aval)


class _Traced:
    """A layer and what it computes inside, as JAX has traced it."""

    def __init__(self, call: Call) -> None:
        self.name, self.layer = call.name, call.layer

        def run(params: Any, x: Any, keywords: dict[str, Any]) -> Any:
            return self.layer.forward(params, x, **keywords)

        given = (call.params, call.given, call.keywords)
        self.given = jax.tree.structure(given)
        self.jaxpr, shapes = jax.make_jaxpr(run, return_shape=True)(*given)
        self.result = jax.tree.structure(shapes)


def _traced(model: Layer, x: Any, keywords: dict[str, Any]) -> Node:
    params = jax.eval_shape(model.init, jax.random.key(0))

    def watcher(call: Call) -> Any:
        traced = _Traced(call)
        leaves = map(jnp.asarray, jax.tree.leaves((call.params, call.given, call.keywords)))
        return jax.tree.unflatten(traced.result, _part.bind(*leaves, traced=traced))

    def visitor(name: str, value: Any) -> Any:
        return _tagged.bind(value, name=name) if isinstance(value, jax.Array) else value

    def forward(params: Any, x: Any, keywords: dict[str, Any]) -> Any:
        return at("", model).forward(params, x, **keywords)

    with visiting(visitor), watching(watcher):
        jaxpr = jax.make_jaxpr(forward)(params, x, keywords).jaxpr
    names = [*named_leaves(params), *[""] * len(jaxpr.invars)]
    given = [_value(var, name) for var, name in zip(jaxpr.invars, names, strict=False)]
    node, _ = _node(jaxpr.eqns[0].params["traced"], given)
    return node


def _node(traced: _Traced, given: list[Value]) -> tuple[Node, list[Value]]:
    """The node, and all that its forward returns: y and the cache."""
    jaxpr = traced.jaxpr.jaxpr
    values: dict[Any, Value] = dict(zip(jaxpr.invars, given, strict=True))

    def value_of(var: Any) -> Value:
        is_known = not isinstance(var, Literal) and var in values
        return values[var] if is_known else _value(var)  # else a constant

    parts: list[Node | Sum] = []
    glue: list[str] = []
    for equation in jaxpr.eqns:
        read, made = [value_of(var) for var in equation.invars], equation.outvars
        if equation.primitive is _tagged:
            read[0].names.append(equation.params["name"])
            values[made[0]] = read[0]
        elif equation.primitive is _part:
            part, results = _node(equation.params["traced"], read)
            parts.append(part)
            values.update(zip(made, results, strict=True))
        else:
            values.update({var: _value(var) for var in made})
            if equation.primitive.name in ("add", "add_any") and is_sum(equation):
                parts.append(Sum(a=read[0], b=read[1], y=values[made[0]]))
            elif any(jnp.issubdtype(var.aval.dtype, jnp.floating) for var in made):
                glue.append(equation.primitive.name)
            else:
                for var in made:
                    values[var].origin = Origin(equation.primitive.name, equation.params, tuple(read))
    if glue:  # then sums are its own work too
        parts = [part for part in parts if isinstance(part, Node)]
    results = [value_of(var) for var in jaxpr.outvars]
    params, x, keywords = jax.tree.unflatten(traced.given, given)
    y, _ = jax.tree.unflatten(traced.result, results)
    return Node(traced.name, traced.layer, params, x, keywords, y, tuple(parts), tuple(glue)), results


def _value(var: Any, param: str = "") -> Value:
    return Value(var.aval.shape, var.aval.dtype, param, literal=var.val if isinstance(var, Literal) else None)


def is_sum(equation: Any) -> bool:
    """Of two float arrays of one shape."""
    a, b = (var.aval for var in equation.invars)
    literal = any(isinstance(var, Literal) for var in equation.invars)
    return not literal and a.shape == b.shape and jnp.issubdtype(a.dtype, jnp.floating)
