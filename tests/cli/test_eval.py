"""glassformer eval: what it prints adds up, and is what the run's own predictions say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from glassformer.cli.eval import class_table, confusion_picture, confusion_table, eval_
from glassformer.data import load as load_data
from glassformer.data.idx import header
from glassformer.errors import CheckpointError, DataError, FileError, UnknownNameError
from glassformer.predict.run import SHIPPED, Evaluation, load

app = typer.Typer()
app.command("eval")(eval_)


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


def invoked(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def write_mnist_like(folder: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    folder.mkdir()
    for part in ("train", "t10k"):
        for kind, array in (("images-idx3", images[..., 0]), ("labels-idx1", labels.astype(np.uint8))):
            (folder / f"{part}-{kind}-ubyte").write_bytes(header(array) + array.tobytes())
    return folder


def test_the_shipped_model_is_scored_on_the_bundled_digits() -> None:
    answer = json.loads(invoked("--json").splitlines()[-1])
    confusion = np.array(answer["confusion"])
    run, test = load(), load_data("mnist-mini").test
    assert answer["count"] == confusion.sum() == 2000
    assert answer["accuracy"] == confusion.trace() / 2000 == (run.predict(test.images) == test.labels).mean()
    assert answer["accuracy"] > 0.95
    assert confusion.sum(axis=1).tolist() == np.bincount(test.labels).tolist()
    assert confusion.sum(axis=0).tolist() == np.bincount(run.predict(test.images), minlength=10).tolist()
    chosen = run.probabilities(test.images)[np.arange(2000), test.labels]
    assert answer["loss"] == pytest.approx(-np.log(chosen).mean())
    for i, row in enumerate(answer["per_class"]):
        assert row["count"] == confusion[i].sum()
        assert row["recall"] == confusion[i, i] / confusion[i].sum()
        assert row["precision"] == confusion[i, i] / confusion[:, i].sum()


def test_the_text_holds_the_same_numbers_in_aligned_tables() -> None:
    text = invoked()
    answer = json.loads(invoked("--json").splitlines()[-1])
    lines = text.splitlines()
    assert lines[0] == "vit-pico on the 2,000 test images of mnist-mini"
    assert lines[1] == f"accuracy {100 * answer['accuracy']:.2f} %   loss {answer['loss']:.4f}"
    matrix = lines[-10:]
    assert len({len(line) for line in matrix}) == 1
    read = [[0 if cell == "." else int(cell) for cell in line.split()[1:]] for line in matrix]
    assert read == answer["confusion"]


def test_another_data_set_and_a_picture(tmp_path: Path) -> None:
    test = load_data("mnist-mini").test
    folder = write_mnist_like(tmp_path / "few", test.images[:100], test.labels[:100])
    answer = json.loads(invoked("--data", folder, "--png", tmp_path / "made" / "c.png", "--json").splitlines()[-1])
    assert answer["count"] == np.sum(answer["confusion"]) == 100
    assert answer["data"] == str(folder)
    with Image.open(answer["png"]) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 600


def test_classes_that_nothing_was_predicted_as_and_long_names() -> None:
    found = Evaluation(
        accuracy=0.5,
        loss=1.0,
        confusion=np.array([[3, 0, 1], [2, 0, 0], [0, 0, 0]]),
        classes=("T-shirt/top", "coat", "bag"),
    )
    assert class_table(found).splitlines() == [
        "class          count    recall  precision",
        "T-shirt/top        4   75.00 %    60.00 %",
        "coat               2    0.00 %          -",
        "bag                0         -     0.00 %",
    ]
    assert confusion_table(found).splitlines() == [
        "              0 1 2",
        "0 T-shirt/top 3 . 1",
        "1 coat        2 . .",
        "2 bag         . . .",
    ]
    assert confusion_picture(found, "clothes").startswith(b"\x89PNG")


def test_classes_of_other_names_get_a_note(tmp_path: Path) -> None:
    test = load_data("mnist-mini").test
    for name, label in (("one", 1), ("two", 2)):
        for part in ("train", "test"):
            (tmp_path / part / name).mkdir(parents=True)
            Image.fromarray(test.images[test.labels == label][0, ..., 0]).save(tmp_path / part / name / "0.png")
    result = invoke("--data", tmp_path)
    assert result.exit_code == 0, result.output
    assert "have other names than the run's; labels are compared by number" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["gone"], CheckpointError, "gone: not a run folder, it has no recipe.toml"),
        (["--data", "mnits"], UnknownNameError, "did you mean 'mnist'"),
        (["--data", "./wide"], DataError, r"images of shape \(3, 28, 29, 1\) came, expected \(N, 28, 28, 1\)"),
        (["--png", "file/c.png"], FileError, "file/c.png: cannot be written"),
    ],
)
def test_mistakes_are_explained(
    arguments: list[str], error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_mnist_like(tmp_path / "wide", np.ones((3, 28, 29, 1), np.uint8), np.arange(3))
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(error, match=message):
        raise invoke(*arguments).exception


def test_help_shows_an_example() -> None:
    assert "Example: `glassformer eval " in invoked("--help")


def test_shipped_weights_are_small_good_and_tell_nothing_about_the_machine_they_were_made_on() -> None:
    folder = load().path
    assert folder.name == SHIPPED
    assert sorted(file.name for file in folder.iterdir()) == ["metrics.json", "model.safetensors", "recipe.toml"]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 20_000
    for file in folder.iterdir():
        content = file.read_bytes()
        assert not any(word in content for word in (b"/work", b"/tmp", b"/home", b"/root", b"/Users"))
    metrics = load().metrics
    assert metrics["test_accuracy"] > 0.96
    assert metrics["parameters"] == 3482
    assert load().recipe.data == "mnist-mini"
