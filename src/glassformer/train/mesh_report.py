"""What lies where on a mesh of devices, and what a step sends between them; counted from the letters, without devices.

Bytes sent are those of rings, for each device: n devices reduce S bytes with 2 (n - 1) / n * S, and gather S bytes, or
reduce them to a part for each, with half of that. Not counted is what is small: the sums of the loss.

data     the gradient is reduced
fsdp     parameters are gathered, in forward and again in backward, and the gradient is reduced to a part for each
model    where a product sums over a split axis, its result is reduced: y in forward, dx in backward
"""

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jax

from glassformer.layers.contract import param_shapes
from glassformer.names import named_leaves
from glassformer.structure import Node, structure
from glassformer.tables import text_table
from glassformer.train.placement import RULES, Placement, head_widths, letters_of, parse_mesh
from glassformer.train.recipe import Recipe

WIDE = 4  # bytes of a float32
HEAD = ("parameter", "axes", "shape", "lies on", "times", "bytes per device")
WHOLE = "every device"


@dataclass(frozen=True)
class Row:
    """A parameter, or all that are alike in every layer of a stack."""

    name: str  # blocks.*.attn.w_q
    axes: str  # letters; nothing where the layer declares none
    shape: tuple[int, ...]
    on: tuple[str | None, ...]  # of each axis of the array, the axis of the mesh
    times: int
    bytes: int  # of all of them, on one device

    @property
    def letters(self) -> list[str]:
        """Of each axis; those of stacked layers have none in front."""
        words = self.axes.split()
        return [""] * (len(self.shape) - len(words)) + words

    @property
    def where(self) -> str:
        places = zip(self.letters, self.on, strict=True)
        return ", ".join(f"{letter} on {axis}" for letter, axis in places if axis) or WHOLE


@dataclass(frozen=True)
class Traffic:
    """What one device sends in one update."""

    axis: str
    what: str
    bytes: int


@dataclass(frozen=True)
class MeshReport:
    mesh: str
    devices: int
    batch: int
    accumulate: int
    rows: tuple[Row, ...]
    parameters: int  # bytes on one device
    state: int  # with what the optimiser remembers, and averaged weights
    whole: int  # the state on a single device
    traffic: tuple[Traffic, ...]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sent": self.sent}

    @property
    def sent(self) -> int:
        return sum(one.bytes for one in self.traffic)

    @property
    def undeclared(self) -> list[str]:
        """Parameters whose layers name no axes."""
        return [row.name for row in self.rows if not row.axes and row.shape]

    @property
    def undivided(self) -> list[str]:
        """Parameters with a letter that lies on an axis of this mesh, where it divides."""
        return [
            f"{row.name} over {axis}"
            for axis, size in parse_mesh(self.mesh).items()
            for row in self.rows
            if size > 1 and axis in RULES and axis not in row.on and set(row.letters) & set(RULES[axis])
        ]

    def table(self) -> str:
        cells = [
            [row.name, row.axes or "-", "x".join(map(str, row.shape)), row.where, f"{row.times}", f"{row.bytes:,}"]
            for row in self.rows
        ]
        lines = text_table(HEAD, cells, left=4, total=["total", "", "", "", "", f"{self.parameters:,}"])
        lines += [
            f"mesh {self.mesh}: {self.devices} devices; with the optimiser's state {self.state:,} bytes on each, "
            f"{self.whole:,} on one alone",
            "",
            *text_table(
                ["axis", f"what a device sends in an update of {self.accumulate} x {self.batch} samples", "bytes"],
                [[one.axis, one.what, f"{one.bytes:,}"] for one in self.traffic],
                left=2,
                total=["total", "", f"{self.sent:,}"],
            ),
        ]
        if self.undivided:
            lines.append(f"does not divide, so whole on every device: {', '.join(self.undivided)}")
        if self.undeclared:
            lines.append(f"no axis letters, so whole on every device: {', '.join(self.undeclared)}")
        return "\n".join(lines)


