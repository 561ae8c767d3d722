"""Data sets by name and by path."""

import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from glassformer.data import load
from glassformer.data.idx_folder import PARTS
from glassformer.errors import DataError, UnknownNameError

from .builders import MNIST, ROOT, needs_mnist, small_parts, write_idx_folder


def test_the_room_imports_without_jax_pooch_or_pillow() -> None:
    code = """
import sys
for name in ("jax", "pooch", "PIL", "typer", "rich", "pydantic", "matplotlib"):
    sys.modules[name] = None  # importing it now fails
import glassformer.data
assert len(glassformer.data.load("mnist-mini").train.labels) == 8000
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_bundled_digits() -> None:
    data = load()
    assert data.name == "mnist-mini"
    assert data.train.images.shape == (8000, 28, 28, 1)
    assert data.test.images.shape == (2000, 28, 28, 1)
    assert data.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert data.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert data.classes == tuple("0123456789")


@needs_mnist
@pytest.mark.slow
def test_the_script_makes_the_bundled_digits(tmp_path: Path) -> None:
    out = tmp_path / "made.npz"
    subprocess.run([sys.executable, ROOT / "scripts/make_mnist_mini.py", MNIST, out], check=True, capture_output=True)
    made, bundled = load(str(out)), load("mnist-mini")
    for came, expected in zip((*made.train, *made.test), (*bundled.train, *bundled.test), strict=True):
        assert np.array_equal(came, expected)
    with zipfile.ZipFile(out) as file:
        times = {member.date_time for member in file.infolist()}
    assert times == {(1980, 1, 1, 0, 0, 0)}, "the time of making must not change the bytes"


@needs_mnist
def test_the_real_mnist_by_path() -> None:
    data = load(str(MNIST))
    assert data.train.images.shape == (60_000, 28, 28, 1)
    assert data.test.images.shape == (10_000, 28, 28, 1)
    assert data.train.labels[0] == 5
    assert data.classes == tuple("0123456789")


@needs_mnist
def test_the_real_mnist_by_name_from_a_folder_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "mnist").symlink_to(MNIST)
    data = load("mnist", cache=tmp_path)
    assert data.train.images.shape == (60_000, 28, 28, 1)
    assert data.train.labels[0] == 5


@pytest.mark.parametrize("dotted", [False, True], ids=["dash", "dot"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_a_folder_of_idx_files_in_every_spelling(tmp_path: Path, dotted: bool, packed: bool) -> None:
    parts = small_parts()
    data = load(str(write_idx_folder(tmp_path, parts, dotted=dotted, packed=packed)))
    assert data.name == str(tmp_path)
    assert np.array_equal(data.train.images[..., 0], parts["train-images"])
    assert np.array_equal(data.test.labels, parts["t10k-labels"])
    assert data.classes == tuple("0123456789")


@pytest.mark.parametrize("part", PARTS)
def test_a_missing_idx_file_is_named(tmp_path: Path, part: str) -> None:
    write_idx_folder(tmp_path, {name: array for name, array in small_parts().items() if name != part})
    with pytest.raises(DataError, match=rf"{part}-idx\d-ubyte is missing; expected train-images-idx3-ubyte, "):
        load(str(tmp_path))


def test_idx_files_that_do_not_belong_together(tmp_path: Path) -> None:
    folder = str(write_idx_folder(tmp_path, small_parts() | {"train-labels": np.arange(10)}))
    with pytest.raises(DataError, match=re.escape(f"{folder}: training images are 20, their labels 10")):
        load(folder)
    folder = str(write_idx_folder(tmp_path, small_parts() | {"t10k-labels": np.full(10, 77)}))
    with pytest.raises(DataError, match="test label 77 of sample 0 is out of range, expected 0 to 9"):
        load(folder)


NAMES = {
    "ours": ("train_images", "train_labels", "test_images", "test_labels"),
    "keras": ("x_train", "y_train", "x_test", "y_test"),
}


def arrays(names: tuple[str, ...]) -> dict[str, np.ndarray]:
    images, labels = np.arange(6 * 20, dtype=np.uint8).reshape(6, 5, 4), np.arange(6) % 3
    return dict(zip(names, (images, labels, images[:3], labels[:3]), strict=True))


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES.keys())
def test_npz_under_our_names_and_under_those_of_keras(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = tmp_path / "toy.npz"
    np.savez_compressed(path, **arrays(names))  # pyright: ignore[reportArgumentType]
    data = load(str(path))
    assert data.train.images.shape == (6, 5, 4, 1)
    assert data.test.labels.tolist() == [0, 1, 2]
    assert data.classes == ("0", "1", "2")


def test_npz_with_a_second_axis_of_one_as_keras_gives_for_cifar(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    wide = {name: a[:, None] if name.startswith("y") else a for name, a in arrays(NAMES["keras"]).items()}
    np.savez(path, **wide)  # pyright: ignore[reportArgumentType]
    assert load(str(path)).train.labels.tolist() == [0, 1, 2, 0, 1, 2]


class Trap:
    """Unpickling it would leave a mark."""

    sprung = False

    def __reduce__(self) -> tuple:
        return setattr, (Trap, "sprung", True)


def test_a_pickle_in_an_npz_is_refused_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    trap = np.array([Trap()], dtype=object)
    np.savez(path, allow_pickle=True, **(arrays(NAMES["ours"]) | {"train_images": trap}))  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=r"toy\.npz: an array in it cannot be read: Object arrays cannot be loaded"):
        load(str(path))
    (tmp_path / "bare.npz").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match=r"bare\.npz: not an NPZ file"):
        load(str(tmp_path / "bare.npz"))
    assert not Trap.sprung


def test_bad_npz_files(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    for content in (b"", b"not a zip"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"toy\.npz: not an NPZ file; write one with numpy\.savez_compressed"):
            load(str(path))
    np.savez(path, x=np.zeros(3))
    with pytest.raises(
        DataError, match="it holds x; expected train_images, train_labels, test_images, test_labels, or"
    ):
        load(str(path))
    np.savez(path, **arrays(NAMES["ours"]))  # pyright: ignore[reportArgumentType]
    content = bytearray(path.read_bytes())
    content[200] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"an array in it cannot be read: Bad CRC-32"):
        load(str(path))


def test_an_npz_whose_header_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    np.savez(path, **arrays(NAMES["ours"]))  # pyright: ignore[reportArgumentType]
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    claim = members["train_images.npy"].replace(b"(6, 5, 4), }" + b" " * 12, b"(999999999999, 999999), }")
    assert claim != members["train_images.npy"]
    with zipfile.ZipFile(path, "w") as file:
        for name, content in (members | {"train_images.npy": claim}).items():
            file.writestr(name, content)
    with pytest.raises(DataError, match=r"toy\.npz: an array in it cannot be read"):
        load(str(path))


def test_an_unknown_name_gets_the_nearest_and_what_is_accepted() -> None:
    message = (
        "no data set is called 'fashion-mnits' (did you mean 'fashion-mnist'?); "
        "known: mnist-mini, mnist, fashion-mnist, cifar-10; or a path: a folder of IDX files, "
    )
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        load("fashion-mnits")


def test_paths_that_lead_to_nothing_of_use(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone: there is no such file or folder; expected a folder of IDX files"):
        load(str(tmp_path / "gone"))
    with pytest.raises(DataError, match=r"neither IDX files .* nor class folders of images are in it"):
        load(str(tmp_path))
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"notes\.txt: a file of this kind cannot be read as a data set; expected a"):
        load(str(tmp_path / "notes.txt"))
