"""The folder of an exported model: C, an example, a test, and what make, CMake, Arduino and ESP-IDF read.

Its texts are templates in exported/. A folder is written whole or not at all; one that is there is replaced only where
nothing in it was edited or added since it was written, but for build/.
"""

import contextlib
import hashlib
import json
import re
import secrets
import shutil
import textwrap
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import __version__
from glassformer.edge.desk import given_as
from glassformer.edge.learning import HEADER, LearningSource
from glassformer.edge.targets import find
from glassformer.edge.vectors import Training, Vectors
from glassformer.edge.write import Source, wrapped
from glassformer.errors import FileError
from glassformer.files import ABANDONED, PART, made, write_whole
from glassformer.native.write import number, shape_text

MANIFEST = "glassformer.json"
BUILT = "build"  # by make, in the folder
CONDITION = re.compile(r"^@if (\w+)@\n(.*?)(?:^@else@\n(.*?))?^@end@\n", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"@(\w+)@")


@dataclass(frozen=True)
class Folder:
    """What is in it, by path."""

    source: Source
    vectors: Vectors
    classes: tuple[str, ...]  # of a regression, the names of its numbers
    gives_numbers: bool = False
    training: Training | None = None
    rate: float = 0.0
    fingerprint: str = ""  # of the run's weights: desk.c says whose numbers it sends

    @property
    def weights(self) -> int:
        """Bytes."""
        return sum(array.nbytes for array in self.source.weights.values())

    @property
    def facts(self) -> dict[str, Any]:
        """What programs may want to know of it."""
        learns = {}
        if isinstance(self.source, LearningSource):
            trained = self.source.lesson.trained
            learns = {"optimiser": self.source.optimiser.name, "batch": self.source.batch, "trained": [*trained]}
        return {
            "name": self.source.name,
            "arena": self.source.arena,
            "weights": self.weights,
            "multiply_adds": self.source.layout.multiply_adds,
            "vectors": self.vectors.origin,
            **learns,
        }

    @property
    def files(self) -> dict[str, str]:
        texts = {f"src/{name}": text for name, text in self.source.files.items()}
        texts |= {"vectors.h": self.expected(), "examples/predict/sample.h": self.sample()}
        texts |= {path: self.filled(file.read_text()) for path, file in templates()}
        digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(texts.items())}
        manifest = {"glassformer": __version__, **self.facts, "files": digests}
        return texts | {MANIFEST: json.dumps(manifest, indent=1) + "\n"}

    def filled(self, text: str) -> str:
        at_once = isinstance(self.source, LearningSource) and self.source.at_once
        conditions = {
            "train": self.training is not None,
            "at_once": at_once,
            "gathers": self.training is not None and not at_once,
            "classes": not self.gives_numbers,
            "bytes": self.source.layout.program.input.is_bytes,
        }
        text = CONDITION.sub(lambda found: found[2] if conditions[found[1]] else found[3] or "", text)
        words = self.words
        return PLACEHOLDER.sub(lambda found: words[found[1]], text)

    @property
    def words(self) -> dict[str, str]:
        """What stands in the templates between two @."""
        source, given = self.source, self.source.layout.program.input
        words = {
            "name": source.name,
            "NAME": source.upper,
            "title": source.title,
            "version": __version__,
            "arena": str(source.arena),
            "weights": str(self.weights),
            "parameters": f"{sum(array.size for array in source.weights.values()):,}",
            "multiply_adds": f"{source.layout.multiply_adds:,}",
            "inputs": f"{given.c_type} {shape_text(given.shape)}",
            "c_type": given.c_type,
            "given": given_as(given.is_bytes),
            "fingerprint": self.fingerprint,
            "classes": ", ".join(map(in_markdown, self.classes)),
            "m4_flags": " ".join(find("m4").flags),
            "vectors": f"{len(self.vectors.x)} samples",
            "origin": self.vectors.origin,
            "truth": self.vectors.truth,
            "allowed": number(self.vectors.allowed),
            "in_arena": "",
            "compared": "",
            "kept": "",
            "desk_learns": "",
        }
        if isinstance(source, LearningSource) and self.training is not None:
            steps = len(self.training.losses)
            words |= {
                "in_arena": ", and the weights that are trained",
                "compared": f", and {steps} steps of training: losses, and what becomes of every trained weight",
                "kept": " but in the arena",
                "desk_learns": ", loss and gradients",
                "trained": ", ".join(f"`{name}`" for name in source.lesson.trained),
                "optimiser": source.optimiser.name,
                "when": "at once"
                if source.at_once
                else f"after every {source.batch}"
                if source.batch > 1
                else "after each",
                "batch": str(source.batch),
                "rate": number(self.rate),
                "saved": f"{HEADER + 4 * source.lesson.parameters:,}",
                "header": str(HEADER),
                "gradients": gradient_table(source),
            }
        return words

    def expected(self) -> str:
        """vectors.h: a header for one source, test.c."""
        given, x, logits = self.source.layout.program.input, self.vectors.x, self.vectors.logits
        parts = [
            f"/* {self.vectors.origin}; what Python makes of them */",
            f"enum {{ VECTORS = {len(x)} }};",
            table(f"{given.c_type} samples[VECTORS][{given.size}]", x),
            table(f"float expected_logits[VECTORS][{logits.shape[1]}]", logits),
        ]
        if self.training is not None:
            labels, losses, weights = self.training
            flat = np.concatenate([array.ravel() for array in weights.values()])
            parts[0] += "\n#include <math.h> /* NAN: not compared, for it depends on rounding */"
            parts += [
                array_of("int labels[VECTORS]", labels),
                f"enum {{ STEPS = {len(losses)} }};",
                array_of("float expected_losses[STEPS]", losses),
                array_of(f"float expected_trained[{flat.size}]", flat),
            ]
        return "\n\n".join(parts) + "\n"

    def sample(self) -> str:
        """sample.h: of the examples."""
        given, names = self.source.layout.program.input, map(in_c, self.classes)
        parts = [
            f"/* {self.vectors.origin}: the first */\n#include <stdint.h>",
            f"static const char *const classes[] = {{{', '.join(names)}}};",
            array_of(f"{given.c_type} sample[{given.size}]", self.vectors.x[0]),
            *([] if self.gives_numbers else [f"static const int label = {self.vectors.labels[0]};"]),
        ]
        return "\n\n".join(parts) + "\n"


