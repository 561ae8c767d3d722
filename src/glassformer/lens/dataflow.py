"""Dataflow: of every value of forward, the formula that makes it and the very tags that it is made of.

A page calls an array by its first name, and one array has several: what a norm gave, what attention was given, its
query, its memory. Whoever replaces one of them must know who reads which. So forward is traced once more, without
computing anything, in a pass where every tag gives an array of its own (as in patch.py): a name is then read by those
who were really given what passed that tag. With these formulas a page works the model out again (web/forward_pass.js).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from glassformer.layers.contract import Layer
from glassformer.lens.provenance import Provenance
from glassformer.lens.steps import is_gradient
from glassformer.lens.trace import Change, Given, Trace, compiled_pass, is_key, read_pass
from glassformer.names import at, last_word, recording, visiting


class Dataflow(NamedTuple):
    equations: dict[
        str, tuple[str, dict[str, Any]]
    ]  # name -> formula, and what its names mean; in the order of forward
    inputs: dict[str, str]  # values that are the model's input -> its field there: x; of T5 source and target
    missing: dict[str, str]  # values that follow from the input, but by no formula -> the layer that made them


def dataflow(traced: Trace, loss: Layer, params: Any, given: Given) -> Dataflow:
    """Of the pass that this trace was made by."""
    shape: Any = jax.ShapeDtypeStruct
    changes = {
        name: Change(shape((), bool), shape(value.shape, value.dtype))
        for name, value in traced.values.items()
        if name not in traced.looped and not is_key(value)
    }
    passed = jax.eval_shape(partial(compiled_pass, traced.model, loss), params, given, changes, np.False_)
    apart = read_pass(traced.model, params, passed)
    shown, made = Provenance(traced), Provenance(apart)
    names = {id(array): name for name, array in {**made.hidden, **apart.values, **apart.params}.items()}
    came = {name: passed.arrays[i] if isinstance(i, int) else apart.params[i] for name, i in passed.came.value}
    fields = {id(array): field for field, array in apart.works[0].given.items()}
    follows = following(traced.model, params, given)
    flow = Dataflow({}, {}, {})
    for name in (*(one for one in made.hidden if not is_gradient(one)), *apart.values):
        source = came.get(name, made.arrays[name])
        before = names.get(id(source), name)
        equation = made.equations.get(name) or shown.equations.get(name)
        if id(source) in fields:
            flow.inputs[name] = fields[id(source)]
        elif before != name:
            flow.equations[name] = f"{last_word(name)} = {before}", {before: {"tensor": before}}
        elif equation and name not in traced.looped:
            flow.equations[name] = str(equation), equation.refs
        elif name in follows or (name not in apart.values and isinstance(source, jax.ShapeDtypeStruct)):
            works = made.scopes.get(name.rpartition(".")[0])
            flow.missing[name] = type(works[0].layer if works else traced.model).__name__
    return flow


def following(model: Layer, params: Any, given: Given) -> set[str]:
    """The values that the input has a part in; the others (masks, tables) are the same for every input."""

    params = jax.tree.map(jnp.asarray, params)

    def values(x: Any) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        with visiting(recording(seen)):
            at("", model).forward(params, x, **given.keywords)
        return {name: value for name, value in seen.items() if not is_key(value)}

    closed, shapes = jax.make_jaxpr(values, return_shape=True)(given.x)
    known = set(closed.jaxpr.invars)
    for equation in closed.jaxpr.eqns:
        if any(not isinstance(var, Literal) and var in known for var in equation.invars):
            known.update(equation.outvars)
    made = zip(sorted(shapes), closed.jaxpr.outvars, strict=True)  # JAX puts the keys of a dict in order
    return {name for name, var in made if not isinstance(var, Literal) and var in known}
