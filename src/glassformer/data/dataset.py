"""What every source gives: training and test samples that fit together, and the names of the classes."""

import hashlib
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.token_shards import TokenStream
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError, SettingError

IMAGES, ROWS, TEXTS = "images", "rows of numbers", "texts"  # what samples are made of


class Samples(NamedTuple):
    images: np.ndarray  # uint8, or float32 of any scale (N, rows, columns, channels)
    labels: np.ndarray  # int32 (N,); of a regression float32 (N, K)

    holds = IMAGES


class Arrays(NamedTuple):
    """Samples for an input of one's own."""

    x: np.ndarray
    labels: np.ndarray


class Dataset(NamedTuple):
    """Samples are those of images; or those of a table, or of texts as a task has encoded them."""

    name: str  # what `load` was given
    train: Any
    test: Any
    classes: tuple[str, ...]  # a label is an index into it; of a regression the names of the numbers
    tokeniser: Tokeniser | None = None  # that the texts were encoded with
    vocabulary: int = 0  # of the embedding table, where it has rows that no symbol of the tokeniser has
    notes: tuple[str, ...] = ()  # what a person should know: left out

    @property
    def holds(self) -> str:
        """What its samples are made of; nothing where they do not say."""
        return getattr(self.train, "holds", "") if self.tokeniser is None else TEXTS

    @property
    def symbols(self) -> int:
        return max(self.vocabulary, 0 if self.tokeniser is None else self.tokeniser.size)


def make_dataset(
    name: str, train: Samples, test: Samples, classes: tuple[str, ...] | None = None, *, numbers: bool = False
) -> Dataset:
    """The one way to a Dataset of images: everything is checked. Without `classes`, the labels are their own names.

    With `numbers` the labels are what a regression is to find.
    """
    train, test = checked(f"{name}: training", train), checked(f"{name}: test", test)
    if train.images.shape[1:] != test.images.shape[1:]:
        raise DataError(
            f"{name}: training images are {size(train)}, test images {size(test)}; "
            "all must have one size: rescale one of them"
        )
    if train.images.dtype != test.images.dtype:
        raise DataError(
            f"{name}: training images are {train.images.dtype}, test images {test.images.dtype}; both must be bytes "
            "or floats, on one scale: convert one of them"
        )
    return with_labels(Dataset(name, train, test, classes or ()), numbers=numbers)


def with_labels(data: Dataset, *, numbers: bool) -> Dataset:
    """The same with its labels checked: numbers of classes, named where they have no names; or any numbers."""
    parts = {f"{data.name}: training": data.train, f"{data.name}: test": data.test}
    for where, samples in parts.items():
        check_labels(where, samples, numbers=numbers)
    if numbers:
        train, test = (samples._replace(labels=columns_of(samples.labels)) for samples in parts.values())
        classes = data.classes or tuple(f"y{i}" for i in range(train.labels.shape[1]))
        if not len(classes) == train.labels.shape[1] == test.labels.shape[1]:
            raise DataError(
                f"{data.name}: {train.labels.shape[1]} numbers for a training sample came, {test.labels.shape[1]} for "
                f"a test sample, and {len(classes)} names; all must be as many"
            )
    else:
        classes = data.classes or numbered(data.name, data.train.labels)
        train, test = (in_range(where, samples, classes) for where, samples in parts.items())
    return data._replace(train=train, test=test, classes=classes)


def columns_of(numbers: np.ndarray) -> np.ndarray:
    return numbers.reshape(len(numbers), -1).astype(np.float32)


def hold_out(samples: Any, share: float = 0.1) -> tuple[Any, Any]:
    """(training, validation): validation is the last `share` in file order, at least one sample.

    A file that is sorted by class would give a validation of one class: shuffle such a file when you make it.
    """
    if not 0 < share < 1:
        raise SettingError(f"hold_out: a share of {share} came, expected one between 0 and 1, such as 0.1")
    count = len(samples[0])
    if count < 2:
        raise DataError("hold_out: one sample cannot be split into training and validation; bring more")
    start = min(max(count - round(share * count), 1), count - 1)
    return cut(samples, slice(None, start)), cut(samples, slice(start, None))


def cut(samples: Any, part: slice) -> Any:
    """The same samples, fewer of them. What is no array (a setting) belongs to each."""
    return samples._make(field[part] if isinstance(field, np.ndarray | TokenStream) else field for field in samples)


def digest(samples: Any) -> str:
    """sha256 of all arrays: other samples, or another order, have another."""
    found = hashlib.sha256()
    for field in samples:
        if isinstance(field, np.ndarray):
            found.update(np.ascontiguousarray(field).data)
        elif isinstance(field, TokenStream):
            found.update(field.digest().encode())
    return found.hexdigest()


def checked(where: str, samples: Samples) -> Samples:
    """Types, shapes and lengths; grey images without a channel axis gain one."""
    images, labels = samples
    if np.issubdtype(images.dtype, np.floating):
        images = images.astype(np.float32)
    elif images.dtype != np.uint8:
        raise DataError(
            f"{where} images are {images.dtype}, expected uint8 from 0 to 255, or floats; convert them with "
            ".astype('uint8')"
        )
    if images.ndim not in (3, 4):
        raise DataError(f"{where} images have shape {images.shape}, expected (N, rows, columns[, channels])")
    if len(images) != len(labels):
        raise DataError(
            f"{where} images are {len(images):,}, their labels {len(labels):,}; "
            "each image needs one label: do both files belong together?"
        )
    if images.size == 0:
        raise DataError(f"{where} samples: there are none (images of shape {images.shape})")
    return Samples(images=images if images.ndim == 4 else images[..., None], labels=labels)


def check_labels(where: str, samples: Any, *, numbers: bool) -> None:
    labels = samples.labels
    if numbers and (labels.ndim not in (1, 2) or not np.issubdtype(labels.dtype, np.number)):
        raise DataError(f"{where} labels are {labels.dtype} of shape {labels.shape}, expected numbers, (N,) or (N, K)")
    if not numbers and (labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer)):
        raise DataError(f"{where} labels are {labels.dtype} of shape {labels.shape}, expected whole numbers, (N,)")


def in_range(where: str, samples: Any, classes: tuple[str, ...]) -> Any:
    outside = np.flatnonzero((samples.labels < 0) | (samples.labels >= len(classes)))
    if outside.size:
        raise DataError(
            f"{where} label {samples.labels[outside[0]]} of sample {outside[0]:,} is out of range, "
            f"expected 0 to {len(classes) - 1}; the labels are damaged or of another data set"
        )
    return samples._replace(labels=samples.labels.astype(np.int32))


def numbered(name: str, labels: np.ndarray) -> tuple[str, ...]:
    """'0', '1', … up to the largest label. A gap gives a damaged label away; 0 may be absent (EMNIST starts at 1)."""
    present = np.unique(labels[labels > 0])
    gaps = np.flatnonzero(present != np.arange(1, len(present) + 1))
    if gaps.size:
        raise DataError(
            f"{name}: training label {present[gaps[0]]} occurs but label {gaps[0] + 1} does not; "
            "labels must count up from 0 without a gap: renumber them, or fetch the file again if it is damaged"
        )
    return tuple(map(str, range(len(present) + 1)))


def size(samples: Samples) -> str:
    return "x".join(map(str, samples.images.shape[1:]))
