"""Dotted names of trees and of values in flight."""

from typing import NamedTuple

import pytest

from glassformer.errors import UnknownNameError
from glassformer.names import gradient_name, named_leaves, recording, scope, tag, visiting, with_leaves


class Inner(NamedTuple):
    w: int
    b: int | None


class Outer(NamedTuple):
    first: Inner
    blocks: tuple[Inner, ...]


TREE = Outer(first=Inner(w=1, b=None), blocks=(Inner(w=2, b=3), Inner(w=4, b=5)))


def test_leaves_are_named_by_the_structure_and_absent_parts_have_no_name() -> None:
    assert named_leaves(TREE) == {
        "first.w": 1,
        "blocks.0.w": 2,
        "blocks.0.b": 3,
        "blocks.1.w": 4,
        "blocks.1.b": 5,
    }
    assert named_leaves(7) == {"": 7}
    assert named_leaves({"a": (1, 2)}) == {"a.0": 1, "a.1": 2}


def test_leaves_are_replaced_by_name() -> None:
    changed = with_leaves(TREE, {"blocks.1.b": 50})
    assert changed == TREE._replace(blocks=(TREE.blocks[0], Inner(w=4, b=50)))


def test_an_unknown_leaf_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"no leaf is called 'block.1.b' \(did you mean 'blocks.1.b'\?\)"):
        with_leaves(TREE, {"block.1.b": 50})


def test_outside_a_visit_tag_returns_its_argument() -> None:
    value = object()
    with scope("blocks"), scope(0):
        assert tag("pattern", value) is value


def test_a_visitor_sees_dotted_names_and_may_replace_values() -> None:
    seen: dict[str, int] = {}
    with visiting(recording(seen)):
        tag("x", 1)
        with scope("blocks"), scope(0):
            tag("y", 2)
        tag("z", 3)
    assert seen == {"x": 1, "blocks.0.y": 2, "z": 3}
    with visiting(lambda name, value: 10 * value if name == "a.x" else value), scope("a"):
        assert (tag("x", 1), tag("y", 1)) == (10, 1)


def test_scopes_and_visits_close_after_an_error() -> None:
    seen: dict[str, int] = {}
    with pytest.raises(ZeroDivisionError), visiting(recording(seen)), scope("broken"):
        raise ZeroDivisionError
    with visiting(recording(seen)):
        tag("x", 1)
    assert seen == {"x": 1}
    tag("y", 2)
    assert "y" not in seen


def test_a_visit_starts_at_the_top() -> None:
    seen: dict[str, int] = {}
    with scope("outside"), visiting(recording(seen)):
        tag("x", 1)
    assert seen == {"x": 1}


def test_gradient_names() -> None:
    assert gradient_name("x") == "dx"
    assert gradient_name("blocks.0.attn.pattern") == "blocks.0.attn.dpattern"
