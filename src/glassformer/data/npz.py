"""NPZ files: four arrays under our names (train_images, …) or under Keras' (x_train, …). Pickled arrays are refused."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from glassformer.data.dataset import Dataset, Samples, make_dataset
from glassformer.errors import DataError

OURS = ("train_images", "train_labels", "test_images", "test_labels")
KERAS = ("x_train", "y_train", "x_test", "y_test")


def load_npz(name: str, path: Path, classes: tuple[str, ...] | None = None) -> Dataset:
    train_images, train_labels, test_images, test_labels = read_arrays(path)
    train = Samples(images=train_images, labels=flat(train_labels))
    test = Samples(images=test_images, labels=flat(test_labels))
    return make_dataset(name, train, test, classes)


def read_arrays(path: Path) -> list[np.ndarray]:
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: not an NPZ file; write one with numpy.savez_compressed")
    try:
        with np.load(path, allow_pickle=False) as file:
            names = next((names for names in (OURS, KERAS) if set(names) <= set(file.files)), None)
            if names is None:
                raise DataError(
                    f"{path}: it holds {', '.join(file.files) or 'nothing'}; expected {', '.join(OURS)}, "
                    f"or {', '.join(KERAS)}"
                )
            return [file[name] for name in names]
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: an array in it cannot be read: {error}") from None


def flat(labels: np.ndarray) -> np.ndarray:
    """Keras gives the labels of CIFAR a second axis of one."""
    return labels[:, 0] if labels.shape[1:] == (1,) else labels
