"""Provenance: of every value, gradient and weight gradient, the formula that made it and what its names mean.

Nothing is guessed: the formulas are those of the layer that was at work (formulas.py), its names are what it tagged,
was given and gave, arrays being the same ones or not, and what it does not have here is left out of them.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from glassformer.formulas import FUNCTIONS, Expr, Formula, Scope, stated
from glassformer.lens.declared import BESIDE, Dims, bound_by, dims_for, forward_axes, has_batch, letters
from glassformer.lens.trace import Trace, Work, as_numpy
from glassformer.names import gradient_name, last_word

Ref = dict[str, Any]  # {"tensor": name}, {"value": number} or {"part": scope, "y": name}


class Equation(NamedTuple):
    formula: Formula  # simplified; on the left the last word of the tensor's name
    refs: dict[str, Ref]
    work: Work | None  # whose formula it is; None: the value is another one under a second name, or a sum of such

    def __str__(self) -> str:
        return str(self.formula)


@dataclass
class Provenance:
    trace: Trace
    arrays: dict[str, Any] = field(default_factory=dict)  # every tensor by name: of the trace, then what follows
    hidden: dict[str, Any] = field(default_factory=dict)  # what no tag names, but a formula does
    masks: dict[str, Any] = field(default_factory=dict)
    equations: dict[str, Equation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        traced = self.trace
        self.arrays = {**traced.values, **traced.gradients}
        self.weight_gradients = {gradient_name(name): array for name, array in traced.param_gradients.items()}
        self.names: dict[int, list[str]] = defaultdict(list)  # of an array, in order
        for name, array in {**traced.params, **self.arrays, **self.weight_gradients}.items():
            self.names[id(array)].append(name)
        self.inside: dict[str, dict[str, Any]] = defaultdict(dict)  # what is tagged in a scope
        for name, array in traced.values.items():
            self.inside[name.rpartition(".")[0]][last_word(name)] = array
        self.scopes: dict[str, list[Work]] = defaultdict(list)
        self.containers: set[int] = set()  # works whose weights are all their parts'
        for i, work in enumerate(traced.works):
            self.scopes[work.name].append(work)
            parts = [one for one in traced.works if one.around == i and one.name != work.name]
            if parts and set(work.params.values()) <= {name for part in parts for name in part.params.values()}:
                self.containers.add(id(work))
        for last in (False, True):  # first what layers made themselves, then what those around made of it
            for work in traced.works:
                for formula in stated(type(work.layer), work.direction):
                    self.state(work, formula, last)
        self.sums_of_gradients()
        self.second_names()
        self.arrays |= self.weight_gradients | traced.params | self.hidden | self.masks

    # ---- formulas

    def state(self, work: Work, formula: Formula, last: bool) -> None:
        tensor = self.left_side(work, formula.name, last)
        if tensor is None or tensor in self.equations:
            return
        meaning = Meaning(self, work)
        simple = meaning.scope.simplify(formula)
        if simple is None or (simple.expr.kind == "name" and meaning.tensor_of(simple.expr.text) == tensor):
            return
        refs = {name: ref for name in simple.expr.names() if (ref := meaning.ref(name))}
        refs |= {name: ref for name in simple.expr.calls() if (ref := meaning.part_ref(name))}
        if is_result_of_part(simple.expr, refs, tensor):
            return
        self.equations[tensor] = Equation(Formula(last_word(tensor), simple.expr), refs, work)
        for call in simple.expr.walk():
            part = meaning.part_work(call.text) if call.kind == "call" else None
            for expr, (word, array) in zip(call.parts, part.given.items() if part else (), strict=False):
                if expr.kind == "name":
                    continue
                given = self.name_of(array, f"{part.name if part else ''}.{word}")
                if given not in self.equations:
                    read = {name: refs[name] for name in (*expr.names(), *expr.calls()) if name in refs}
                    if is_result_of_part(expr, read, given):
                        continue
                    self.equations[given] = Equation(Formula(last_word(given), expr), read, work)

    def left_side(self, work: Work, name: str, last: bool = False) -> str | None:
        """The tensor that a formula of this layer defines; None: it is not here, or came through unchanged."""
        scope, _, word = name.rpartition(".")
        if scope:
            for part in self.parts(work, scope):
                if word in part.given:
                    return self.name_of(part.given[word], f"{part.name}.{word}".strip("."))
            return None
        full = f"{work.name}.{name}".strip(".")
        array = work.gave.get(name, work.dparams.get(name[1:]) if name.startswith("d") else None)
        if array is None:
            return full if full in self.arrays else None
        if any(array is one for one in work.given.values()):
            return None
        if work.dparams.get(name[1:]) is array:
            return next((one for one in self.names[id(array)] if one in self.weight_gradients), None) or self.name_of(
                array, f"{full}_here"
            )
        own = [one for one in self.names[id(array)] if one.rpartition(".")[0] == work.name]
        if own:
            return own[0]
        if id(work) in self.containers and self.names[id(array)]:
            return self.names[id(array)][0] if last else None
        return self.hide(array, full)

    def parts(self, work: Work, name: str) -> Iterator[Work]:
        scope = f"{work.name}.{name}".strip(".")
        return (one for one in self.scopes.get(scope, ()) if one.direction == work.direction)

    # ---- names

    def name_of(self, array: Any, otherwise: str) -> str:
        """Its first name; an array without one gets a hidden one."""
        found = self.names.get(id(array))
        return found[0] if found else self.hide(array, otherwise)

    def hide(self, array: Any, name: str) -> str:
        while name in self.hidden and self.hidden[name] is not array:
            name += "_"
        self.hidden[name] = array
        if name not in self.names[id(array)]:
            self.names[id(array)].append(name)
        return name

    def second_names(self) -> None:
        for name, array in {**self.trace.values, **self.trace.gradients, **self.hidden}.items():
            if name in self.equations:
                continue
            others = [one for one in self.names[id(array)] if one != name]
            earlier = self.names[id(array)][: self.names[id(array)].index(name)]
            first = next((one for one in others if one in self.equations), next(iter(earlier), None))
            if first is not None:
                alias = Formula(last_word(name), Expr("name", first))
                self.equations[name] = Equation(alias, {first: {"tensor": first}}, None)

    def sums_of_gradients(self) -> None:
        """A weight that is read in several places receives the sum of what each found."""
        for param, total in self.trace.param_gradients.items():
            name = gradient_name(param)
            if name in self.equations:
                continue
            found = self.contributions(param, total)
            if len(found) == 1 and found[0] is total:
                first = self.names[id(total)][0]
                terms = [first] if first != name else []
            else:
                terms = [self.name_of(array, f"{name}_{i}") for i, array in enumerate(found)]
            if terms:
                expr = Expr("name", terms[0])
                for term in terms[1:]:
                    expr = Expr("+", parts=(expr, Expr("name", term)))
                refs = {term: {"tensor": term} for term in terms}
                self.equations[name] = Equation(Formula(last_word(name), expr), refs, None)

    def contributions(self, param: str, total: Any) -> list[Any]:
        """What each innermost layer that reads the weight gives back for it."""
        works, leaf = self.trace.works, self.trace.params[param]
        back = {}
        for i, work in enumerate(works):
            if work.direction == "backward":
                own = next((field for field, name in work.params.items() if name == param), None)
                array = work.dparams.get(own) if own else self.gradient_of_input(work, leaf)
                if array is not None:
                    back[i] = array
        around = {work.around for i, work in enumerate(works) if i in back}
        return list({id(array): array for i, array in back.items() if i not in around}.values())

    def gradient_of_input(self, work: Work, leaf: Any) -> Any:
        """Of a weight that comes in beside x, as in a tied head."""
        for one in self.scopes[work.name]:
            if one.direction == "forward" and one.layer == work.layer:
                for name, array in one.given.items():
                    if array is leaf:
                        return work.gave.get(f"d{name}")
        return None

    # ---- axes

    @cached_property
    def dims(self) -> dict[str, Dims | None]:
        """What the layer in whose scope a tensor is declares of it."""

        def found(name: str) -> Dims | None:
            scope = name.rpartition(".")[0]
            works = self.scopes.get(scope, ())
            for work in works:
                if dims := dims_for(type(work.layer), name):
                    return dims
            for work in works:  # under another name: what it gave
                for key, array in work.gave.items():
                    if array is self.arrays[name] and (dims := dims_for(type(work.layer), key)):
                        return dims
            return None

        return {name: found(name) for name in self.arrays}

    def sample(self, name: str) -> np.ndarray:
        """Of the first sample, without the axis of the batch."""
        array = as_numpy(self.arrays[name])
        if name in self.trace.params or name in self.weight_gradients:
            return array
        sample = array[0] if has_batch(self.dims[name], array.shape) else array
        return sample[0] if name in self.masks and sample.shape[0] == 1 and sample.ndim == 3 else sample  # of all heads

    @cached_property
    def axes(self) -> dict[str, list[str]]:
        known = forward_axes(self.trace)
        found = {name: known[id(array)] for name, array in self.arrays.items() if id(array) in known}
        for work in (one for one in self.trace.works if one.direction == "forward"):
            bound = bound_by(known, work, {**work.given, **work.gave})
            for word, param in work.params.items():
                dims = dims_for(type(work.layer), word)
                if dims and "." not in word:
                    found[param] = letters(dims, self.trace.params[param].ndim, bound)
        for name in self.masks:
            found[name] = ["H", "T", "S"][3 - self.sample(name).ndim :]
        for name in self.arrays:
            if name not in found:
                scope, _, word = name.rpartition(".")
                value = found.get(f"{scope}.{word[1:]}".strip(".")) if word.startswith("d") else None
                shape = self.sample(name).shape
                found[name] = value if value and len(value) == len(shape) else letters(self.dims[name], len(shape))
        return found

    def seen(self, name: str) -> np.ndarray:
        """As formulas see it: heads and gates first."""
        array, axes = self.sample(name).astype(np.float64), self.axes[name]
        if array.ndim == 3 and axes[1] in BESIDE:
            return np.moveaxis(array, 1, 0)
        return array[:, None] if array.ndim == 2 and axes[0] in ("3", "4") else array


def is_result_of_part(expr: Expr, refs: dict[str, Ref], tensor: str) -> bool:
    """What a part gave is that part's to explain: `norm1.y = norm1(x)` would say nothing."""
    return expr.kind == "call" and refs.get(expr.text, {}).get("y") == tensor


