"""Elements of HTML and SVG. A plain string inside one is text and is escaped; only what was made here is markup."""

from html import escape
from typing import Any

EMPTY = {"br", "meta", "hr"}


class Markup(str):
    """It can stand in the page as it is."""

    __slots__ = ()


def el(name: str, /, *inside: str | None, **attributes: Any) -> Markup:
    """
    >>> el("p", "a < b", el("b", "bold"), class_="x", data_seed=3)
    '<p class="x" data-seed="3">a &lt; b<b>bold</b></p>'
    """
    given = "".join(
        f' {attribute(key)}="{escape(value_of(value))}"' for key, value in attributes.items() if value != ""
    )
    if name in EMPTY:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(*inside)}</{name}>")


def join(*parts: str | None) -> Markup:
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts if part is not None))


def attribute(key: str) -> str:
    return "viewBox" if key == "viewBox" else key.rstrip("_").replace("_", "-")


def value_of(value: Any) -> str:
    """Tenths of a pixel are enough."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
