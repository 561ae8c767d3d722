"""Own parts, by name: layers, models, inputs, tasks, losses, data readers, C and ONNX, without touching the project.

    from glassformer import register

    @register.model("two-tower")
    @dataclass(frozen=True)
    class TwoTower(Network): …

A name becomes known when the code that registers it is imported: in Python, by `load_code(file)`, or from an installed
package that names it in an entry point (group `glassformer.models`, `.layers`, `.inputs`, `.tasks`, `.losses`,
`.parts`, `.data`, `.metrics`; in `.kernels` and `.onnx` the name is that of the layer, `package.module.Layer`), which
is imported when the name is looked up. Nothing else ever is: a run folder can name what is installed or given, and no
more.
"""

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

from glassformer.errors import ContractError, FileError, SettingError
from glassformer.reading import expanded

Thing = TypeVar("Thing")

KINDS = {  # what a recipe can name by `kind`, and the entry points' groups
    "model": "glassformer.models",
    "layer": "glassformer.layers",
    "input": "glassformer.inputs",
    "task": "glassformer.tasks",
    "loss": "glassformer.losses",
    "part": "glassformer.parts",
}
OF_LAYERS = {"kernel": "glassformer.kernels", "onnx": "glassformer.onnx"}  # how a layer is written elsewhere
DECORATED = {**OF_LAYERS, "metric": "glassformer.metrics"}  # whose module has `@register.kernel(Layer)` in it
GROUPS = {**KINDS, "data": "glassformer.data", **DECORATED}


class Kernel(NamedTuple):
    """How a layer is computed in C."""

    entry: Callable[..., Any]  # native/kernels.py: it writes the calls into a plan
    include: Path | None  # where its headers lie; None: glassformer's own folder
    reads_input: bool  # given the samples as they come, where the layer is the first one
    keywords: tuple[str, ...] = ()  # of the layer's forward that the entry understands, where they are not None


class OwnMetric(NamedTuple):
    """What a study compares, and how it is computed."""

    metric: Any  # lab/metric.py: Metric
    entry: Callable[..., float]  # (outputs, labels) -> the raw number


_registered: dict[str, dict[str, Any]] = {what: {} for what in GROUPS}
_loaded: set[EntryPoint] = set()
_code: dict[Path, ModuleType] = {}


class Register:
    """Decorators, one for each kind of part; each gives back what it is put on."""

    def model(self, name: str) -> Callable[[Thing], Thing]:
        """A model: a `Network`. `--set model.kind=NAME`."""
        return _adder("model", name)

    def layer(self, name: str) -> Callable[[Thing], Thing]:
        """A layer that is a setting of a model."""
        return _adder("layer", name)

    def input(self, name: str) -> Callable[[Thing], Thing]:
        """What a model reads: an `Input`."""
        return _adder("input", name)

    def task(self, name: str) -> Callable[[Thing], Thing]:
        """What a model is trained to do: a `Task`. `--task NAME`."""
        return _adder("task", name)

    def loss(self, name: str) -> Callable[[Thing], Thing]:
        """What is made small: a `Loss`. `--set training.loss=NAME`."""
        return _adder("loss", name)

    def part(self, name: str) -> Callable[[Thing], Thing]:
        """Any other dataclass that a setting can be."""
        return _adder("part", name)

    def data(self, name: str) -> Callable[[Thing], Thing]:
        """A reader of data, `(word: str) -> Dataset | Texts`, for a name or a file's ending, `.parquet`."""
        return _adder("data", name)

    def kernel(
        self,
        layer: type,
        include: str | Path | None = None,
        *,
        reads_input: bool = False,
        keywords: tuple[str, ...] = (),
    ) -> Callable[[Thing], Thing]:
        """The C of a layer for the native engine: above the function that writes its calls into a plan.

        `include` is the folder of the headers that the calls name. docs/native.md, "A kernel of your own".
        """

        def add(entry: Thing) -> Thing:
            folder = None if include is None else Path(include).resolve()
            _add("kernel", _origin(layer), Kernel(cast(Callable[..., Any], entry), folder, reads_input, keywords))
            return entry

        return add

    def metric(self, metric: Any) -> Callable[[Thing], Thing]:
        """What a study compares, a `lab.metric.Metric`: above the function of (outputs, labels) that computes it."""

        def add(entry: Thing) -> Thing:
            _add("metric", metric.name, OwnMetric(metric, cast(Callable[..., float], entry)))
            return entry

        return add

    def onnx(self, layer: type) -> Callable[[Thing], Thing]:
        """A layer in ONNX: above the function that writes its nodes into a graph. docs/own-models.md, "ONNX"."""
        return _adder("onnx", _origin(layer))


