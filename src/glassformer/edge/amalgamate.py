"""Headers as one text: what is included comes first, and of our own headers only what is used."""

import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import EngineError
from glassformer.native.build import kernels

LOCAL = re.compile(r'^#include "(.+)"\n', re.MULTILINE)
SYSTEM = re.compile(r"^#include (<.+>)\n", re.MULTILINE)
GUARDED = re.compile(r"\A(.*?)#ifndef \w+_H\n#define \w+_H\n(.*)#endif\s*\Z", re.DOTALL)
DEFINED = re.compile(
    r"^(?:INLINE|APART|static)\b[^(=;]*?(\w+)[(\[]|^typedef [^{]*?(\w+);|\} (\w+);|^#define (\w+)|^enum \{ (\w+)",
    re.MULTILINE,
)


class Amalgam(NamedTuple):
    system: list[str]  # <math.h>
    text: str


def folder() -> Path:
    return Path(str(resources.files("glassformer.edge") / "c"))


def amalgamated(headers: Iterable[str], folders: Iterable[Path], calls: str) -> Amalgam:
    """All that `calls` use, in an order in which it compiles. Headers in `folders` are somebody's, and stay whole."""
    order: dict[Path, str] = {}
    for header in headers:
        visit(f"{header}.h", [folder(), *folders, kernels()], order)
    used, kept = words(calls), []
    for path, text in reversed(order.items()):
        match = GUARDED.match(text) if path.parent in (folder(), kernels()) else None
        comment, pieces = (match[1], pieces_of(LOCAL.sub("", match[2]))) if match else ("", [LOCAL.sub("", text)])
        found = []
        for piece in reversed(pieces):
            if not match or names(piece) & used:
                used |= words(piece)
                found.append(SYSTEM.sub("", piece))
        if found:
            kept += [*found, comment]
    text = "\n\n".join(piece.strip() for piece in reversed(kept) if piece.strip())
    system = [one for header in order.values() for one in SYSTEM.findall(header)]
    return Amalgam([one for one in sorted(set(system)) if one != "<math.h>" or "sqrtf" in text], text)


def visit(header: str, folders: list[Path], order: dict[Path, str]) -> None:
    path = next((found for place in folders if (found := place / header).is_file()), None)
    if path is None:
        raise EngineError(f"{header} lies in none of {', '.join(map(str, folders))}")
    if path not in order:
        text = path.read_text()
        for included in LOCAL.findall(text):
            visit(included, folders, order)
        order[path] = text


def pieces_of(text: str) -> list[str]:
    """A function, a type or a macro with the comment above it: what blank lines part, but not inside braces or #if."""
    pieces, depth = [""], 0
    for line in text.splitlines(keepends=True):
        depth += line.count("{") - line.count("}")
        depth += line.startswith("#if") - line.startswith("#endif")
        if line.strip() or depth:
            pieces[-1] += line
        else:
            pieces.append("")
    return [piece for piece in pieces if piece.strip()]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)))


def names(piece: str) -> set[str]:
    return {name for found in DEFINED.findall(piece) for name in found if name}
