"""A folder of images in class folders: `train/<class>/*` and `test/<class>/*`, or `<class>/*` to be split here.

Without a split, every tenth image of a class is a test image. Classes are numbered in the order of their names, and
samples are mixed evenly, so that the last tenth (which validation takes) has every class in its share.
"""

import math
from pathlib import Path

import numpy as np

from glassformer.data.dataset import Dataset, Samples, make_dataset
from glassformer.data.image_file import read_image
from glassformer.errors import DataError
from glassformer.memory import must_fit

Files = dict[str, list[Path]]  # class name -> its images


def load_image_folder(name: str, folder: Path) -> Dataset:
    already_split = {"train", "test"} & set(subfolders(folder))
    train, test = read_split(folder) if already_split else split(folder, files_by_class(folder))
    first = next(iter(train.values()))[0]
    return make_dataset(name, read_all(train, first), read_all(test, first), tuple(train))


def read_split(folder: Path) -> tuple[Files, Files]:
    """What lies in train/ and test/, which must have the same classes."""
    for part in ("train", "test"):
        if not (folder / part).is_dir():
            raise DataError(f"{folder}: there is no folder {part} in it; expected both train and test")
    train, test = files_by_class(folder / "train"), files_by_class(folder / "test")
    if different := sorted(train.keys() ^ test.keys()):
        raise DataError(
            f"{folder}: only one of train and test has {', '.join(different)}; both need the same class folders"
        )
    return train, test


def files_by_class(folder: Path) -> Files:
    files = {name: visible(folder / name) for name in subfolders(folder)}
    if not files:
        raise DataError(f"{folder}: there are no class folders in it; expected one folder of images per class")
    for name, images in files.items():
        if not images:
            raise DataError(f"{folder / name}: the class folder is empty; put images into it or remove it")
    return files


def split(folder: Path, files: Files) -> tuple[Files, Files]:
    """Every tenth image of a class is test; the order is that of the file names, so the split never changes."""
    for name, images in files.items():
        if len(images) < 10:
            raise DataError(
                f"{folder / name}: {len(images)} images, too few to make every tenth a test image; "
                "bring ten or more, or sort them into train/ and test/ yourself"
            )
    test = {name: images[9::10] for name, images in files.items()}
    train = {name: [image for i, image in enumerate(images) if i % 10 != 9] for name, images in files.items()}
    return train, test


def read_all(files: Files, first: Path) -> Samples:
    """All images, mixed evenly by class; each must have the size and the channels of the first."""
    expected = read_image(first).shape
    order = sorted(
        ((i + 0.5) / len(paths), label, path)
        for label, paths in enumerate(files.values())
        for i, path in enumerate(paths)
    )
    needed = len(order) * math.prod(expected)
    must_fit(needed, f"{first.parent.parent}: {len(order):,} images", "take fewer, or scale them down", DataError)
    images = np.empty((len(order), *expected), np.uint8)
    for i, (_, _, path) in enumerate(order):
        pixels = read_image(path)
        if pixels.shape != expected:
            raise DataError(
                f"{path}: {describe(pixels.shape)}, but {first} is {describe(expected)}; all images must be alike"
            )
        images[i] = pixels
    return Samples(images=images, labels=np.array([label for _, label, _ in order], np.int32))


def subfolders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def visible(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def describe(shape: tuple[int, ...]) -> str:
    rows, columns, channels = shape
    return f"{columns}x{rows} pixels, {'grey' if channels == 1 else 'colour'}"
