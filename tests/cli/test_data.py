"""glassformer data: list, get, show and sheet as a user runs them, offline."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.data.text_sources import load_texts

from . import command

PLACES = load_texts("places")


def glassformer(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return command.glassformer(*arguments, folder=folder, GLASSFORMER_DATA=str(folder / "cache"))


@pytest.mark.parametrize("command", [(), ("list",), ("get",), ("show",), ("sheet",)], ids=" ".join)
def test_help_shows_an_example(command: tuple[str, ...], tmp_path: Path) -> None:
    result = glassformer("data", *command, "--help", folder=tmp_path)
    assert result.returncode == 0
    assert "Example: glassformer data " in result.stdout


def test_list_says_what_is_here_and_what_has_to_be_fetched(tmp_path: Path) -> None:
    images, texts = glassformer("data", "list", folder=tmp_path).stdout.split("\n\n")
    lines = images.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "mnist-mini", "mnist", "fashion-mnist", "cifar-10"]
    assert lines[2].endswith("not here yet: `glassformer data get mnist` fetches 12 MB")
    answer = json.loads(glassformer("data", "list", "--json", folder=tmp_path).stdout.splitlines()[-1])
    assert [row["here"] for row in answer["data"]] == [True, False, False, False]
    assert answer["data"][1]["folder"] == str(tmp_path / "cache/mnist")
    lines = texts.splitlines()
    assert [line.split()[0] for line in lines] == ["text", "pydoc", "tiny-shakespeare", "dates", "places", "names"]
    assert lines[1].endswith("comes with Python")
    assert lines[2].endswith("not here yet: `glassformer data get tiny-shakespeare` fetches 1 MB")
    assert [row["here"] for row in answer["texts"]] == [True, False, True, True, True]


def test_get_says_what_was_found(tmp_path: Path) -> None:
    text = glassformer("data", "get", "mnist-mini", folder=tmp_path).stdout
    assert text.startswith("mnist-mini: 8,000 training and 2,000 test images of 28x28x1, 10 classes, in ")
    answer = json.loads(glassformer("data", "get", "mnist-mini", "--json", folder=tmp_path).stdout.splitlines()[-1])
    assert answer["classes"] == list("0123456789")
    assert answer["image"] == [28, 28, 1]


def test_get_says_what_texts_were_found(tmp_path: Path) -> None:
    text = glassformer("data", "get", "places", folder=tmp_path).stdout
    pattern = (
        r"places: [\d,]+ training and [\d,]+ test texts, [\d,]+ characters in all, 26 classes \(comes with Babel\)\n"
    )
    assert re.fullmatch(pattern, text)
    (tmp_path / "notes.txt").write_text("a line of text\n" * 20)
    answer = json.loads(glassformer("data", "get", "notes.txt", "--json", folder=tmp_path).stdout.splitlines()[-1])
    assert answer["characters"] == 300
    assert answer["where"] == str(tmp_path / "notes.txt")


def test_show_prints_texts_and_what_is_known_about_them(tmp_path: Path) -> None:
    shown = glassformer("data", "show", "dates", "--count", "2", folder=tmp_path).stdout
    assert len(shown.split("\n\n")) == 2
    assert re.match(r"<\w+> .*\n  -> \d{4}-\d\d-\d\d\n", shown)
    assert re.search(r"^  year: \d{4}$", shown, re.MULTILINE)
    result = glassformer("data", "show", "places", "--count", "3", "--test", "--json", folder=tmp_path)
    examples = json.loads(result.stdout.splitlines()[-1])["examples"]
    known = {(each.text, PLACES.classes[each.label]) for each in PLACES.test}
    assert len({(each["text"], each["label"]) for each in examples} & known) == 3


def test_show_cuts_long_texts_for_people_and_not_for_programs(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("[bold]é[/bold] " * 100)
    assert glassformer("data", "show", "notes.txt", "--count", "9", folder=tmp_path).stdout == (
        ("[bold]é[/bold] " * 100)[:400] + " … and 950 characters more\n"
    )
    answer = json.loads(glassformer("data", "show", "notes.txt", "--json", folder=tmp_path).stdout.splitlines()[-1])
    assert answer["examples"] == [{"text": "[bold]é[/bold] " * 90}]


def test_sheet_writes_a_picture(tmp_path: Path) -> None:
    result = glassformer("data", "sheet", "mnist-mini", "--out", "made/sheet.png", "--json", folder=tmp_path)
    answer = json.loads(result.stdout.splitlines()[-1])
    with Image.open(tmp_path / "made/sheet.png") as picture:
        assert picture.size == (answer["width"], answer["height"])
        assert picture.height == 4 + 10 * 60
    result = glassformer("data", "sheet", "mnist-mini", "--test", "--rows", "3", "--columns", "2", folder=tmp_path)
    assert result.stdout == "wrote sheet.png\n"


def test_a_sheet_shows_how_training_augments(tmp_path: Path) -> None:
    """First the image itself, then draws: they move, and what is erased is black."""
    changes = ("--set", "training.shift=0", "--set", "training.augment.rotate=20", "--set", "training.augment.erase=1")
    sheet = ("data", "sheet", "mnist-mini", "--rows", "3", "--columns", "4")
    assert glassformer(*sheet, "--augment", *changes, folder=tmp_path).stdout == "wrote sheet.png\n"
    assert glassformer(*sheet, "--out", "plain.png", folder=tmp_path).returncode == 0
    with Image.open(tmp_path / "sheet.png") as drawn, Image.open(tmp_path / "plain.png") as plain:
        assert drawn.size == plain.size
        ours, theirs = (np.asarray(picture)[4:60, -4 * 60 :, 0] for picture in (drawn, plain))
    tiles = [ours[:, i * 60 : i * 60 + 56] for i in range(4)]
    assert (tiles[0] == theirs[:, :56]).all()
    assert len({tile.tobytes() for tile in tiles}) == 4
    assert all(tile.sum() < 1.1 * tiles[0].sum() for tile in tiles)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("get", "mnits"), 1, "glassformer: no data set is called 'mnits' (did you mean 'mnist'?); known: mnist-mini"),
        (("get", "./gone"), 1, "glassformer: ./gone: there is no such file or folder; expected a folder of IDX files"),
        (("sheet", "mnist-mini", "--out", "file/sheet.png"), 1, "glassformer: file/sheet.png: cannot be written: "),
        (("sheet", "mnist-mini", "--columns", "0"), 2, "Invalid value for '--columns'"),
        (("sheet", "mnist-mini", "--set", "training.shift=1"), 2, "say --augment, too"),
        (
            ("sheet", "mnist-mini", "--augment", "--preset", "mlp"),
            1,
            "glassformer: mlp: it changes no image (training.",
        ),
        (("sheet", "file", "--augment"), 1, "glassformer: file: "),
        (("get",), 2, "Missing argument"),
        (("get", "pydco"), 1, "glassformer: no data set is called 'pydco' (did you mean 'pydoc'?); known: mnist-mini"),
        (("get", "file"), 1, "glassformer: file: 12 characters are too short to learn from; expected 100 or more"),
        (("show", "mnist"), 1, "glassformer: mnist: it holds images, not text; of text there are pydoc"),
        (("show", "gone.txt"), 1, "glassformer: gone.txt: there is no such file; expected a text file in UTF-8"),
        (("show", "pydoc", "--count", "0"), 2, "Invalid value for '--count'"),
    ],
)
def test_mistakes_get_a_message_and_no_traceback(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    result = glassformer("data", *arguments, folder=tmp_path)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