class Meaning:
    """What names mean to one layer at work."""

    def __init__(self, of: Provenance, work: Work) -> None:
        self.of, self.work = of, work
        lines = (*stated(type(work.layer), "forward"), *stated(type(work.layer), "backward"))
        defined = {line.name: line.expr for line in lines}
        self.scope = Scope(lambda name: self.ref(name) is not None, self.part, defined)

    def beside(self) -> list[Work]:
        """This layer first, then the others that share its names."""
        same = [one for one in self.of.scopes[self.work.name] if one.layer == self.work.layer]
        return [*same, *(one for one in self.of.scopes[self.work.name] if one not in same)]

    def ref(self, name: str) -> Ref | None:
        if (tensor := self.tensor_of(name)) is not None:
            return {"tensor": tensor}
        value = setting(self.work.layer, name)
        return {"value": value} if value is not None else self.size(name)

    def tensor_of(self, name: str) -> str | None:
        of, (scope, _, word) = self.of, name.rpartition(".")
        if scope:
            full = f"{self.work.name}.{scope}".strip(".")
            works = of.scopes.get(full, [])
        else:
            full, works = self.work.name, self.beside()
        dotted = f"{full}.{word}".strip(".")
        if dotted in of.trace.values or dotted in of.trace.gradients:
            if word == "mask":
                of.masks.setdefault(dotted, of.trace.values[dotted])
            return dotted
        for work in works:
            if word in work.params:
                return work.params[word]
            if word.startswith("d") and word[1:] in work.dparams:
                return of.left_side(work, word)
            for flow in (work.given, work.gave):
                if word in flow:
                    return of.name_of(flow[word], dotted)
            if word in work.keywords and np.ndim(work.keywords[word]):
                return self.mask(work, word, dotted)
        fixed = None if scope else getattr(self.work.layer, word, None)
        if is_array(fixed):
            return of.hide(np.asarray(fixed, np.float32), dotted) if dotted not in of.hidden else dotted
        return None

    def mask(self, work: Work, word: str, dotted: str) -> str:
        array = work.keywords[word]
        if array.dtype != bool:
            return self.of.name_of(array, dotted)
        self.of.masks.setdefault(dotted, array)
        return dotted

    def size(self, name: str) -> Ref | None:
        """An axis letter is the length of that axis."""
        if len(name) != 1 or not name.isupper():
            return None
        for work in self.beside():
            params = {word: self.of.trace.params[param] for word, param in work.params.items()}
            for word, array in {**work.given, **work.gave, **params, **self.of.inside[work.name]}.items():
                dims = dims_for(type(work.layer), word) or ()
                if name in dims:  # not "#H", which may be 1
                    return {"value": int(np.shape(array)[dims.index(name) - len(dims)])}
        return None

    def part(self, name: str) -> Literal["works", "passes", "absent"]:
        work = self.part_work(name)
        if work is None:
            return "absent"
        given, gave = [*work.given.values()], [*work.gave.values()]
        return "passes" if len(given) == len(gave) == 1 and given[0] is gave[0] else "works"

    def part_work(self, name: str) -> Work | None:
        scope, backward = name.removesuffix(".backward"), name.endswith(".backward")
        full = f"{self.work.name}.{scope}".strip(".")
        direction = "backward" if backward else "forward"
        if full == self.work.name:
            return None
        return next((one for one in self.of.scopes.get(full, ()) if one.direction == direction), None)

    def part_ref(self, name: str) -> Ref | None:
        work = self.part_work(name)
        if work is None:
            if name not in FUNCTIONS:
                raise KeyError(name)
            return None
        (word, array), *_ = work.gave.items()
        inside = [one for one in self.of.names.get(id(array), ()) if one.startswith(f"{work.name}.")]
        own = inside[0] if inside else self.of.hide(array, f"{work.name}.{word}")
        return {"part": work.name, "y": own}


def setting(layer: Any, name: str) -> float | None:
    """A number among the layer's settings. What is switched off is not there."""
    value = getattr(layer, name, None)
    if isinstance(value, bool):
        return 1 if value else None
    return value if isinstance(value, int | float) else None


def is_array(value: Any) -> bool:
    """Of numbers that are settings too: one for each column."""
    return (isinstance(value, tuple) and bool(value) and isinstance(value[0], int | float)) or (
        hasattr(value, "dtype") and np.ndim(value) > 0
    )
