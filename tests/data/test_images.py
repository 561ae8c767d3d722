"""Images in class folders, and what is drawn of them."""

import io
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data import Samples, hold_out, load
from glassformer.data.contact_sheet import contact_sheet
from glassformer.data.image_file import read_image, read_on_white
from glassformer.errors import DataError

from .builders import write_image


@pytest.fixture
def split(tmp_path: Path) -> Path:
    for part, count in (("train", 3), ("test", 2)):
        for label, name in enumerate(("cat", "dog")):
            for i in range(count):
                write_image(tmp_path / part / name / f"{i}.png", value=100 * label + i)
    return tmp_path


def test_train_and_test_folders(split: Path) -> None:
    (split / "train/cat/.DS_Store").write_text("hidden files are nobody's images")
    data = load(str(split))
    assert data.classes == ("cat", "dog")
    assert data.train.images.shape == (6, 5, 4, 1)
    assert data.train.labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert data.train.images[:, 0, 0, 0].tolist() == [0, 100, 1, 101, 2, 102]
    assert data.test.labels.tolist() == [0, 1, 0, 1]


def test_without_a_split_every_tenth_image_of_a_class_is_test(tmp_path: Path) -> None:
    for label, (name, count) in enumerate({"cat": 20, "dog": 30, "owl": 10}.items()):
        for i in range(count):
            write_image(tmp_path / name / f"{i:02}.png", value=50 * label + i)
    data = load(str(tmp_path))
    assert data.classes == ("cat", "dog", "owl")
    assert sorted(data.test.images[:, 0, 0, 0].tolist()) == [9, 19, 59, 69, 79, 109]
    assert len(data.train.labels) == 54
    assert np.bincount(data.train.labels).tolist() == [18, 27, 9]
    _, validation = hold_out(data.train, 1 / 3)
    assert np.bincount(validation.labels).tolist() == [6, 9, 3], "every class in its share, though folders are sorted"


