"""What a file of somebody else's may ask for: no pipe without an end, no memory beyond what there is, no traceback."""

import gzip
import json
import os
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import memory
from glassformer.data import load
from glassformer.data.idx import IMAGES, read_idx
from glassformer.data.image_file import read_image
from glassformer.data.prepare import prepare, read_pictures
from glassformer.data.table import load_csv
from glassformer.data.text_file import load_text_file
from glassformer.data.tokeniser import Tokeniser, load_tokeniser
from glassformer.errors import DataError, GlassformerError

READERS: dict[str, Callable[[Path], Any]] = {
    "IDX": read_idx,
    "NPZ": lambda path: load(str(path)),
    "CSV": load_csv,
    "text": lambda path: load_text_file("text", path),
    "image": read_image,
    "picture": lambda path: read_pictures(str(path), (28, 28, 1), "mnist-mini"),
    "tokeniser": load_tokeniser,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_never_ends_is_refused(read: Callable[[Path], Any], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.symlink_to("/dev/zero") if kind == "device" else os.mkfifo(path)
    with pytest.raises(GlassformerError, match=r"x\.npz: is not a plain file"):
        read(path)


def idx_bomb(path: Path) -> None:
    """It claims 3 GiB, and begins to hold it: enough to see who unpacks it."""
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(">4i", IMAGES, 3 << 20, 32, 32) + bytes(32 << 20))


def npz_bomb(path: Path) -> None:
    """Four arrays of zeros that hold what they claim, 8 MiB each."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train_images", "train_labels", "test_images", "test_labels"):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 13, 1 << 5, 1 << 5)}
                )
                file.write(bytes(8 << 20))


@pytest.mark.parametrize("make", [idx_bomb, npz_bomb])
def test_a_file_that_is_made_to_fill_the_memory(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.data.unpacking.SMALL", 16 << 20)
    path = tmp_path / "bomb.npz"
    make(path)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"bomb\.npz: .* MiB that claim to unpack to .*, more than 200 times as much"):
        read_idx(path) if make is idx_bomb else load(str(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def write_npz(path: Path, count: int = 20) -> Path:
    images, labels = np.zeros((count, 4, 4), np.uint8), np.arange(count) % 2
    np.savez_compressed(path, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    return path


def test_more_than_there_is_memory_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the figures, and before it is taken."""
    path = write_npz(tmp_path / "a.npz", 1000)
    table = tmp_path / "a.csv"
    table.write_text("1,a\n2,b\n" * 1000)
    text = tmp_path / "a.txt"
    text.write_text("some words\n" * 1000)
    monkeypatch.setattr(memory, "available", lambda: 30_000)
    for file, read in ((path, lambda p: load(str(p))), (table, load_csv), (text, lambda p: load_text_file("", p))):
        with pytest.raises(DataError, match=r"takes 0\.\d MiB of memory, and 0\.0 MiB are free; (take|close)"):
            read(file)


def test_an_array_that_is_not_what_its_header_claims(tmp_path: Path) -> None:
    path = tmp_path / "liar.npz"
    with zipfile.ZipFile(write_npz(path)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["train_images.npy"] = parts["train_images.npy"].replace(b"(20, 4, 4)", b"(99999999,)")[: 128 + 320]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match=r"train_images\.npy claims 99,999,999 bytes, uint8 of shape .*, and has 320"):
        load(str(path))


def test_arrays_in_the_order_of_fortran(tmp_path: Path) -> None:
    images = np.asfortranarray(np.arange(20 * 3 * 5, dtype=np.float64).reshape(20, 3, 5))
    labels = np.arange(20) % 2
    np.savez(tmp_path / "f.npz", x_train=images, y_train=labels[:, None], x_test=images, y_test=labels)
    data = load(str(tmp_path / "f.npz"))
    np.testing.assert_array_equal(data.train.images[..., 0], images)
    np.testing.assert_array_equal(data.train.labels, labels)


def test_an_encrypted_archive(tmp_path: Path) -> None:
    path = write_npz(tmp_path / "secret.npz")
    content = bytearray(path.read_bytes())
    for i in range(len(content)):  # the flag `encrypted`, in each member's two headers
        if content[i : i + 4] in (b"PK\x01\x02", b"PK\x03\x04"):
            content[i + (8 if content[i + 2] == 1 else 6)] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"secret\.npz: an array in it cannot be read: .*encrypted"):
        load(str(path))


def test_a_picture_of_noise() -> None:
    """Specks that average out are no ink."""
    pixels = (255 * (np.random.default_rng(0).random((200, 150, 1)) < 0.3)).astype(np.uint8)
    with pytest.raises(DataError, match=r"noise\.png: no ink"):
        prepare(pixels, (28, 28, 1), where="noise.png")


def tokeniser_json(**model: Any) -> str:
    words = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "[UNK]"}
    return json.dumps({"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model": words | model})


def test_a_tokeniser_without_a_symbol_for_the_unknown() -> None:
    words = Tokeniser.from_json(tokeniser_json(), "foreign")
    assert words.encode("a b") == [0, 1]
    with pytest.raises(DataError, match=r"cannot encode this text: .*\[UNK\]"):
        words.encode("a zebra")


def test_numbers_of_symbols_that_no_table_has() -> None:
    with pytest.raises(DataError, match=r"foreign: a symbol has the number 4,294,967,295, expected less than"):
        Tokeniser.from_json(tokeniser_json(vocab={"a": 0, "b": (1 << 32) - 1}), "foreign")


def test_as_many_classes_as_rows(tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("".join(f"{i},c{i // 2}\n" for i in range(60_000)))
    start = time.process_time()
    assert len(load_csv(path).classes) == 30_000
    assert time.process_time() - start < 10, "a cost that grows with the square would take a minute"
