"""Samples that fit together, and the tenth that is held out."""

import re
from typing import Any

import numpy as np
import pytest

from glassformer.data import Samples, hold_out, make_dataset
from glassformer.errors import DataError, SettingError

CLASSES = ("cat", "dog", "owl")


def samples(count: int = 6, shape: tuple[int, ...] = (5, 4), **changes: Any) -> Samples:
    plain = Samples(images=np.zeros((count, *shape), np.uint8), labels=np.arange(count) % 3)
    return plain._replace(**changes)


def test_grey_images_gain_a_channel_and_labels_become_int32() -> None:
    data = make_dataset("toy", samples(), samples(3), CLASSES)
    assert data.name == "toy"
    assert data.classes == CLASSES
    assert data.train.images.shape == (6, 5, 4, 1)
    assert data.test.images.shape == (3, 5, 4, 1)
    assert data.train.images.dtype == np.uint8
    assert data.train.labels.dtype == np.int32
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]


def test_colour_images_stay_as_they_are() -> None:
    colour = samples(shape=(5, 4, 3))
    assert make_dataset("toy", colour, colour, CLASSES).train.images is colour.images


BAD = {
    "lengths": (samples(labels=np.zeros(5, int)), "toy: training images are 6, their labels 5; each image needs one"),
    "too large": (
        samples(labels=np.array([0, 1, 2, 3, 0, 0])),
        "toy: training label 3 of sample 3 is out of range, expected 0 to 2; the labels are damaged",
    ),
    "negative": (samples(labels=np.array([0, -1, 2, 0, 0, 0])), "toy: training label -1 of sample 1 is out of range"),
    "larger than an int32": (
        samples(labels=np.array([0, 2**32, 2, 0, 0, 0])),
        "toy: training label 4294967296 of sample 1 is out of range",
    ),
    "none": (samples(0), "toy: training samples: there are none (images of shape (0, 5, 4))"),
    "no pixels": (samples(shape=(0, 4)), "toy: training samples: there are none (images of shape (6, 0, 4))"),
    "whole numbers": (
        samples(images=np.zeros((6, 5, 4), int)),
        "toy: training images are int64, expected uint8 from 0 to 255, or floats; convert them with .astype('uint8')",
    ),
    "vectors": (
        samples(shape=(20,)),
        "toy: training images have shape (6, 20), expected (N, rows, columns[, channels])",
    ),
    "one-hot": (
        samples(labels=np.zeros((6, 3), int)),
        "toy: training labels are int64 of shape (6, 3), expected whole numbers, (N,)",
    ),
    "words": (samples(labels=np.array(["cat"] * 6)), "toy: training labels are <U3 of shape (6,), expected whole"),
    "another size": (
        samples(shape=(5, 6)),
        "toy: training images are 5x6x1, test images 5x4x1; all must have one size: rescale one of them",
    ),
}


@pytest.mark.parametrize(("train", "message"), BAD.values(), ids=BAD.keys())
def test_samples_that_do_not_fit_are_refused(train: Samples, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        make_dataset("toy", train, samples(), CLASSES)


def test_the_test_samples_are_checked_alike() -> None:
    with pytest.raises(DataError, match="toy: test images are 6, their labels 5"):
        make_dataset("toy", samples(), samples(labels=np.zeros(5, int)), CLASSES)
    with pytest.raises(DataError, match="toy: test label 3 of sample 2 is out of range, expected 0 to 2"):
        make_dataset("toy", samples(), samples(labels=np.array([0, 1, 3, 0, 0, 0])))


def test_labels_without_names_are_their_own() -> None:
    assert make_dataset("toy", samples(), samples()).classes == ("0", "1", "2")
    from_one = samples(labels=np.array([1, 2, 3, 1, 2, 3]))
    assert make_dataset("letters", from_one, from_one).classes == ("0", "1", "2", "3")


def test_a_gap_in_the_labels_gives_a_damaged_one_away() -> None:
    damaged = samples(labels=np.array([0, 1, 2, 200, 0, 1], np.uint8))
    with pytest.raises(DataError, match="toy: training label 200 occurs but label 3 does not; labels must count up"):
        make_dataset("toy", damaged, samples())


def test_the_last_tenth_in_file_order_is_held_out() -> None:
    numbered = Samples(images=np.arange(50, dtype=np.uint8).reshape(50, 1, 1, 1), labels=np.arange(50))
    train, validation = hold_out(numbered)
    assert train.labels.tolist() == list(range(45))
    assert validation.labels.tolist() == [45, 46, 47, 48, 49]
    assert validation.images.ravel().tolist() == [45, 46, 47, 48, 49]
    assert len(hold_out(numbered, 0.5)[1].labels) == 25


def test_hold_out_leaves_something_on_both_sides() -> None:
    for share in (0.01, 0.99):
        train, validation = hold_out(samples(3), share)
        assert len(train.labels) >= 1
        assert len(validation.labels) >= 1
    with pytest.raises(DataError, match="hold_out: one sample cannot be split"):
        hold_out(samples(1))
    with pytest.raises(SettingError, match="hold_out: a share of 1 came, expected one between 0 and 1"):
        hold_out(samples(), 1)
