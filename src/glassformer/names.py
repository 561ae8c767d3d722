"""Dotted names: of the leaves of any tree, and of the values that flow through a model.

A name such as `blocks.0.attn.pattern` is spelled by the structure, never by hand, and is the same in params, cache,
gradient and tags. Layers call `tag` on each value worth looking at; containers open a `scope` around each part.
With nobody visiting, `tag` returns its argument and `scope` only labels the compiled operations for profilers.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import jax

from glassformer.errors import UnknownNameError

Value = TypeVar("Value")
Visitor = Callable[[str, Any], Any]  # (dotted name, value) -> the value to go on with

_visitor: ContextVar[Visitor | None] = ContextVar("visitor", default=None)
_path: ContextVar[tuple[str, ...]] = ContextVar("path", default=())


def tag(name: str, value: Value) -> Value:
    """Show `value` to the visitor under its dotted name, and go on with what the visitor returns."""
    visitor = _visitor.get()
    return value if visitor is None else visitor(".".join((*_path.get(), name)), value)


@contextmanager
def scope(name: str | int) -> Iterator[None]:
    """Everything tagged inside is named `<name>.…`."""
    token = _path.set((*_path.get(), str(name)))
    try:
        with jax.named_scope(str(name)):
            yield
    finally:
        _path.reset(token)


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
    """Whether anyone is looking. For loops that compile their body once, and must hand out its values stacked."""
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
    return ".".join(jax.tree_util.keystr((entry,), simple=True) for entry in path)


def last_word(name: str) -> str:
    """What a dotted name calls its value.

    >>> last_word("blocks.0.attn.pattern")
    'pattern'
    """
    return name.rpartition(".")[2]
