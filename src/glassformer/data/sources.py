"""Every data set by one word: a known name, or the path of a folder or file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from glassformer import registry
from glassformer.data import cifar, mnist_family
from glassformer.data.dataset import Dataset
from glassformer.data.idx_folder import PARTS, find_part, load_idx_folder
from glassformer.data.image_folder import load_image_folder, subfolders
from glassformer.data.npz import load_npz
from glassformer.errors import DataError, UnknownNameError
from glassformer.reading import expanded

BUNDLED = Path(__file__).with_name("mnist_mini.npz")  # made by scripts/make_mnist_mini.py
ACCEPTED = "a folder of IDX files, a folder of images in class folders, or an .npz file"


def load_bundled(name: str, cache: Path | None = None) -> Dataset:
    return load_npz(name, BUNDLED, mnist_family.DIGITS)


def always(name: str, cache: Path | None = None) -> bool:
    return True


class Known(NamedTuple):
    about: str
    train: int
    test: int
    image: tuple[int, int, int]  # rows, columns, channels
    megabytes: int  # to fetch
    load: Callable[[str, Path | None], Dataset]
    is_here: Callable[[str, Path | None], bool]  # so that `load` needs no network


KNOWN = {
    "mnist-mini": Known("digits, bundled", 8_000, 2_000, (28, 28, 1), 0, load_bundled, always),
    "mnist": Known("digits", 60_000, 10_000, (28, 28, 1), 12, mnist_family.load_family, mnist_family.in_cache),
    "fashion-mnist": Known("clothes", 60_000, 10_000, (28, 28, 1), 31, mnist_family.load_family, mnist_family.in_cache),
    "cifar-10": Known("photographs", 50_000, 10_000, (32, 32, 3), 170, cifar.load_cifar, cifar.in_cache),
}
DEFAULT = "mnist-mini"
ARRAYS = "arrays"  # what a run from arrays in Python writes down: no word brings them back


def own_reader(name: str) -> Callable[[str], Any] | None:
    """The reader that is registered for this name, or for the ending of this file."""
    path = Path(name)
    suffix = path.suffix if path.suffix and path.exists() else ""
    return registry.find("data", name.partition(":")[0]) or (registry.find("data", suffix) if suffix else None)


def load(name: str = DEFAULT, *, cache: Path | None = None) -> Dataset:
    """A known name, fetched into the cache folder where it is not there yet, or a path; `./mnist` is a folder's.

    >>> data = load("mnist-mini")
    >>> data.train.images.shape, data.train.labels[:3].tolist()
    ((8000, 28, 28, 1), [5, 0, 4])
    """
    if read := own_reader(name):
        return read(name)
    if name in KNOWN:
        return KNOWN[name].load(name, cache)
    if name == ARRAYS:
        raise DataError(
            "the run was trained on arrays given in Python, which no file holds; score it with "
            "run.evaluate(images, labels) or `glassformer eval RUN --data …`, go on with it by "
            "glassformer.train.fit.resume(RUN, data=(train images, train labels, test images, test labels)); "
            f"a folder of that name is ./{ARRAYS}"
        )
    path = expanded(name)
    if path.is_dir():
        return load_folder(name, path)
    if not path.exists():
        raise unknown(name)
    if path.suffix == ".npz":
        return load_npz(name, path)
    raise DataError(f"{path}: a file of this kind cannot be read as a data set; expected {ACCEPTED}")


def lasting_name(name: str) -> str:
    """The word for a loaded data set that a run writes down: it means the same from any folder.

    >>> lasting_name("mnist-mini"), lasting_name("made up in Python")
    ('mnist-mini', 'arrays')
    """
    if name in KNOWN:
        return name
    path = expanded(name)
    return str(path.absolute()) if name != ARRAYS and path.exists() else ARRAYS


def load_folder(name: str, folder: Path) -> Dataset:
    if any(find_part(folder, part) for part in PARTS):
        return load_idx_folder(name, folder)
    if subfolders(folder):
        return load_image_folder(name, folder)
    raise DataError(f"{folder}: neither IDX files (train-images-idx3-ubyte, …) nor class folders of images are in it")


def unknown(name: str) -> Exception:
    from glassformer.names import nearest  # here, because it brings JAX along

    if "/" in name or Path(name).suffix:
        return DataError(f"{name}: there is no such file or folder; expected {ACCEPTED}")
    return UnknownNameError(
        f"no data set is called {name!r}{nearest(name, list(KNOWN))}; known: {', '.join(KNOWN)}; or a path: {ACCEPTED}"
    )
