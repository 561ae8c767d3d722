"""IDX files: what is read, and what is refused with which words."""

import gzip
import re
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from glassformer.data.idx import IMAGES, LABELS, header, read_idx
from glassformer.errors import DataError

from .builders import idx_bytes

PIXELS = np.arange(2 * 3 * 5).reshape(2, 3, 5)


def header_of(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


@pytest.mark.parametrize("array", [PIXELS, np.array([3, 1, 4, 1, 5])], ids=["images", "labels"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_what_was_written_is_read(tmp_path: Path, array: np.ndarray, pack) -> None:
    path = tmp_path / "no-ending-tells-what-it-is"
    path.write_bytes(pack(idx_bytes(array)))
    came = read_idx(path)
    assert came.dtype == np.uint8
    assert came.tolist() == array.tolist()
    assert header(came) + came.tobytes() == idx_bytes(array)


BAD = {
    "empty": (b"", "it ends inside the IDX header; the file is empty or cut short"),
    "empty gz": (gzip.compress(b""), "it ends inside the IDX header; the file is empty or cut short"),
    "half a header": (idx_bytes(PIXELS)[:10], "it ends inside the IDX header; the file is empty or cut short"),
    "wrong magic": (header_of(1234, 1), "magic number 1234, expected 2051 (images) or 2049 (labels); not an IDX file"),
    "truncated": (
        idx_bytes(PIXELS)[:-1],
        "the header claims 30 bytes of data (2x3x5), the file holds 29; it is damaged or cut short",
    ),
    "one byte too many": (idx_bytes(PIXELS) + b"x", "the header claims 30 bytes of data (2x3x5), the file holds more"),
    "header larger than the file": (
        header_of(2051, 60_000, 28, 28) + b"few",
        "the header claims 47,040,000 bytes of data (60000x28x28), the file holds 3",
    ),
    "negative": (header_of(2051, -1, 28, 28), "the header claims -1x28x28, which cannot be right"),
    "two negatives": (header_of(2051, -2, -3, 5) + bytes(30), "the header claims -2x-3x5, which cannot be right"),
    "absurd": (
        header_of(2051, 2**31 - 1, 2**31 - 1, 2**31 - 1),
        "the header claims 2147483647x2147483647x2147483647, which cannot be right; the file is damaged",
    ),
    "no samples": (header_of(2049, 0), "no samples: the header claims 0"),
    "gz cut short": (
        gzip.compress(idx_bytes(PIXELS))[:-12],
        "the gzip stream is damaged or cut short (Compressed file",
    ),
    "gz cut in its checksum": (gzip.compress(idx_bytes(PIXELS))[:-3], "the gzip stream is damaged or cut short"),
    "gz with a wrong byte": (
        gzip.compress(idx_bytes(PIXELS))[:-8] + b"\0" * 8,
        "the gzip stream is damaged or cut short (CRC check failed",
    ),
    "gz and nothing more": (b"\x1f\x8b", "the gzip stream is damaged or cut short"),
    "gz of an unknown method": (b"\x1f\x8b\x09" + bytes(20), "the gzip stream is damaged or cut short"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(f"{path}: {message}")):
        read_idx(path)
    assert path.read_bytes() == content


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone: there is no such file"):
        read_idx(tmp_path / "gone")
    with pytest.raises(DataError, match=r"cannot be read: Is a directory"):
        read_idx(tmp_path)


def test_images_where_labels_belong(tmp_path: Path) -> None:
    path = tmp_path / "train-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(PIXELS))
    assert read_idx(path, IMAGES).shape == (2, 3, 5)
    with pytest.raises(DataError, match=r"2051 \(images\), expected 2049 \(labels\); are two files swapped\?"):
        read_idx(path, LABELS)


@pytest.mark.parametrize(
    "content",
    [
        header_of(2051, 2**16 - 1, 2**8, 2**8) + b"few",  # claims 4 GiB, holds nothing
        gzip.compress(header_of(2049, 5) + bytes(100 << 20), 1),  # claims 5 bytes, unpacks to 100 MiB
    ],
    ids=["a claim", "a gz bomb"],
)
def test_neither_a_claim_nor_a_bomb_takes_memory(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="the header claims"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