def gradient_table(source: LearningSource) -> str:
    """Name, first number and how many, of trained weights that are the model's own: not the thin matrices of lora."""
    lines, begin = [], 0
    for name, shape in source.lesson.trained.items():
        if name in source.layout.program.params:
            lines.append(f'        {{"{name}", {begin}, {prod(shape)}}},')
        begin += prod(shape)
    return "\n".join(lines)


def templates() -> list[tuple[str, Traversable]]:
    """Paths in the folder, and the texts."""

    def below(place: Traversable, path: str) -> Iterable[tuple[str, Traversable]]:
        for one in sorted(place.iterdir(), key=lambda one: one.name):
            if one.is_dir():
                yield from below(one, f"{path}{one.name}/")
            else:
                yield f"{path}{one.name}", one

    return list(below(resources.files("glassformer.edge") / "exported", ""))


def table(declared: str, rows: np.ndarray) -> str:
    lines = ",\n".join(f"    {{{numbers(row)}}}" for row in rows)
    return f"static const {declared} = {{\n{lines},\n}};"


def array_of(declared: str, array: np.ndarray) -> str:
    return f"static const {declared} = {{\n     {numbers(array)}}};"


def numbers(array: np.ndarray) -> str:
    if np.issubdtype(array.dtype, np.integer):
        return "\n     ".join(textwrap.wrap(", ".join(map(str, array.ravel().tolist())), 110))
    return wrapped(array)


def in_c(text: str) -> str:
    """A string literal: bytes that are not plain ASCII by number, and no trigraphs."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode())
    return f'"{"".join(plain)}"'


def in_markdown(text: str) -> str:
    return "`" + " ".join(text.replace("`", "'").split()) + "`"


def write(out: Path, files: dict[str, str]) -> None:
    """A temporary folder beside it is renamed when all is written."""
    out = out.expanduser().resolve()
    must_be_replaceable(out)
    with made(out.parent):
        remove_abandoned(out)
        temporary, old = (out.with_name(f".{out.name}.{secrets.token_hex(8)}{PART}") for _ in range(2))
        try:
            for path, text in files.items():
                write_whole(temporary / path, text)
            if out.exists():
                out.rename(old)
            temporary.rename(out)
        except OSError as error:
            raise FileError(f"{out}: cannot be written: {error.strerror or error}; choose another folder") from None
        finally:
            if old.exists() and not out.exists():
                old.rename(out)
            for folder in (temporary, old):
                shutil.rmtree(folder, ignore_errors=True)


def must_be_replaceable(out: Path) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise FileError(f"{out}: is there, and is no folder; choose another name")
    if out == Path.cwd():
        raise FileError(f"{out}: is the current folder, which cannot be replaced; name another")
    files = [path for path in sorted(out.rglob("*")) if path.is_file() or path.is_symlink()]
    known = manifest_of(out)
    for path in files:
        name = path.relative_to(out).as_posix()
        if (name == MANIFEST and known) or name.startswith(f"{BUILT}/"):
            continue
        if not known:
            raise FileError(f"{out}: holds {name}, and was not written by `glassformer export --to c`; choose another")
        if path.is_symlink() or hashlib.sha256(path.read_bytes()).hexdigest() != known.get(name):
            what = "changed" if name in known else "added"
            raise FileError(f"{out}: {name} was {what} after the export, and would be lost; choose another folder")


def manifest_of(out: Path) -> dict[str, str]:
    """Checksums by path; nothing where no export was written."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        found = json.loads((out / MANIFEST).read_text())["files"]
        return found if isinstance(found, dict) else {}
    return {}


def remove_abandoned(out: Path) -> None:
    """What killed exports left beside it; young ones may be under way."""
    with contextlib.suppress(OSError):
        for left in out.parent.iterdir():
            ours = left.name.startswith(f".{out.name}.") and left.name.endswith(PART)
            if ours and time.time() - left.stat().st_mtime > ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
