"""glassformer predict: pictures as people have them, and what the command says about them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from glassformer.cli.predict import predict
from glassformer.data import load as load_data
from glassformer.data.idx import header
from glassformer.errors import CheckpointError, DataError
from glassformer.predict.run import load

app = typer.Typer()
app.command()(predict)

TEST = load_data("mnist-mini").test


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


def invoked(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def answered(*arguments: str | Path) -> dict[str, Any]:
    return json.loads(invoked(*arguments, "--json").splitlines()[-1])


def draw(path: Path, number: int) -> Path:
    """A test digit, large, in blue ink on white paper, in a corner that changes from one to the next."""
    side = 150 + 17 * (number % 7)
    ink = np.asarray(Image.fromarray(TEST.images[number, ..., 0]).resize((side, side), Image.Resampling.BICUBIC)) / 255
    sheet = np.full((480, 640, 3), 255.0)
    top, left = (number * 37) % (480 - side), (number * 91) % (640 - side)
    sheet[top : top + side, left : left + side] += ink[..., None] * (np.array([20, 30, 120]) - 255.0)
    Image.fromarray(sheet.astype(np.uint8)).save(path, quality=80)
    return path


def test_digits_drawn_large_dark_and_off_centre_are_still_read(tmp_path: Path) -> None:
    files = [draw(tmp_path / f"{i}.{'jpg' if i % 2 else 'png'}", i) for i in range(20)]
    answer = answered(*files)
    found = [image["class"] for image in answer["images"]]
    right = sum(a == str(b) for a, b in zip(found, TEST.labels[:20], strict=True))
    plain = int((load().predict(TEST.images[:20]) == TEST.labels[:20]).sum())
    assert right >= 18
    assert right >= plain - 1, "reading them from paper costs almost nothing"
    for image in answer["images"]:
        assert image["done"][:2] == ["made grey", "inverted: dark ink on light ground"]
        assert image["done"][-1] == "centred"


def test_probabilities_add_up_and_the_text_shows_three_of_them(tmp_path: Path) -> None:
    file = draw(tmp_path / "seven.png", 0)
    (image,) = answered(file)["images"]
    assert sum(image["probabilities"].values()) == pytest.approx(1)
    assert image["class"] == max(image["probabilities"], key=image["probabilities"].get) == "7"
    assert image["probability"] == image["probabilities"]["7"]
    first, second = invoked(file).splitlines()
    assert first.startswith(f"{file}  7 ")
    assert first.count("%") == 3
    assert second.strip() == ", ".join(image["done"])


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_a_transparent_drawing_is_put_on_white(mode: str, tmp_path: Path) -> None:
    ink = Image.fromarray(TEST.images[0, ..., 0])
    drawing = Image.new("LA" if mode == "LA" else "RGBA", (28, 28))  # black
    drawing.putalpha(ink)
    if mode == "P":
        drawing = drawing.quantize()
    drawing.resize((280, 280), Image.Resampling.NEAREST).save(tmp_path / "clear.png")
    Image.fromarray((255 - TEST.images[0, ..., 0]).repeat(10, 0).repeat(10, 1)).save(tmp_path / "paper.png")
    (clear,) = answered(tmp_path / "clear.png")["images"]
    (paper,) = answered(tmp_path / "paper.png")["images"]
    assert clear["class"] == paper["class"] == "7"
    assert clear["done"][0] == "transparent pixels put on white"
    assert clear["done"][-4:] == paper["done"]
    assert clear["probabilities"] == pytest.approx(paper["probabilities"], abs=1e-3)
    assert "  transparent pixels put on white, " in invoked(tmp_path / "clear.png")


def test_white_ink_is_not_seen_on_white(tmp_path: Path) -> None:
    drawing = Image.new("LA", (28, 28), 255)
    drawing.putalpha(Image.fromarray(TEST.images[0, ..., 0]))
    drawing.save(tmp_path / "white.png")
    with pytest.raises(DataError, match=r"white\.png, transparent pixels put on white: the image is blank"):
        raise invoke(tmp_path / "white.png").exception


def test_without_inversion_dark_ink_is_not_read(tmp_path: Path) -> None:
    Image.fromarray(255 - TEST.images[0, ..., 0]).save(tmp_path / "dark.png")
    assert answered(tmp_path / "dark.png")["images"][0]["class"] == "7"
    (as_is,) = answered(tmp_path / "dark.png", "--invert", "no")["images"]
    assert as_is["done"] == ["used as it is: 28x28"]
    (asked,) = answered(tmp_path / "dark.png", "--invert", "yes")["images"]
    assert asked["done"] == ["inverted: as asked", "used as it is: 28x28"]
    assert asked["probability"] == answered("test:0")["images"][0]["probability"]
    assert as_is["probabilities"] != asked["probabilities"]


def test_a_test_image_is_named_by_its_number() -> None:
    (image,) = answered("test:17")["images"]
    assert (image["image"], image["class"], image["label"]) == ("test:17", "7", "7")
    assert invoked("test:17").splitlines()[0].endswith("labelled 7")


def test_every_image_of_an_idx_file_is_read_and_ten_are_shown(tmp_path: Path) -> None:
    stack = TEST.images[:1203, ..., 0]
    file = tmp_path / "many-idx3-ubyte"
    file.write_bytes(header(stack) + stack.tobytes())
    answer = answered(file, "test:1")
    found = [int(image["class"]) for image in answer["images"]]
    assert len(found) == 1204
    assert found == [*load().predict(TEST.images[:1203]), found[1]]
    lines = invoked(file).splitlines()
    assert len(lines) == 12
    assert lines[9].startswith(f"{file}:9 ")
    assert lines[10].strip() == "used as it is: 28x28"
    assert lines[11] == "and 1,193 more; --json gives them all"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["text.png"], DataError, "text.png: not an image; expected one of BMP"),
        (["blank.png"], DataError, "blank.png: the image is blank"),
        (["gone.png"], DataError, "gone.png: there is no such file"),
        (["test:2000"], DataError, "test:2000: there are 2,000 images, numbered 0 to 1,999"),
        (["test:1", "--run", "gone"], CheckpointError, "gone: not a run folder"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.png").write_text("not an image")
    Image.new("L", (60, 40), 230).save("blank.png")
    with pytest.raises(error, match=message):
        raise invoke(*arguments).exception


def test_wrong_usage() -> None:
    assert invoke().exit_code == 2
    assert invoke("test:1", "--invert", "maybe").exit_code == 2


def test_help_shows_an_example() -> None:
    assert "Example: `glassformer predict " in invoked("--help")


def test_the_three_commands_cost_the_command_line_no_import_of_jax_or_numpy() -> None:
    code = """
import sys
import glassformer.cli.attend, glassformer.cli.eval, glassformer.cli.predict
sys.exit(any(name in sys.modules for name in ("jax", "numpy", "matplotlib", "PIL")))
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