def mesh_report(recipe: Recipe, mesh: str) -> MeshReport:
    """Of a recipe, on a mesh that need not exist."""
    sizes = parse_mesh(mesh)
    placement = Placement(mesh, sizes, head_widths(recipe.model))
    placement.must_split(recipe.training.batch)
    params = param_shapes(recipe.network)
    optimiser = jax.eval_shape(recipe.learning.transformation(1, 1).init, params)
    state = (params, optimiser, params if recipe.training.ema else None)
    return MeshReport(
        mesh=mesh,
        devices=math.prod(sizes.values()),
        batch=recipe.training.batch,
        accumulate=recipe.training.accumulate,
        rows=tuple(rows_of(placement, params)),
        parameters=placement.bytes_stored(params),
        state=placement.bytes_stored(state),
        whole=Placement("", {}).bytes_stored(state),
        traffic=tuple(one for one in traffic_of(recipe, placement, params) if one.bytes),
    )


def rows_of(placement: Placement, params: Any) -> Iterator[Row]:
    alike: dict[tuple[Any, ...], int] = {}
    letters = named_leaves(letters_of(params))
    for name, leaf in named_leaves(params).items():
        on = tuple(placement.stored(letters[name], leaf.shape))
        row = re.sub(r"\.\d+\.", ".*.", name), letters[name], leaf.shape, on
        alike[row] = alike.get(row, 0) + 1
    for (name, axes, shape, on), times in alike.items():
        each = placement.bytes_on_device(shape, on, WIDE)
        yield Row(name, axes, shape, on, times, times * each)


def traffic_of(recipe: Recipe, placement: Placement, params: Any) -> Iterator[Traffic]:
    """Of one update, in which the gradients of `accumulate` batches are reduced one by one."""
    times, narrow = recipe.training.accumulate, 2 if recipe.engine.precision == "bf16" else WIDE
    data, fsdp, model = (placement.sizes.get(axis, 1) for axis in ("data", "fsdp", "model"))
    reduced = gathered = scattered = 0.0
    for leaf, letters in zip(*map(jax.tree.leaves, (params, letters_of(params))), strict=True):
        stored, at_use = placement.stored(letters, leaf.shape), placement.at_use(letters, leaf.shape)
        size = math.prod(leaf.shape) // math.prod(placement.sizes[axis] for axis in at_use if axis)
        if "fsdp" in tuple(stored):
            gathered += 2 * narrow * size * (fsdp - 1) / fsdp
            scattered += WIDE * size * (fsdp - 1) / fsdp
            reduced += WIDE * size / fsdp * 2 * (data - 1) / data
        else:
            together = data * fsdp
            reduced += WIDE * size * 2 * (together - 1) / together
    yield Traffic("data", "gradients, reduced", round(times * reduced))
    yield Traffic("fsdp", "parameters, gathered in forward and in backward", round(times * gathered))
    yield Traffic("fsdp", "gradients, reduced to a part for each", round(times * scattered))
    samples = recipe.training.batch / placement.batch_parts
    ring = 2 * (model - 1) / model
    forward, backward = products_of(placement, structure(recipe.model))
    yield Traffic("model", "y of products, reduced in forward", round(times * samples * ring * narrow * forward))
    yield Traffic("model", "dx of products, reduced in backward", round(times * samples * ring * narrow * backward))


def products_of(placement: Placement, model: Node) -> tuple[int, int]:
    """Numbers per sample that are reduced over the model axis, in forward and in backward."""
    forward = backward = 0
    for node in model.walk():
        inside = {id(value) for part in node.parts if isinstance(part, Node) for value in jax.tree.leaves(part.params)}
        letters = letters_of(node.params)
        given = [value for value in jax.tree.leaves(node.x) if not value.param and value.dtype.kind == "f"]
        sums = {"first": 0, "last": 0}
        for value, word in zip(*map(jax.tree.leaves, (node.params, letters)), strict=True):
            on = tuple(placement.at_use(word, value.shape))
            if id(value) not in inside and len(on) > 1 and "model" in on:
                sums["last" if on[-1] == "model" else "first"] += 1
        if sums["first"]:  # y = hidden @ w_down sums over F
            forward += math.prod(jax.tree.leaves(node.y)[0].shape)
        if given:  # dx = dhidden @ w_up^T sums over F, for every such matrix
            backward += sums["last"] * math.prod(given[0].shape)
        for value, word in zip(*map(jax.tree.leaves, (node.x, letters_of(node.x))), strict=True):
            if value.param and "model" in tuple(placement.at_use(word, value.shape)):  # a table read the other way
                backward += math.prod(given[0].shape)
    return forward, backward
