"""The plan before flashing: what every variant of a run takes of a device's memory, and which of them fits.

Arena, weights and the life of every buffer are known to the byte from the plan alone. Code and stack are the
compiler's: they are measured where that for the device is installed, and never guessed.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from glassformer.edge import boards
from glassformer.edge.export import c_name, covered, lora_of, smoothing_of
from glassformer.edge.layers import program_of
from glassformer.edge.learning import LearningSource
from glassformer.edge.lives import lives_of, steps_by_function
from glassformer.edge.objects import FLAGS, scratch, sizes
from glassformer.edge.plan import layout_of
from glassformer.edge.quantise import quantise, quantise_run
from glassformer.edge.stack import Bound, Linked
from glassformer.edge.targets import Target, missing
from glassformer.edge.targets import find as find_target
from glassformer.edge.vectors import drawn_samples, own_data, own_samples
from glassformer.edge.write import Source
from glassformer.errors import GlassformerError, SettingError
from glassformer.names import named_leaves
from glassformer.native.lower import title_of
from glassformer.predict.run import Run, load
from glassformer.structure import structure
from glassformer.train.optimiser import Optimiser
from glassformer.train.run_folder import RunFolder

Way = Literal["full", "lora", "bias", "head", "float", "int8"]
WAYS: tuple[Way, ...] = ("full", "lora", "bias", "head", "float", "int8")  # each asks for less than the one before
WORDS = {way: f"--train {way}" for way in WAYS[:4]} | {"float": "float", "int8": "--int8"}
UNITS = {"": 1, "K": 1024, "M": 1024 * 1024}


def bytes_of(text: str, option: str) -> int:
    """Of 64K, 2M or 65536; a K is 1,024.

    >>> bytes_of("64K", "--ram"), bytes_of("2m", "--flash")
    (65536, 2097152)
    """
    found = re.fullmatch(r"(\d+)([KM]?)", text.strip().upper())
    if not found or not int(found[1]):
        raise SettingError(f"export: {option} {text!r} is no size; expected 64K, 2M or 65536, say (K is 1,024 bytes)")
    return int(found[1]) * UNITS[found[2]]


@dataclass(frozen=True)
class Device:
    """What there is room in, and what the C is compiled for."""

    ram: int | None = None  # bytes; None: nobody said
    flash: int | None = None
    board: boards.Board | None = None
    target: Target | None = None
    flags: tuple[str, ...] = FLAGS

    @property
    def unmeasured(self) -> str:
        """Why code and stack are not measured; empty: they are."""
        if self.target is None:
            return f"glassformer compiles for no {self.board.processor}" if self.board else "no target"
        return missing(self.target, to_run=False)


def device_of(
    board: str | None = None,
    ram: str | None = None,
    flash: str | None = None,
    target: str | None = None,
    flags: str | None = None,
) -> Device:
    """--ram and --flash replace what the board has. Without a board the target is an M4."""
    known = boards.find(board) if board else None
    chosen = find_target(target) if target else known.target if known else find_target("m4")
    if chosen and not chosen.qemu:
        raise SettingError(f"export: --target {chosen.name} has no stack or flash to plan for; name a device's")
    return Device(
        bytes_of(ram, "--ram") if ram else known and known.ram,
        bytes_of(flash, "--flash") if flash else known and known.flash,
        known,
        chosen,
        FLAGS if flags is None else tuple(flags.split()),
    )


class Measured(NamedTuple):
    """What the compiler and the linker make of a source, all its functions and the library's that they call."""

    flash: int  # bytes
    static: int  # RAM of the C library's own
    stack: dict[str, Bound]  # by function


def measured(source: Source, target: Target, flags: tuple[str, ...]) -> Measured:
    folder = Path(tempfile.mkdtemp(dir=scratch()))
    for name, text in source.files.items():
        (folder / name).write_text(text)
    entries = {name: f"{source.name}_{name}" for name in source.api}
    linked = Linked.of(target, [folder / f"{source.name}.c"], [*entries.values()], flags)
    found = sizes(target, [linked.path])
    return Measured(found.flash, found.ram, {name: linked.bound(entry) for name, entry in entries.items()})


