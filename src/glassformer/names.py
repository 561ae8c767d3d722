"""Dotted names: of the leaves of any tree, and of the values that flow through a model.

A name such as `blocks.0.attn.pattern` is spelled by the structure, never by hand, and is the same in params, cache,
gradient and tags. Layers call `tag` on each value worth looking at, and `at(name, layer)` wherever a layer is at work
inside another. A visitor sees the values, a watcher the layers; with neither, `tag` returns its argument and `at` only
labels the compiled operations for profilers.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, TypeVar, cast

import jax

from glassformer.errors import UnknownNameError

Value = TypeVar("Value")
L = TypeVar("L")
Direction = Literal["forward", "backward"]
UNSCOPED = "unscoped"  # the field for the cache of a layer that shares its parent's names, `at("", layer)`
Visitor = Callable[[str, Any], Any]  # (dotted name, value) -> the value to go on with


class Call(NamedTuple):
    """A layer at work under its name."""

    name: str  # dotted; of a layer that shares its parent's names, the parent's
    layer: Any
    direction: Direction
    params: Any
    given: Any  # forward: x; backward: dy
    cache: Any  # None in forward
    keywords: dict[str, Any]

    def run(self) -> Any:
        if self.direction == "forward":
            return self.layer.forward(self.params, self.given, **self.keywords)
        return self.layer.backward(self.params, self.cache, self.given)


Watcher = Callable[[Call], Any]  # runs the call and returns its result, (y, cache) or (dx, dparams)

_visitor: ContextVar[Visitor | None] = ContextVar("visitor", default=None)
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)
_path: ContextVar[tuple[str, ...]] = ContextVar("path", default=())


def tag(name: str, value: Value) -> Value:
    """Show `value` to the visitor under its dotted name, and go on with what the visitor returns."""
    visitor = _visitor.get()
    return value if visitor is None else visitor(".".join((*_path.get(), name)), value)


def at(name: str | int, layer: L) -> L:
    """The layer under its name: everything it tags is named `<name>.…`, and a watcher sees it at work.

    `at("", layer)` where a layer shares its parent's names.
    """
    return cast(L, _At(str(name), layer))


class _At:
    __slots__ = ("layer", "name")

    def __init__(self, name: str, layer: Any) -> None:
        self.name, self.layer = name, layer

    def forward(self, params: Any, x: Any, **keywords: Any) -> Any:
        return self._run("forward", params, x, None, keywords)

    def backward(self, params: Any, cache: Any, dy: Any) -> Any:
        return self._run("backward", params, dy, cache, {})

    def _run(self, direction: Direction, params: Any, given: Any, cache: Any, keywords: dict[str, Any]) -> Any:
        with scope(self.name):
            call = Call(".".join(_path.get()), self.layer, direction, params, given, cache, keywords)
            watcher = _watcher.get()
            return call.run() if watcher is None else watcher(call)


@contextmanager
def scope(name: str | int) -> Iterator[None]:
    """Everything tagged inside is named `<name>.…`; with an empty name, as outside."""
    parts = str(name).split(".") if name != "" else []
    token = _path.set((*_path.get(), *parts))
    try:
        with jax.named_scope("/".join(parts)) if parts else nullcontext():
            yield
    finally:
        _path.reset(token)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let `watcher` run every layer that is at work inside another; as for `visiting`, not in jitted functions."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@contextmanager
def visiting(visitor: Visitor) -> Iterator[None]:
    """Let `visitor` see, and replace, every tagged value.

    A function that was jitted earlier has been traced without the visitor: run the plain one.
    """
    visitor_token, path_token = _visitor.set(visitor), _path.set(())
    try:
        yield
    finally:
        _visitor.reset(visitor_token)
        _path.reset(path_token)


def is_visited() -> bool:
    """Whether there is a visitor. For `lax.scan`, whose body is traced once: its values are then tagged stacked."""
    return _visitor.get() is not None


def recording(into: dict[str, Any]) -> Visitor:
    """A visitor that writes every tagged value into `into` and changes nothing."""

    def record(name: str, value: Any) -> Any:
        into[name] = value
        return value

    return record


def gradient_name(name: str) -> str:
    """`blocks.0.attn.pattern` -> `blocks.0.attn.dpattern`."""
    head, _, last = name.rpartition(".")
    return f"{head}.d{last}" if head else f"d{last}"


def named_leaves(tree: Any) -> dict[str, Any]:
    """The leaves of a tree of NamedTuples, tuples and dicts, by dotted name and in order. Absent parts have no name."""
    return {_dotted(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def with_leaves(tree: Any, leaves: Mapping[str, Any]) -> Any:
    """The same tree with the named leaves replaced; a name the tree does not have is refused."""
    known = named_leaves(tree)
    for name in leaves:
        if name not in known:
            raise UnknownNameError(f"no leaf is called {name!r}{nearest(name, known)}")
    return jax.tree_util.tree_map_with_path(lambda path, leaf: leaves.get(_dotted(path), leaf), tree)


def nearest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """` (did you mean 'attn.w_q'?)` for an error message, or nothing where no known name is near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _dotted(path: tuple[Any, ...]) -> str:
    words = (jax.tree_util.keystr((entry,), simple=True) for entry in path)
    return ".".join(word for word in words if word != UNSCOPED)


def last_word(name: str) -> str:
    """What a dotted name calls its value.

    >>> last_word("blocks.0.attn.pattern")
    'pattern'
    """
    return name.rpartition(".")[2]
