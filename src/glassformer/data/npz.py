"""NPZ files: four arrays under our names (train_images, …) or under Keras' (x_train, …). Pickled arrays are refused."""

import lzma
import math
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from glassformer.data.dataset import Dataset, Samples, make_dataset
from glassformer.data.unpacking import must_unpack
from glassformer.errors import DataError
from glassformer.reading import open_plain, size_of

OURS = ("train_images", "train_labels", "test_images", "test_labels")
KERAS = ("x_train", "y_train", "x_test", "y_test")
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
DAMAGED = (zlib.error, lzma.LZMAError, SyntaxError, TypeError, tokenize.TokenError)  # the last three: of a bad header
CHUNK = 1 << 20  # bytes read at a time
MOST_SHOWN = 12  # names of arrays in a message


def load_npz(name: str, path: Path, classes: tuple[str, ...] | None = None) -> Dataset:
    train_images, train_labels, test_images, test_labels = read_arrays(path)
    train = Samples(images=train_images, labels=flat(train_labels))
    test = Samples(images=test_images, labels=flat(test_labels))
    return make_dataset(name, train, test, classes)


def read_arrays(path: Path) -> list[np.ndarray]:
    with open_plain(path, DataError) as file:
        if not zipfile.is_zipfile(file):
            raise DataError(f"{path}: not an NPZ file; write one with numpy.savez_compressed")
        try:
            with zipfile.ZipFile(file) as archive:
                members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
                names = next((names for names in (OURS, KERAS) if set(names) <= set(members)), None)
                if names is None:
                    raise DataError(
                        f"{path}: it holds {shown(members)}; expected {', '.join(OURS)}, or {', '.join(KERAS)}"
                    )
                chosen = [members[name] for name in names]
                must_unpack(path, size_of(file), sum(member.file_size for member in chosen))
                return [read_array(archive, member) for member in chosen]
        except (RuntimeError, ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, *DAMAGED) as error:
            raise DataError(f"{path}: an array in it cannot be read: {error}") from None


def read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Its header has to claim the very bytes that the member holds: NumPy takes the memory before it reads them."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        if version not in HEADERS:
            raise ValueError(f"{member.filename} is of version {version} of the format, expected 1.0 or 2.0")
        shape, fortran, dtype = HEADERS[version](file)
        if dtype.hasobject:
            raise ValueError(f"Object arrays cannot be loaded, and {member.filename} is one: a pickle can run code")
        claimed, there = math.prod(shape) * dtype.itemsize, member.file_size - file.tell()
        if claimed != there:
            raise ValueError(f"{member.filename} claims {claimed:,} bytes, {dtype} of shape {shape}, and has {there:,}")
        content = bytearray()
        while chunk := file.read(CHUNK):
            content += chunk
    return np.frombuffer(content, dtype, math.prod(shape)).reshape(shape, order="F" if fortran else "C")


def shown(members: Iterable[str]) -> str:
    names = [*members]
    return ", ".join(names[:MOST_SHOWN]) + (", …" if names[MOST_SHOWN:] else "") or "nothing"


def flat(labels: np.ndarray) -> np.ndarray:
    """Keras gives the labels of CIFAR a second axis of one."""
    return labels[:, 0] if labels.shape[1:] == (1,) else labels