register = Register()


def _adder(what: str, name: str) -> Callable[[Thing], Thing]:
    def add(thing: Thing) -> Thing:
        _add(what, name, thing)
        return thing

    return add


def _add(what: str, name: str, thing: Any) -> None:
    there = _registered[what].get(name, thing)
    if _origin(there) != _origin(thing):  # the same one again: a cell of a notebook was run twice
        raise SettingError(
            f"register.{what}({name!r}): {_origin(thing)} came, and {_origin(there)} has this name; choose another"
        )
    _registered[what][name] = thing


def _origin(thing: Any) -> str:
    """Where it is defined: orchard.layers.ChannelGain. Of a kernel or a metric, its function."""
    thing = thing.entry if isinstance(thing, Kernel | OwnMetric) else thing
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', thing)}"


def find(what: str, name: str) -> Any:
    """What is registered under a name; else what an installed package has under it, imported now; else None."""
    for point in _entry_points(what):
        if point.name == name:
            _load(what, point)
    return _registered[what].get(name)


def names(what: str) -> list[str]:
    """All that `find` finds. Nothing is imported."""
    return [*dict.fromkeys([*_registered[what], *(point.name for point in _entry_points(what))])]


def registered(what: str) -> dict[str, Any]:
    """What is there already, by name."""
    return dict(_registered[what])


def of_code(what: str) -> dict[str, Any]:
    """What the files of `load_code` have registered, by name."""
    modules = {module.__name__ for module in _code.values()}
    return {name: thing for name, thing in _registered[what].items() if thing.__module__ in modules}


def kind_of(cls: type) -> str | None:
    """The name of a class; None where it has none."""
    for things in (_registered[what] for what in KINDS):
        for name, thing in things.items():
            if thing is cls:
                return name
    package = cls.__module__.partition(".")[0]
    for what in KINDS:
        for point in _entry_points(what):
            if point.module.partition(".")[0] == package and point not in _loaded:  # it is imported already
                _load(what, point)
                return kind_of(cls)
    return None


def kernel_of(layer: type) -> Kernel | None:
    """The C of a layer class."""
    return find("kernel", _origin(layer))


def onnx_of(layer: type) -> Callable[..., Any] | None:
    """What writes a layer class into an ONNX graph."""
    return find("onnx", _origin(layer))


def _load(what: str, point: EntryPoint) -> None:
    if point in _loaded:
        return
    try:
        thing = point.load()
    except Exception as error:
        package = point.dist.name if point.dist else point.module
        raise SettingError(
            f"{what} {point.name!r}: the installed package {package} cannot give it: {type(error).__name__}: {error}"
        ) from error
    _loaded.add(point)
    if what not in DECORATED:
        _add(what, point.name, thing)


@lru_cache
def _entry_points(what: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUPS[what]))


def load_code(path: str | Path) -> ModuleType:
    """Import a Python file, so that what it registers is known. The same file is imported once."""
    file = expanded(str(path)).resolve()
    if file in _code:
        return _code[file]
    if not file.is_file():
        raise FileError(f"{path}: there is no such file; expected a Python file that registers what it defines")
    # the same in every process that loads this file, and no other file's
    name = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ContractError(f"{path}: not a Python file; its name should end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses, type hints and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ContractError(
            f"{path}: importing it failed: {type(error).__name__}: {error}{_line(file, error)}"
        ) from error
    _code[file] = module
    return module


def loaded_code() -> tuple[Path, ...]:
    """The files that `load_code` has imported, in order: another process is given the same."""
    return tuple(_code)


def _line(file: Path, error: Exception) -> str:
    """Where in the file it went wrong."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f" (line {lines[-1].lineno}: {lines[-1].line})" if lines else ""
