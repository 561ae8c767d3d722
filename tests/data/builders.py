"""Small data sets on disk for the tests, and where the real MNIST lies on this machine."""

import gzip
import io
import os
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data.cifar import ARCHIVE, INSIDE, TEST, TRAIN

ROOT = Path(__file__).parents[2]
MNIST = Path(os.environ.get("GLASSFORMER_MNIST", ROOT.parent / "shared/data/mnist"))
needs_mnist = pytest.mark.skipif(
    not MNIST.is_dir(), reason=f"no MNIST in {MNIST}; name its folder in GLASSFORMER_MNIST"
)


def idx_bytes(array: np.ndarray) -> bytes:
    """Written out here, apart from the reader's own idea of a header."""
    magic = {1: 2049, 3: 2051}[array.ndim]
    return struct.pack(f">{1 + array.ndim}i", magic, *array.shape) + array.astype(np.uint8).tobytes()


def small_parts(rows: int = 5, columns: int = 4) -> dict[str, np.ndarray]:
    """Twenty training and ten test images; every label occurs."""
    rng = np.random.default_rng(0)
    return {
        "train-images": rng.integers(0, 256, (20, rows, columns)),
        "train-labels": np.arange(20) % 10,
        "t10k-images": rng.integers(0, 256, (10, rows, columns)),
        "t10k-labels": np.arange(10),
    }


def write_idx_folder(folder: Path, parts: dict[str, np.ndarray], *, dotted: bool = False, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part, array in parts.items():
        name = f"{part}{'.' if dotted else '-'}idx{array.ndim}-ubyte"
        content = idx_bytes(array)
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
        else:
            (folder / name).write_bytes(content)
    return folder


def write_image(path: Path, shape: tuple[int, ...] = (5, 4), value: int = 7) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full(shape, value, np.uint8)).save(path)
    return path


def cifar_batches(records: int = 3) -> dict[str, np.ndarray]:
    """Six batches of records (label, then red, green and blue planes)."""
    rng = np.random.default_rng(1)
    batches = {name: rng.integers(0, 256, (records, 3073), dtype=np.uint8) for name in (*TRAIN, *TEST)}
    for batch in batches.values():
        batch[:, 0] %= 10
    return batches


def write_cifar_archive(folder: Path, batches: dict[str, np.ndarray]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        for name, batch in batches.items():
            member = tarfile.TarInfo(f"{INSIDE}/{name}")
            member.size = batch.nbytes
            archive.addfile(member, io.BytesIO(batch.tobytes()))
    return folder / ARCHIVE