@dataclass(frozen=True)
class Variant:
    """One way of putting a model on a device, and what it takes there, in bytes."""

    way: Way
    model: Any
    source: Source
    device: Device

    @property
    def arena(self) -> int:
        return self.source.arena

    @property
    def input(self) -> int:
        """The caller's sample."""
        given = self.source.layout.program.input
        return given.size * (1 if given.is_bytes else 4)

    @property
    def logits(self) -> int:
        """The caller's, too."""
        return 4 * self.source.layout.program.logits.width  # pyright: ignore[reportOptionalMemberAccess]

    @property
    def weights(self) -> int:
        return sum(self.source.constant_bytes.values())

    @property
    def multiply_adds(self) -> int:
        """Of a prediction, or of a step of training."""
        source = self.source
        return source.lesson.multiply_adds if isinstance(source, LearningSource) else source.layout.multiply_adds

    @cached_property
    def measured(self) -> Measured | None:
        device = self.device
        if device.unmeasured or device.target is None:
            return None
        return measured(self.source, device.target, device.flags)

    @property
    def stack(self) -> int | None:
        """Of the function that takes the most."""
        return max(one.bytes for one in self.measured.stack.values()) if self.measured else None

    @property
    def code(self) -> int | None:
        return self.measured.flash - self.weights if self.measured else None

    @property
    def planned(self) -> tuple[int, int]:
        """RAM and flash that are known without a compiler."""
        return self.arena + self.input + self.logits, self.weights

    @property
    def ram(self) -> int:
        """As far as it is known."""
        return self.planned[0] + (self.measured.static + (self.stack or 0) if self.measured else 0)

    @property
    def flash(self) -> int:
        return self.weights + (self.code or 0)

    @cached_property
    def shortage(self) -> str:
        """What the device has too little of; empty: it fits, as far as it is known."""
        return too_little(self.device, *self.planned) or too_little(self.device, self.ram, self.flash)

    @property
    def facts(self) -> dict[str, Any]:
        """For programs."""
        stack = None
        if self.measured:
            stack = {name: {"bytes": one.bytes, "path": one.path} for name, one in self.measured.stack.items()}
        return {
            "variant": self.way,
            "fits": not self.shortage,
            "shortage": self.shortage,
            "arena": self.arena,
            "stack": stack,
            "static": self.measured.static if self.measured else None,
            "input": self.input,
            "logits": self.logits,
            "ram": self.ram,
            "weights": self.source.constant_bytes,
            "code": self.code,
            "flash": self.flash,
            "multiply_adds": self.multiply_adds,
            "steps": steps_by_function(self.source),
            "buffers": [life._asdict() for life in lives_of(self.source)],
        }


def too_little(device: Device, ram: int, flash: int) -> str:
    needs = [("RAM", ram, device.ram), ("flash", flash, device.flash)]
    return " and ".join(f"{n:,} bytes of {name}, of {has:,}" for name, n, has in needs if has is not None and n > has)


class Impossible(NamedTuple):
    way: Way
    reason: str

    @property
    def facts(self) -> dict[str, Any]:
        return {"variant": self.way, "fits": False, "reason": self.reason}


class Nearest(NamedTuple):
    """A variant that fits where what was asked for does not."""

    variant: Variant
    depth: int | None  # of the model's own; None: the run's
    accuracy: float | None  # 0 to 1, on test data; None: no run of it is there
    run: str

    def __str__(self) -> str:
        one = self.variant
        words = WORDS[one.way] if self.depth is None else f"{WORDS[one.way]} at depth {self.depth}"
        as_exported = "" if one.way in ("float", "int8") else " as exported"  # what it learns there nobody knows
        known = (
            f"test accuracy {self.accuracy:.2%}{as_exported} ({self.run})".replace("%", " %")
            if self.accuracy is not None
            else "no run of it is here"
        )
        return f"{words}: {one.ram:,} bytes of RAM, {one.flash:,} of flash, {known}"

    @property
    def facts(self) -> dict[str, Any]:
        found = {"depth": self.depth, "accuracy": self.accuracy, "run": self.run or None}
        return {key: value for key, value in self.variant.facts.items() if key not in ("steps", "buffers")} | found


