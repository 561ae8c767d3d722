"""IDX files, plain or gzipped: a big-endian header (magic number, sizes), then bytes. The header is never trusted.

magic 2051 = images (count, rows, columns), 2049 = labels (count). Memory grows with what the file really holds, never
with what its header claims; a file that is longer or shorter than its header says is refused, and one that claims more
than there is memory for before it is unpacked.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from glassformer.data.unpacking import must_unpack
from glassformer.errors import DataError
from glassformer.reading import open_plain, size_of

IMAGES, LABELS = 2051, 2049
KINDS = {IMAGES: "images", LABELS: "labels"}
AXES = {IMAGES: 3, LABELS: 1}  # magic number: how many sizes follow it
LARGEST = 4 << 30  # bytes: no image set this project reads is larger; a damaged size is
CHUNK = 1 << 20  # bytes read at a time


def read_idx(path: Path, magic: int | None = None) -> np.ndarray:
    """The array in an IDX file of images (N, rows, columns) or labels (N,), uint8; `magic` says which it has to be."""
    with open_plain(path, DataError) as packed:
        try:
            file = unpacked(packed)
            shape = read_header(file, path, magic)
            must_unpack(path, math.prod(shape) if file is packed else size_of(packed), math.prod(shape))
            content = read_data(file, path, shape)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(
                f"{path}: the gzip stream is damaged or cut short ({error}); delete it and fetch it again"
            ) from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    return np.frombuffer(content, np.uint8).reshape(shape)


def unpacked(file: BinaryIO) -> BinaryIO:
    """The file, unpacked on the fly where it is gzipped (told by its first bytes, not by its name)."""
    zipped = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if zipped else file


def read_header(file: BinaryIO, path: Path, magic: int | None) -> tuple[int, ...]:
    """The sizes the header claims, all positive and together below what we are ready to read."""
    came = int.from_bytes(exactly(file, 4, path), "big")
    if came not in KINDS:
        raise DataError(
            f"{path}: magic number {came}, expected {IMAGES} (images) or {LABELS} (labels); not an IDX file"
        )
    if magic not in (None, came):
        raise DataError(
            f"{path}: magic number {came} ({KINDS[came]}), expected {magic} ({KINDS[magic]}); are two files swapped?"
        )
    shape = struct.unpack(f">{AXES[came]}i", exactly(file, 4 * AXES[came], path))
    if min(shape) < 0 or math.prod(shape) > LARGEST:
        raise DataError(f"{path}: the header claims {sizes(shape)}, which cannot be right; the file is damaged")
    if math.prod(shape) == 0:
        raise DataError(f"{path}: no samples: the header claims {sizes(shape)}")
    return shape


def exactly(file: BinaryIO, count: int, path: Path) -> bytes:
    content = file.read(count)
    if len(content) < count:
        raise DataError(f"{path}: it ends inside the IDX header; the file is empty or cut short")
    return content


def read_data(file: BinaryIO, path: Path, shape: tuple[int, ...]) -> bytearray:
    claimed = math.prod(shape)
    content = bytearray()
    while len(content) <= claimed and (chunk := file.read(CHUNK)):
        content += chunk
    if len(content) != claimed:
        holds = "more" if len(content) > claimed else f"{len(content):,}"
        raise DataError(
            f"{path}: the header claims {claimed:,} bytes of data ({sizes(shape)}), the file holds {holds}; "
            "it is damaged or cut short: delete it and fetch it again"
        )
    return content


def header(array: np.ndarray) -> bytes:
    """The header that an IDX file of this array begins with."""
    magic = {axes: magic for magic, axes in AXES.items()}[array.ndim]
    return struct.pack(f">{1 + array.ndim}i", magic, *array.shape)


def sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
