"""The weights of a text model as C reads them: matrices in panels, of float32, bf16 or int8, one array of bytes.

int8 is groups of 64 numbers along the input with one scale each (native/c/quantised_matmul.h): 1.06 bytes a weight. It
is made in a second and kept in the run folder, under the hash of the weights that it was made from.
"""

import ctypes
import hashlib
from concurrent.futures import ThreadPoolExecutor
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from glassformer.cores import cores
from glassformer.errors import FileError
from glassformer.files import write_whole
from glassformer.native.build import Notice
from glassformer.native.engine import address, aligned, must_mirror
from glassformer.native.text_model import PARTS, Parts, TextModel, Weight
from glassformer.reading import read_bytes

Kind = Literal["float32", "bf16", "int8"]
KINDS: tuple[Kind, ...] = ("float32", "bf16", "int8")  # as panels.h counts them
CACHE = "weights-int8.bin"  # in the run folder
MAGIC = b"glassformer int8 weights, 1\n".ljust(64, b" ")
LINE = 64  # bytes: parts begin on a line of memory


class Packing(ctypes.Structure):
    """weight_panels.h's `packing`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("to", "w")),
        *((name, ctypes.c_int64) for name in ("row", "column")),
        *((name, ctypes.c_int32) for name in ("K", "O", "kind", "threads")),
    )


class Packed(NamedTuple):
    bytes: np.ndarray  # uint8
    parts: np.ndarray  # int64 (depth + 1, parts of a block): where each begins; -1: it has none
    matrices: int  # weights in matrices, that every token is multiplied with


def packed(
    library: ctypes.CDLL, text: TextModel, leaves: dict[str, Any], kind: Kind, folder: Path | None, notice: Notice
) -> Packed:
    """`folder` is where int8 is looked for, and kept."""
    must_mirror(Packing, library.gf_packing_size())
    library.gf_bytes_of_matrix.restype = ctypes.c_int64
    parts, size = layout(library, text, kind)
    matrices = sum(prod(one.shape) for row in rows_of(text) for part in row.values() for one in part if is_matrix(one))
    path = folder / CACHE if folder is not None and kind == "int8" else None
    key = fingerprint(text, leaves, library.gf_panel()) if path else b""
    found = read_cache(path, key, size, notice) if path else None
    if found is not None:
        return Packed(found, parts, matrices)
    whole = room(size)
    pack(library, text, leaves, kind, parts, whole)
    if path:
        write_cache(path, key, whole, notice)
    return Packed(whole, parts, matrices)


def room(size: int) -> np.ndarray:
    """So many bytes, on a line of memory."""
    return aligned(-(-size // 4)).view(np.uint8)[:size]


def rows_of(text: TextModel) -> tuple[Parts, ...]:
    return *text.blocks, text.others


def is_matrix(weight: Weight) -> bool:
    return len(weight.shape) == 2


def layout(library: ctypes.CDLL, text: TextModel, kind: Kind) -> tuple[np.ndarray, int]:
    """Where each part begins, in the order in which they are read, and the bytes of all."""
    places, at = np.full((text.depth + 1, len(PARTS)), -1, np.int64), 0
    for row, parts in enumerate(rows_of(text)):
        for column, name in enumerate(PARTS):
            if name in parts:
                places[row, column] = at
                at += sum(bytes_of(library, weight, kind) for weight in parts[name])
                at = -(-at // LINE) * LINE
    return places, at


def bytes_of(library: ctypes.CDLL, weight: Weight, kind: Kind) -> int:
    shape = weight.shape[::-1] if weight.transposed else weight.shape
    rows, columns = shape if is_matrix(weight) else (1, *shape)
    return library.gf_bytes_of_matrix(rows, columns, KINDS.index(kind if is_matrix(weight) else "float32"))


def pack(
    library: ctypes.CDLL, text: TextModel, leaves: dict[str, Any], kind: Kind, places: np.ndarray, whole: np.ndarray
) -> None:
    for row, parts in enumerate(rows_of(text)):
        for name, side_by_side in parts.items():
            at = int(places[row, PARTS.index(name)])
            for weight in side_by_side:
                w, is_of = weight.of(leaves), kind if is_matrix(weight) else "float32"
                down, right = (stride // w.itemsize for stride in w.strides)
                sizes = (*w.shape, KINDS.index(is_of), cores() if w.size > 1 << 20 else 1)
                library.gf_pack(ctypes.byref(Packing(whole.ctypes.data + at, address(w), down, right, *sizes)))
                at += bytes_of(library, weight, kind)


def fingerprint(text: TextModel, leaves: dict[str, Any], panel: int) -> bytes:
    """Of all weights that are packed, their names and how they will lie."""

    def digest(weight: Weight) -> bytes:
        leaf = np.ascontiguousarray(leaves[weight.name], np.float32)
        return hashlib.sha256(leaf.view(np.uint8).data).digest()

    named = [one for row in rows_of(text) for name in row for one in row[name] if one.name]
    whole = hashlib.sha256(f"{panel} {[(name, row[name]) for row in rows_of(text) for name in row]}".encode())
    with ThreadPoolExecutor(cores()) as pool:
        for one in pool.map(digest, named):
            whole.update(one)
    return whole.digest()


def read_cache(path: Path, key: bytes, size: int, notice: Notice) -> np.ndarray | None:
    """None where there is none, or it is of no use; that is said."""
    if not path.exists():
        return None
    try:
        content = read_bytes(path)
    except FileError as error:
        notice(f"{error}; the weights are quantised again")
        return None
    head, body = content[: len(MAGIC) + 64], memoryview(content)[len(MAGIC) + 64 :]
    why = None
    if head[: len(MAGIC)] != MAGIC:
        why = "it is no file of int8 weights of this release"
    elif head[len(MAGIC) : len(MAGIC) + 32] != key:
        why = "it is of other weights, or of another processor"
    elif len(body) != size:
        why = f"{len(body):,} bytes came, expected {size:,}: it is cut short"
    elif hashlib.sha256(body).digest() != head[-32:]:
        why = "it is damaged"
    if why:
        notice(f"{path}: {why}; the weights are quantised again")
        return None
    whole = room(size)
    whole[:] = np.frombuffer(body, np.uint8)
    return whole


def write_cache(path: Path, key: bytes, whole: np.ndarray, notice: Notice) -> None:
    try:
        write_whole(path, b"".join((MAGIC, key, hashlib.sha256(whole.data).digest(), whole.data)))
    except FileError:
        notice(f"{path} cannot be written: the int8 weights are not kept, and made again each time")