def test_colour_and_other_formats(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for kind in ("png", "bmp", "gif", "jpg", "webp", "tiff", "ppm"):
            write_image(tmp_path / part / "red" / f"a.{kind}", shape=(5, 4, 3), value=200)
    assert load(str(tmp_path)).train.images.shape == (7, 5, 4, 3)


def test_an_image_of_another_size_is_named(split: Path) -> None:
    odd = write_image(split / "test/dog/1.png", shape=(6, 4))
    first = split / "train/cat/0.png"
    message = f"{odd}: 4x6 pixels, grey, but {first} is 4x5 pixels, grey; all images must be alike"
    with pytest.raises(DataError, match=re.escape(message)):
        load(str(split))
    write_image(odd, shape=(5, 4, 3))
    with pytest.raises(DataError, match=re.escape(f"{odd}: 4x5 pixels, colour, but {first} is 4x5 pixels, grey")):
        load(str(split))


def test_a_file_that_is_not_an_image_is_named(split: Path) -> None:
    notes = split / "train/cat/notes.txt"
    notes.write_text("not an image")
    with pytest.raises(DataError, match=re.escape(f"{notes}: not an image; expected one of BMP, GIF, JPEG, PNG")):
        load(str(split))


def test_a_format_that_could_start_a_program_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.eps"
    Image.new("L", (4, 5)).save(path)
    with pytest.raises(DataError, match=r"a\.eps: not an image; expected one of BMP, "):
        read_image(path)


def test_folders_that_are_not_complete(split: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (split / "train/owl").mkdir()
    with pytest.raises(DataError, match=r"owl: the class folder is empty; put images into it or remove it"):
        load(str(split))
    write_image(split / "train/owl/0.png")
    with pytest.raises(DataError, match=r"only one of train and test has owl; both need the same class folders"):
        load(str(split))
    half = tmp_path_factory.mktemp("half")
    write_image(half / "train/cat/0.png")
    with pytest.raises(DataError, match=r"there is no folder test in it; expected both train and test"):
        load(str(half))
    (half / "test").mkdir()
    with pytest.raises(DataError, match=r"test: there are no class folders in it; expected one folder of images per"):
        load(str(half))
    few = tmp_path_factory.mktemp("few")
    write_image(few / "cat/0.png")
    with pytest.raises(DataError, match=r"cat: 1 images, too few to make every tenth a test image; bring ten"):
        load(str(few))


def png_claiming(columns: int, rows: int) -> bytes:
    """A PNG of a few bytes whose header claims a size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("side", [10_000, 50_000], ids=["where Pillow warns", "where Pillow refuses"])
def test_a_decompression_bomb_is_refused(tmp_path: Path, side: int) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_claiming(side, side))
    message = f"{path}: refused, as unpacking it could fill the memory: Image size ({side * side} pixels) exceeds limit"
    with pytest.raises(DataError, match=re.escape(message)):
        read_image(path)


def test_damaged_images(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png", shape=(60, 40))
    whole = path.read_bytes()
    for content in (whole[:60], whole[:-30], png_claiming(10, 10)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{re.escape(str(path))}: the image is damaged or cut short: "):
            read_image(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.png: not an image"):
        read_image(path)
    with pytest.raises(DataError, match=r"gone\.png: there is no such file"):
        read_image(tmp_path / "gone.png")
    with pytest.raises(DataError, match="cannot be read: Is a directory; expected an image"):
        read_image(tmp_path)


def test_what_eight_bits_cannot_say_is_refused(tmp_path: Path) -> None:
    deep = tmp_path / "deep.png"
    Image.fromarray(np.full((5, 4), 40_000, np.uint16)).save(deep)
    with pytest.raises(DataError, match=r"deep\.png: more than 8 bits per pixel \(mode I;16\); save it with 8 bits"):
        read_image(deep)
    clear = write_image(tmp_path / "clear.png", shape=(5, 4, 4), value=0)
    with pytest.raises(DataError, match=r"clear\.png: it has transparent pixels; flatten it onto a background"):
        read_image(clear)  # a data set; a single picture is put on white by `glassformer predict`
    opaque = write_image(tmp_path / "opaque.png", shape=(5, 4, 4), value=255)
    assert read_image(opaque).shape == (5, 4, 3)


def test_a_contact_sheet_has_a_row_for_each_class() -> None:
    values = np.array([10, 20, 30, 40, 50], np.uint8)
    samples = Samples(
        images=np.broadcast_to(values[:, None, None, None], (5, 28, 28, 1)), labels=np.array([1, 0, 1, 1, 0])
    )
    sheet = contact_sheet(samples, ("a", "b"), columns=2)
    last = np.asarray(sheet)[:, sheet.width - 4 - 28], np.asarray(sheet)[:, sheet.width - 4 - 28 - 60]
    assert [right[32, 0] for right in last] == [50, 20], "class a: the samples 20, 50"
    assert [right[92, 0] for right in last] == [30, 10], "class b: the first two of 10, 30, 40"
    assert contact_sheet(samples, ("a", "b"), columns=2, rows=1).height == sheet.height // 2 + 2
    written = io.BytesIO()
    sheet.save(written, "PNG")


def test_a_contact_sheet_in_colour_leaves_empty_places_white() -> None:
    red = np.zeros((1, 32, 32, 3), np.uint8)
    red[..., 0] = 255
    sheet = contact_sheet(Samples(images=red, labels=np.array([1])), ("none", "one"), columns=1)
    pixels = np.asarray(sheet)
    assert pixels[20, -20].tolist() == [255, 255, 255]
    assert pixels[4 + 36 + 16, -20].tolist() == [255, 0, 0]


def test_a_photograph_is_turned_upright(tmp_path: Path) -> None:
    sideways = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    orientation = Image.Exif()
    orientation[0x0112] = 6  # held turned: rotate by 90 degrees to see it upright
    sideways.save(tmp_path / "photo.png", exif=orientation)
    assert read_image(tmp_path / "photo.png").shape == (4, 3, 1)


def test_a_palette_with_degrees_of_transparency(tmp_path: Path) -> None:
    """Pillow warns where such an image is converted without them."""
    image = Image.new("P", (2, 1))
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.putdata([0, 1])
    for alpha, second in ((b"\xff\xff", (0, 255, 0)), (b"\xff\x00", (255, 255, 255))):
        image.save(tmp_path / "image.png", transparency=alpha)
        pixels, transparent = read_on_white(tmp_path / "image.png")
        assert transparent == (alpha[1] == 0)
        assert pixels.tolist() == [[[255, 0, 0], list(second)]]
