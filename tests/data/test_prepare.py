"""Pictures of any size become what the model was trained on, and the words say truly what was done."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data import load
from glassformer.data.idx import header
from glassformer.data.prepare import Invert, address, is_dark_on_light, prepare, read_pictures
from glassformer.errors import DataError

MODEL = (28, 28, 1)
DIGITS = load("mnist-mini").test.images


def paper(rows: int, columns: int, top: int, left: int, ink: np.ndarray, ground: int = 255) -> np.ndarray:
    """A sheet of even ground with the ink laid on it, (rows, columns, 1)."""
    sheet = np.full((rows, columns), ground, np.uint8)
    sheet[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    return sheet[..., None]


def enlarged(digit: np.ndarray, side: int) -> np.ndarray:
    return np.asarray(Image.fromarray(digit[..., 0]).resize((side, side), Image.Resampling.BICUBIC))


def box(image: np.ndarray) -> tuple[int, int]:
    """Height and width of what is not black."""
    inked = image[..., 0] > 0
    return int(np.ptp(np.flatnonzero(inked.any(axis=1)))) + 1, int(np.ptp(np.flatnonzero(inked.any(axis=0)))) + 1


def centre_of_mass(image: np.ndarray) -> np.ndarray:
    grey = image[..., 0].astype(float)
    return np.array([np.average(np.arange(28), weights=grey.sum(axis=axis)) for axis in (1, 0)])


def test_a_bar_of_ink_is_inverted_cropped_scaled_and_centred() -> None:
    image, done = prepare(paper(480, 640, 300, 40, np.zeros((120, 90), np.uint8)), MODEL)
    assert done == [
        "inverted: dark ink on light ground",
        "cropped 90x120 from 640x480",
        "scaled to 15x20",
        "centred",
    ]
    assert image.shape == MODEL
    assert image.dtype == np.uint8
    assert image.max() == 255
    assert box(image) == (20, 15)
    assert np.abs(centre_of_mass(image) - 14).max() <= 0.5


def test_a_wide_picture_fills_the_width() -> None:
    image, done = prepare(paper(100, 300, 50, 20, np.zeros((20, 200), np.uint8)), MODEL)
    assert box(image) == (2, 20)
    assert "scaled to 20x2" in done


def test_a_lopsided_shape_is_centred_by_mass_and_never_cut_off() -> None:
    ink = np.full((200, 100), 255, np.uint8)
    ink[:20] = 0  # a heavy bar on top
    ink[:, 48:51] = 0  # a thin stem
    image, _ = prepare(paper(400, 400, 100, 100, ink), MODEL)
    assert box(image) == (20, 10)
    rows = np.flatnonzero(image[..., 0].any(axis=1))
    assert rows[0] == 8, "as low as it goes: the mass is near its top"
    assert rows[-1] == 27


def test_a_redrawn_digit_comes_back_almost_as_it_was() -> None:
    """Enlarged tenfold, inverted and put into a corner, then prepared: the original, but for a little blur."""
    differences, untouched = [], []
    for digit in DIGITS[:50]:
        image, _ = prepare(paper(400, 500, 90, 10, 255 - enlarged(digit, 280)), MODEL)
        differences.append(np.abs(image.astype(float) - digit).mean())
        untouched.append(digit.mean())
    assert np.mean(differences) < 0.25 * np.mean(untouched)  # 7 of 255 levels; a shift by one pixel costs 20


@pytest.mark.parametrize("size", [(28, 28), (28, 29), (300, 200)])
def test_bright_ink_on_black_is_not_inverted(size: tuple[int, int]) -> None:
    sheet = paper(*size, 4, 4, np.full((20, 9), 255, np.uint8), ground=0)
    _, done = prepare(sheet, MODEL)
    assert not any("inverted" in word for word in done)


def test_no_digit_of_mnist_is_taken_for_dark_ink_and_every_negative_is() -> None:
    assert not any(is_dark_on_light(digit[None]) for digit in DIGITS[:500])
    assert all(is_dark_on_light(255 - digit[None]) for digit in DIGITS[:500])


def test_a_noisy_photograph_on_dim_shaded_paper() -> None:
    """Ground 170 falling to 120, ink 60, noise: neither 127 nor any other fixed level would tell them apart."""
    rng = np.random.default_rng(0)
    ink = enlarged(DIGITS[0], 200) / 255
    sheet = np.full((480, 640), 170.0) - np.linspace(0, 50, 640)
    sheet[140:340, 220:420] += ink * (60 - sheet[140:340, 220:420])
    noisy = (sheet + rng.normal(0, 8, sheet.shape)).clip(0, 255).astype(np.uint8)[..., None]
    image, done = prepare(noisy, MODEL)
    clean, _ = prepare(DIGITS[0].repeat(2, axis=0).repeat(2, axis=1), MODEL)
    assert done[0] == "inverted: dark ink on light ground"
    assert "contrast stretched" in done
    assert np.corrcoef(image.ravel(), clean.ravel())[0, 1] > 0.9
    assert np.median(image) == 0, "the paper has become black"


@pytest.mark.parametrize(
    ("invert", "words"),
    [
        ("auto", ["used as it is: 28x28"]),
        ("no", ["used as it is: 28x28"]),
        ("yes", ["inverted: as asked", "used as it is: 28x28"]),
    ],
)
def test_an_image_of_the_right_size_is_used_as_it_is(invert: Invert, words: list[str]) -> None:
    image, done = prepare(DIGITS[3], MODEL, invert)
    assert done == words
    np.testing.assert_array_equal(image, 255 - DIGITS[3] if invert == "yes" else DIGITS[3])


def test_the_right_size_with_dark_ink_is_only_inverted() -> None:
    image, done = prepare(255 - DIGITS[3], MODEL)
    np.testing.assert_array_equal(image, DIGITS[3])
    assert done == ["inverted: dark ink on light ground", "used as it is: 28x28"]


def test_colour_becomes_grey_for_a_grey_model() -> None:
    sheet = np.full((100, 100, 3), 255, np.uint8)
    sheet[20:80, 40:60] = (200, 0, 0)  # red ink
    image, done = prepare(sheet, MODEL)
    assert done[:2] == ["made grey", "inverted: dark ink on light ground"]
    assert image.max() == 255


def test_a_colour_model_gets_the_middle_of_the_photograph() -> None:
    photograph = np.zeros((60, 100, 3), np.uint8)
    photograph[:, 20:80] = (10, 20, 200)
    image, done = prepare(photograph, (32, 32, 3))
    assert done == ["cropped 60x60 from the middle of 100x60", "scaled to 32x32"]
    assert (image == (10, 20, 200)).all()
    grey, done = prepare(DIGITS[0], (28, 28, 3))
    assert done == ["grey repeated in each colour", "used as it is: 28x28"]
    np.testing.assert_array_equal(grey[..., 2], DIGITS[0][..., 0])
    with pytest.raises(DataError, match="a picture has 1 or 3 channels, this model takes images of 4"):
        prepare(DIGITS[0], (28, 28, 4))


@pytest.mark.parametrize("shape", [(28, 28, 1), (50, 70, 1), (1, 1, 1), (90, 90, 3)])
def test_a_blank_image_is_refused(shape: tuple[int, ...]) -> None:
    sheet = np.full(shape, 250, np.uint8)
    sheet[0, 0] = 244  # the noise of a scan
    with pytest.raises(DataError, match="page: the image is blank: nothing stands out from its ground"):
        prepare(sheet, MODEL, where="page")


def test_dark_ink_that_may_not_be_inverted_is_no_ink() -> None:
    sheet = paper(60, 60, 20, 20, np.zeros((20, 9), np.uint8))
    with pytest.raises(DataError, match="nothing is brighter than the ground"):
        prepare(sheet, MODEL, "no")


def test_files_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stack = 255 - DIGITS[:5, ..., 0]
    Path("five").write_bytes(gzip.compress(header(stack) + stack.tobytes()))
    pictures = read_pictures("five", MODEL, "mnist-mini")
    assert [picture.name for picture in pictures] == [f"five:{i}" for i in range(5)]
    for i, picture in enumerate(pictures):
        np.testing.assert_array_equal(picture.image, DIGITS[i])
        assert picture.done == ["inverted: dark ink on light ground", "used as it is: 28x28"]
    (third,) = read_pictures("five:3", MODEL, "mnist-mini")
    np.testing.assert_array_equal(third.image, DIGITS[3])
    (test,) = read_pictures("test:17", MODEL, "mnist-mini")
    np.testing.assert_array_equal(test.image, DIGITS[17])
    assert test.label == 7
    assert read_pictures("test:17", MODEL, "mnist-mini", "yes")[0].done == ["inverted: as asked"]
    Image.fromarray(DIGITS[0][..., 0]).save("odd:17.png")
    Path("odd:17.png").rename("odd:17")
    assert address("odd:17") == ("odd:17", None), "a file of that name comes first"
    np.testing.assert_array_equal(read_pictures("odd:17", MODEL, "")[0].image, DIGITS[0])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("test:2000", "test:2000: there are 2,000 images, numbered 0 to 1,999"),
        ("five-ubyte:5", "five-ubyte:5: there are 5 images, numbered 0 to 4"),
        ("gone.png", "gone.png: there is no such file"),
        ("gone.png:3", "gone.png:3: there is no such file"),
        ("text.png", "text.png: not an image; expected one of BMP"),
        ("text-ubyte", "text-ubyte: magic number 1852797984, expected 2051"),
        ("cut.png", "cut.png: the image is damaged or cut short"),
        (".", "cannot be read: Is a directory; expected an image"),
        ("labels-ubyte", r"magic number 2049 \(labels\), expected 2051 \(images\)"),
    ],
)
def test_what_is_no_image_is_named(word: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stack = DIGITS[:5, ..., 0]
    Path("five-ubyte").write_bytes(header(stack) + stack.tobytes())
    Path("labels-ubyte").write_bytes(header(stack[:, 0, 0]) + bytes(5))
    Path("text.png").write_text("not an image")
    Path("text-ubyte").write_text("not an image")
    Image.fromarray(enlarged(DIGITS[0], 200)).save("whole.png")
    Path("cut.png").write_bytes(Path("whole.png").read_bytes()[:300])
    with pytest.raises(DataError, match=message):
        read_pictures(word, MODEL, "mnist-mini")


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("1", (2000, 2000)).save(tmp_path / "bomb.png")  # a few hundred bytes
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    with pytest.raises(DataError, match=r"bomb\.png: refused, as unpacking it could fill the memory"):
        read_pictures(str(tmp_path / "bomb.png"), MODEL, "mnist-mini")
