"""C that every compiler takes without a word, under the warnings that the exported C promises to pass."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from glassformer.edge.objects import compiled
from glassformer.edge.targets import TARGETS, Target, missing

STRICT = ("-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Werror")  # -std=c99 is always there
COMPILERS = (*TARGETS.values(), Target("clang", "this machine", "clang"))


def strictly_compiled(sources: Iterable[Path], flags: Sequence[str] = ("-O2",)) -> list[str]:
    """Compile for every target whose compiler is here, with gcc and clang; a warning is an EngineError."""
    sources, present = list(sources), [target for target in COMPILERS if not missing(target)]
    for target in present:
        compiled(target, sources, (*STRICT, *flags))
    return [target.name for target in present]
