"""A folder of four IDX files, plain or .gz, spelled `train-images-idx3-ubyte` or `train-images.idx3-ubyte`."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from glassformer.data.dataset import Dataset, Samples, make_dataset
from glassformer.data.idx import AXES, IMAGES, LABELS, read_idx
from glassformer.errors import DataError

PARTS = {"train-images": IMAGES, "train-labels": LABELS, "t10k-images": IMAGES, "t10k-labels": LABELS}


def load_idx_folder(name: str, folder: Path) -> Dataset:
    def read(part: str) -> np.ndarray:
        path = find_part(folder, part)
        if path is None:
            raise DataError(
                f"{folder}: {file_name(part)} is missing; expected {', '.join(map(file_name, PARTS))} "
                "(plain or .gz; train-images.idx3-ubyte and so on will do too)"
            )
        return read_idx(path, PARTS[part])

    return assemble(name, read)


def assemble(name: str, read: Callable[[str], np.ndarray], classes: tuple[str, ...] | None = None) -> Dataset:
    """The data set whose four parts `read` gives."""
    train = Samples(images=read("train-images"), labels=read("train-labels"))
    test = Samples(images=read("t10k-images"), labels=read("t10k-labels"))
    return make_dataset(name, train, test, classes)


def find_part(folder: Path, part: str) -> Path | None:
    plain = file_name(part)
    dotted = plain.replace("-idx", ".idx")
    candidates = [folder / name for name in (plain, dotted, f"{plain}.gz", f"{dotted}.gz")]
    return next((path for path in candidates if path.is_file()), None)


def file_name(part: str) -> str:
    return f"{part}-idx{AXES[PARTS[part]]}-ubyte"
