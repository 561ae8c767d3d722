"""glassformer embed: vectors in a file, a table and a picture of a handful."""

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from glassformer.cli.embed import principal, spread
from glassformer.predict.run import Run, load
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Embed

from ..train.text_runs import untrained
from .command import glassformer

TEXTS = ["<up> one two", '<down> "two", six', "<up> six"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    masked = untrained(tmp_path_factory.mktemp("masked"), "masked")
    folder = RunFolder(tmp_path_factory.mktemp("encoder"))
    recipe = replace(masked.recipe, model=masked.model.backbone, task=Embed("first", normalise=True), data="")
    assert masked.tokeniser
    folder.save_tokeniser(masked.tokeniser)
    folder.save_model(recipe, masked.params.bert, (), epoch=0)
    folder.save_recipe(recipe)
    return load(folder.path)


def test_a_table_of_a_handful(run: Run, tmp_path: Path) -> None:
    said = glassformer("embed", run.path, *TEXTS, "--cut", "--png", tmp_path / "texts.png")
    assert said.returncode == 0, said.stderr
    lines = said.stdout.splitlines()
    assert lines[0] == "3 vectors of 16 numbers"
    vectors = run.embed(TEXTS, cut=True)
    cosines = [[float(word) for word in line.split()[1:4]] for line in lines[3:6]]
    np.testing.assert_allclose(cosines, vectors @ vectors.T, atol=6e-4)
    assert [line[25:] for line in lines[3:6]] == TEXTS
    assert lines[-1] == f"wrote {tmp_path / 'texts.png'}"
    with Image.open(tmp_path / "texts.png") as picture:
        assert picture.size == (1650, 750)
    found = json.loads(glassformer("embed", run.path, *TEXTS, "--cut", "--json").stdout)
    assert (found["count"], found["width"], found["inputs"]) == (3, 16, TEXTS)
    np.testing.assert_allclose(found["vectors"], vectors, atol=1e-6)
    np.testing.assert_allclose(found["similarity"], vectors @ vectors.T, atol=1e-5)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv"])
def test_a_file_by_its_ending(ending: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, file = tmp_path / f"vectors{ending}", tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS[:2]) + "\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO(TEXTS[2]))
    options = ("--pooling", "mean", "--no-normalise", "--cut")
    said = glassformer("embed", run.path, "-", "--file", file, "--out", out, *options)
    assert (said.returncode, said.stdout) == (0, f"3 vectors of 16 numbers\nwrote {out}\n")
    texts = [TEXTS[2], *TEXTS[:2]]
    expected = run.embed(texts, pooling="mean", normalise=False, cut=True)
    names = texts
    if ending == ".npy":
        vectors = np.load(out)
    elif ending == ".npz":
        with np.load(out) as found:
            vectors, names = found["vectors"], found["inputs"].tolist()
    else:
        head, *rows = csv.reader(io.StringIO(out.read_text()))
        assert head == ["input", *map(str, range(16))]
        names, vectors = [row[0] for row in rows], np.array([row[1:] for row in rows], np.float32)
    assert names == texts
    np.testing.assert_array_equal(vectors, expected)


def test_pictures_and_rows(tmp_path: Path) -> None:
    shipped = load().path
    found = json.loads(glassformer("embed", shipped, "test:0", "test:1", "--json").stdout)
    assert (found["count"], found["inputs"]) == (2, ["test:0", "test:1"])
    iris = untrained(tmp_path, "iris")
    found = json.loads(glassformer("embed", iris.path, "5.1,3.5,1.4,0.2", "6,3,4.8,1.8", "--json").stdout)
    rows = np.array([[5.1, 3.5, 1.4, 0.2], [6, 3, 4.8, 1.8]])
    np.testing.assert_allclose(found["vectors"], iris.embed(rows), atol=1e-6)


def test_what_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gap.txt").write_text("<up> one\n\n<up> two\n")
    (tmp_path / "none.txt").write_text("")
    many = ["<up>"] * 13
    for words, code, message in (
        ((), 2, "nothing came; expected one or more"),
        ((*many,), 2, "of 13 inputs no table is made"),
        (("<up>", "--png", tmp_path / "one.png"), 2, "1 inputs came, a picture takes 2 to 40"),
        (("<up>", "--out", tmp_path / "vectors.txt"), 2, "expected a name in .npy, .npz, .csv"),
        (("<up>", ""), 1, "text 2: there is nothing in it to read"),
        (("--file", tmp_path / "gap.txt"), 1, "gap.txt:2: there is nothing on the line"),
        (("--file", tmp_path / "none.txt"), 1, "none.txt:1: there is nothing on the line"),
        (("--file", tmp_path / "lost.txt"), 1, "lost.txt: there is no such file"),
        (("<up>", "--out", "/proc/vectors.npy"), 1, "cannot be written"),
        (("<up> one two six",), 1, "is 13 symbols long, the run's context takes 11"),
    ):
        said = glassformer("embed", run.path, *words)
        assert said.returncode == code, (words, said.stderr)
        assert message in " ".join(said.stderr.replace("│", " ").split()), (words, said.stderr)


def test_other_commands_say_what_the_run_is_for(run: Run) -> None:
    hint = f"this run gives embeddings, and no answers: glassformer embed {run.path}"
    for words in (
        ("predict", "<up> one", "--run", run.path),
        ("predict", "test:3", "--run", run.path),
        ("eval", run.path),
    ):
        said = glassformer(*words)
        assert (said.returncode, hint in said.stderr) == (1, True), said.stderr
    page = run.path.parent / "page.html"
    said = glassformer("trace", run.path, "<up> one", "--grad")
    assert (said.returncode, "no labels, and so no loss and no gradient" in said.stderr) == (1, True), said.stderr
    said = glassformer("view", run.path, "<up> one", "--out", page)  # the gradient of the sum of its numbers
    assert (said.returncode, page.is_file()) == (0, True), said.stderr
    said = glassformer("info", run.path)
    assert f"embeddings, first of the tokens, normalised: glassformer embed {run.path}" in said.stdout


def test_the_two_directions_in_which_they_vary_most() -> None:
    angle = np.linspace(0, 2 * np.pi, 9)[:-1]
    flat = np.stack([3 * np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    places, shares = principal((flat @ turn + 7).astype(np.float32))
    np.testing.assert_allclose(np.abs(places), np.abs(flat[:, :2]), atol=1e-4)
    np.testing.assert_allclose(shares, [0.9, 0.1], atol=1e-5)
    places, shares = principal(np.ones((3, 1), np.float32))  # all the same
    assert places.shape == (3, 2)
    assert np.isfinite(shares).all()


def test_labels_do_not_cover_each_other() -> None:
    for heights in ([0.5] * 9, [0.0, 0.01, 0.9, 0.99, 1.0], [], [0.3], [1.0] * 30):
        found = spread(list(heights))
        assert all(0 <= one <= 1 + 1e-9 for one in found)
        assert (np.diff(found) > 0.03).all()