@dataclass(frozen=True)
class Budget:
    """All variants of a run on a device."""

    run: Run
    device: Device
    optimiser: Optimiser
    batch: int = 1
    keep_float: Sequence[str] = ()  # in int8

    @property
    def is_limited(self) -> bool:
        return self.device.ram is not None or self.device.flash is not None

    @cached_property
    def variants(self) -> list[Variant | Impossible]:
        return [self.of_run(way) for way in ("float", "int8", *reversed(WAYS[:4]))]

    def of_run(self, way: Way) -> Variant | Impossible:
        return self.variant(way, self.run.model, lambda: self.run.params)

    def variant(self, way: Way, model: Any, params: Callable[[], Any]) -> Variant | Impossible:
        try:
            return Variant(way, model, self.source(way, model, params()), self.device)
        except GlassformerError as error:
            if way == "float" or (way == "int8" and isinstance(error, SettingError)):  # --keep-float
                raise
            return Impossible(way, str(error))

    def source(self, way: Way, model: Any, params: Any) -> Source:
        name, title = c_name(self.run.path.resolve().name), title_of(structure(model))
        if way == "int8":
            found = quantise(model, params, (own_samples(self.run) or drawn_samples(self.run))[0], self.keep_float)
            return Source(name, title, found.layout(), found.weights)
        weights = {leaf: np.asarray(array) for leaf, array in named_leaves(params).items()}
        layout = covered(self.run) if model is self.run.model else layout_of(program_of(model))
        if way == "float":
            return Source(name, title, layout, weights)
        smoothing, lora = smoothing_of(self.run), lora_of(self.run)
        return LearningSource.of(name, title, model, weights, way, self.optimiser, self.batch, smoothing, lora)

    @cached_property
    def fitting(self) -> list[Variant]:
        return [one for one in self.variants if isinstance(one, Variant) and not one.shortage]

    def must_fit(self, way: Way, source: Source) -> None:
        """Refuse what does not, and say what would."""
        if not self.is_limited:
            return
        if shortage := Variant(way, self.run.model, source, self.device).shortage:
            near = self.nearest(way)
            advice = f"the nearest that does is {near}" if near else "no smaller variant does"
            raise SettingError(f"{self.run.path}: {WORDS[way]} does not fit: it takes {shortage}; {advice}")

    def nearest(self, asked: Way) -> Nearest | None:
        """What fits and is closest to what was asked for: the same model otherwise, then one with fewer blocks."""
        for depth, model in self.shallower():
            for way in WAYS[WAYS.index(asked) + (depth is None) :]:
                one = self.of_run(way) if depth is None else self.variant(way, model, lambda m=model: drawn(m))
                if isinstance(one, Variant) and not one.shortage:
                    return Nearest(one, depth, *self.accuracy(way, model))
        return None

    def shallower(self) -> Iterator[tuple[int | None, Any]]:
        """The run's own model, and those of less depth, where the model has one."""
        model: Any = self.run.model
        yield None, model
        if is_dataclass(model) and any(one.name == "depth" for one in fields(model)):
            for depth in range(model.depth - 1, 0, -1):  # pyright: ignore[reportAttributeAccessIssue]
                yield depth, replace(model, depth=depth)  # pyright: ignore[reportArgumentType]

    def accuracy(self, way: Way, model: Any) -> tuple[float | None, str]:
        """On test data, of a run that has this model and these data; and its name."""
        for run in self.runs_of(model):
            found = int8_accuracy(run, self.keep_float) if way == "int8" else run.metrics.get("test_accuracy")
            if found is not None:
                return found, run.path.resolve().name
        return None, ""

    def runs_of(self, model: Any) -> Iterator[Run]:
        """This one, or one that lies beside it."""
        if model is self.run.model:
            yield self.run
            return
        for folder in sorted(self.run.path.resolve().parent.iterdir()):
            try:
                recipe = RunFolder(folder).recipe() if (folder / "metrics.json").is_file() else None
                if recipe and (recipe.model, recipe.data) == (model, self.run.recipe.data):
                    yield load(folder)
            except GlassformerError:  # damaged, or of a model that is not known here
                continue


def int8_accuracy(run: Run, keep_float: Sequence[str]) -> float | None:
    """Of what a device would answer, where the run's data are on this machine."""
    data = own_data(run)
    if data is None or run.gives_numbers:
        return None
    x, labels = run.arrays(data.test)
    return float((quantise_run(run, keep_float=keep_float).logits(x).argmax(axis=-1) == labels).mean())


def drawn(model: Any) -> Any:
    """Weights of a model that nobody has trained: they take as many bytes."""
    return jax.tree.map(np.asarray, model.init(jax.random.key(0)))
