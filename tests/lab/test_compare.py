"""Runs against each other: scores add up to the run's own, pairs are real, words follow from tests, errors help."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from glassformer.cli.compare import CompareCommand
from glassformer.cli.compare import compare as command
from glassformer.data.table import load_csv
from glassformer.data.text_sources import KNOWN_TEXTS
from glassformer.errors import CheckpointError, DataError, SettingError
from glassformer.files import locked
from glassformer.lab.compare import Difference, Score, compare, word_of
from glassformer.lab.compare_text import as_csv, as_text, sentence
from glassformer.lab.over_seeds import OverSeeds
from glassformer.models import MLP, TinyIris
from glassformer.names import named_leaves, with_leaves
from glassformer.predict.per_sample import score_each
from glassformer.predict.run import load
from glassformer.train.recipe import Recipe, Training
from glassformer.train.resolve import resolved
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Regress

from ..train.small import small_data, write_npz
from ..train.text_runs import NUMBERS, drawn, untrained

app = typer.Typer()
app.command("compare", cls=CompareCommand)(command)


@pytest.fixture(scope="module", autouse=True)
def numbers_are_known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KNOWN_TEXTS, "numbers", NUMBERS)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on one data set: `good-N` know the bands, `bad-N` guess; `copy.npz` is the same data under another name."""
    folder = tmp_path_factory.mktemp("compare")
    write_npz(folder / "data.npz", small_data(tests=301))
    write_npz(folder / "copy.npz", small_data(tests=301))
    write_npz(folder / "other.npz", small_data(tests=299))
    for seed in range(1, 7):
        untrained_mlp(folder / f"good-{seed}", folder / "copy.npz", seed, knows=1.0)
        untrained_mlp(folder / f"bad-{seed}", folder / "data.npz", seed, knows=0.0)
    untrained_mlp(folder / "elsewhere", folder / "other.npz", 1, knows=1.0)
    return folder


def untrained_mlp(folder: Path, data: Path, seed: int, knows: float) -> None:
    """A linear map that sees the band of each class, by `knows`, in noise."""
    recipe = resolved(Recipe(data=str(data), model=MLP(hidden=()), training=Training(seed=seed)), small_data())
    band = np.zeros((8, 8, 3), np.float32)
    for label in range(3):
        band[2 * label : 2 * label + 3, :, label] = knows / 24
    save(folder, recipe, ("0", "1", "2"), {(64, 3): (band - band.mean(axis=2, keepdims=True)).reshape(64, 3)})


def save(
    folder: Path, recipe: Recipe, classes: tuple[str, ...], added: dict[Any, np.ndarray], size: float = 0.03
) -> None:
    """A run whose weights are noise, and what is added to those of a shape."""
    rng = np.random.default_rng(recipe.training.seed)
    shapes = jax.eval_shape(recipe.model.init, jax.random.key(0))
    leaves = {name: size * drawn(name, leaf.shape, rng) for name, leaf in named_leaves(shapes).items()}
    leaves = {name: np.float32(leaf + added.get(leaf.shape, 0.0)) for name, leaf in leaves.items()}
    run = RunFolder(folder)
    run.create(recipe)
    run.save_model(recipe, with_leaves(shapes, leaves), classes, 0)


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize("kind", ["classify", "tag", "gpt", "t5"])
def test_samples_add_up_to_the_score_of_the_run(kind: str, tmp_path: Path) -> None:
    run = untrained(tmp_path, kind)
    score, each = run.score(), score_each(run)
    assert each.right is not None
    assert each.right.score == pytest.approx(score.accuracy, abs=1e-7)
    assert each.loss.score == pytest.approx(score.loss, rel=1e-5)
    assert len(each.loss.value) == run.recipe.task.count(run.load_data().test)
    assert each.right.is_right_or_wrong == (kind in ("classify", "t5"))


def test_a_regression_has_a_loss_alone(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "\n".join(f"{i},{i % 3},{0.1 * i}" for i in range(200)))
    data = load_csv(tmp_path / "rows.csv", name=str(tmp_path / "rows.csv"), numbers=True)
    recipe = resolved(Recipe(data=data.name, model=TinyIris(), task=Regress()), data)
    for name, size in (("far", 30.0), ("near", 0.1)):
        save(tmp_path / name, recipe, data.classes, {}, size)
        run = load(tmp_path / name)
        each = score_each(run)
        assert each.right is None
        assert each.loss.score == pytest.approx(run.score().loss, rel=1e-5)
    (one,) = compare([[tmp_path / "far"], [tmp_path / "near"]]).differences
    assert (one.score.name, one.score.unit, one.test, one.word) == ("loss", "", "bootstrap", "better")
    assert sentence(one).startswith("near is better than far: loss ")


def test_two_runs_of_the_same_data_under_two_names(place: Path) -> None:
    found = compare([[place / "bad-1"], [place / "good-1"]])
    one, loss = found.differences
    runs = [load(place / name) for name in ("bad-1", "good-1")]
    test = small_data(tests=301).test
    right = [run.predict(test.images) == test.labels for run in runs]
    only = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
    assert (one.only, one.p) == (only, pytest.approx(stats.binomtest(only[1], sum(only)).pvalue))
    assert one.mean == pytest.approx(100 * (right[1].mean() - right[0].mean()))
    assert (one.word, loss.word) == ("better", "")
    assert found.data == (str(place / "data.npz"), str(place / "copy.npz"))
    said = as_text(found)
    assert "good-1 is better than bad-1: accuracy " in said
    assert (
        f"of {sum(only)} samples that one alone has right, good-1 has {only[1]} (exact McNemar p < 0.001)"
        in said.replace("\xa0", " ")
    )
    assert "this is about these weights, not about their recipes" in said


def test_several_pairs_are_corrected_and_seeds_are_paired(place: Path) -> None:
    names = [[place / name] for name in ("bad-1", "bad-2", "good-1")]
    every = compare(names)
    assert [(one.first, one.second) for one in every.differences[:3]] == [
        ("bad-1", "bad-2"),
        ("bad-1", "good-1"),
        ("bad-2", "good-1"),
    ]
    p = [one.p for one in every.differences[:3]]
    assert every.differences[0].p_holm == pytest.approx(min(1, max(p)))
    assert "p after Holm over 3 pairs" in sentence(every.differences[0])
    assert len(compare(names, first_only=True).differences) == 4
    groups = [[place / f"{name}-{seed}" for seed in range(1, 7)] for name in ("bad", "good")]
    (one, _) = compare(groups).differences
    seeds = one.seeds
    assert seeds is not None
    assert seeds.paired
    assert (seeds.p, one.word) == (2 / 2**6, "better")
    assert "over 6 paired seeds" in sentence(one)
    (few, _) = compare([side[:3] for side in groups]).differences
    assert few.word == "not decided"
    assert "so few seeds cannot give less than p = 0.25: it takes 6 paired ones" in sentence(few).replace("\xa0", " ")
    (unpaired, _) = compare([groups[0][:3], groups[1][3:]]).differences
    assert unpaired.seeds is not None
    assert not unpaired.seeds.paired
    assert "over unpaired seeds 3 and 3" in sentence(unpaired)


def test_equivalence_needs_a_margin(place: Path) -> None:
    sides = [[place / "good-1"], [place / "good-2"]]
    assert compare(sides).differences[0].word == "not decided"
    close = compare(sides, margin=10).differences[0]
    assert close.word == "equivalent within the margin"
    assert sentence(close).startswith("good-1 and good-2 are equivalent within 10 points: accuracy ")
    assert "TOST p\xa0<\xa00.001" in sentence(close)
    assert compare(sides, margin=1e-6).differences[0].word == "not decided"
    groups = [[place / f"good-{seed}" for seed in seeds] for seeds in ((1, 2), (3, 4))]  # by the bootstrap
    assert compare(groups, margin=0.1).differences[0].word == "not decided"  # though no sample differs
    by_loss = compare([[place / "bad-1"], [place / "good-1"]], by="loss", margin=100.0).differences[0]
    assert (by_loss.score.name, by_loss.word) == ("loss", "better")  # lower is better
    assert "and the difference is smaller than 100 nats (TOST" in sentence(by_loss)


def decided(**changes: Any) -> Difference:
    score = Score("accuracy", "points", 100.0, True)
    one = Difference("a", "b", score, (90.0, 91.0), 1.0, 0.5, 1.5, "bootstrap", None, 0.01, p_holm=0.01)
    return replace(one, **changes)


SEEDS = OverSeeds(True, (6, 6), 0.2, 1.8, 0.03, 2 / 2**6, 0.3, 5)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "better"),
        ({"mean": -1.0, "low": -1.5, "high": -0.5}, "worse"),
        ({"p_holm": 0.051}, "not decided"),
        ({"low": -0.1}, "not decided"),
        ({"score": Score("loss", "nats", 1.0, False)}, "worse"),
        ({"seeds": SEEDS, "p_seeds_holm": 0.03}, "better"),
        ({"seeds": SEEDS, "p_seeds_holm": 0.06}, "not decided"),
        ({"seeds": replace(SEEDS, low=-0.1), "p_seeds_holm": 0.03}, "not decided"),
        ({"p_holm": 0.2, "p_equivalent_holm": 0.04}, "equivalent within the margin"),
        ({"p_holm": 0.2, "p_equivalent_holm": 0.06}, "not decided"),
    ],
)
def test_a_word_follows_from_the_tests(changes: dict[str, Any], word: str) -> None:
    assert word_of(decided(**changes)) == word


def test_the_command(place: Path, tmp_path: Path) -> None:
    many = [place / f"bad-{seed}" for seed in (1, 2)], [place / f"good-{seed}" for seed in (1, 2)]
    result = invoke(*many[0], "--with", *many[1], "--csv", tmp_path / "table.csv", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.splitlines()[-1])
    assert [side["name"] for side in found["sides"]] == ["bad", "good"]
    assert [side["seeds"] for side in found["sides"]] == [[1, 2], [1, 2]]
    accuracy = found["pairs"][0]
    assert accuracy["sentence"].startswith("Not decided between bad and good: accuracy ")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert [row["score"] for row in rows] == ["accuracy", "loss"]
    assert float(rows[0]["difference"]) == accuracy["difference"]
    assert rows[0]["seeds_paired"] == "True"
    text = invoke(place / "bad-1", place / "good-1").stdout
    assert "95 % over samples" in text
    assert "better" in text


def test_a_folder_of_several_seeds_is_one_side(place: Path, tmp_path: Path) -> None:
    for name in ("bad", "good"):
        recipe = RunFolder(place / f"{name}-1").recipe()
        RunFolder(tmp_path / name).save_recipe(recipe, seeds=(1, 2))
        for seed in (1, 2):
            shutil.copytree(place / f"{name}-{seed}", tmp_path / name / f"seed-{seed}")
    found = compare([[tmp_path / "bad"], [tmp_path / "good"]])
    assert [(side.name, side.seeds) for side in found.sides] == [("bad", (1, 2)), ("good", (1, 2))]
    assert not found.notes


def test_what_a_reader_must_know_is_noted(place: Path) -> None:
    found = compare([[place / "bad-1", place / "good-2"], [place / "good-1", place / "good-3"]])
    assert "The runs of side 1" in found.notes[0]
    assert "differ in more than their seeds: this is not one recipe." in found.notes[0]


def refused(error: type[Exception], message: str, *sides: Path, **options: Any) -> None:
    with pytest.raises(error, match=message):
        compare([[side] for side in sides], **options)


def test_other_samples_are_refused_and_one_data_set_for_all_is_taken(place: Path) -> None:
    message = r"elsewhere: its test samples \(.*other.npz: 299\) are not those of .*good-1 \(.*copy.npz: 301\)"
    refused(DataError, message, place / "good-1", place / "elsewhere")
    found = compare([[place / "good-1"], [place / "elsewhere"]], data=str(place / "other.npz"))
    assert found.samples == 299


def test_what_cannot_be_compared_says_why(place: Path, tmp_path: Path) -> None:
    good = place / "good-1"
    refused(SettingError, r"one side came, expected two or more", good)
    refused(SettingError, "good-1 came twice", good, good)
    refused(SettingError, "a margin of 0 came, expected a number above 0", good, place / "good-2", margin=0.0)
    refused(SettingError, "no score is called 'los' .did you mean 'loss'", good, place / "good-2", by="los")
    message = "the task classify has no score 'exact match' here; there is accuracy, loss"
    refused(SettingError, message, good, place / "good-2", by="exact match")
    for wrong in ([], [good, "--margin", "0"], [good, "--by", "los"]):
        assert invoke(good, *wrong).exit_code == 2
    texts = untrained(tmp_path / "tag", "tag")
    refused(DataError, "tag: its task is tag, that of .*good-1 is classify; compare runs of one task", good, texts.path)
    pairs = untrained(tmp_path / "contrast", "contrast")
    refused(DataError, "no sample has a score by itself", pairs.path, texts.path)
    two = untrained(tmp_path / "classify", "classify")
    refused(DataError, "classify: it knows 2 classes, .*good-1 knows 3", good, two.path)
    refused(CheckpointError, "not a run folder", good, tmp_path / "nothing")


def test_a_run_that_is_still_training_is_refused(place: Path, tmp_path: Path) -> None:
    run = tmp_path / "live"
    shutil.copytree(place / "good-1", run)
    (run / "log.csv").write_text("epoch,loss\n")
    refused(CheckpointError, "its training was stopped before its end.*--resume", place / "good-1", run)
    (run / "metrics.json").write_text('{"epochs": 1}')
    assert compare([[place / "good-1"], [run]]).differences[0].mean == 0
    with locked(run):
        refused(CheckpointError, "live: a process is training this run now; wait until it ends", place / "good-1", run)


def test_scores_that_are_no_numbers_are_refused(place: Path, tmp_path: Path) -> None:
    run = load(place / "good-1")
    huge = {name: np.full_like(leaf, 3e38) for name, leaf in named_leaves(run.params).items()}
    folder = RunFolder(tmp_path / "huge")
    folder.create(run.recipe)
    folder.save_model(run.recipe, with_leaves(run.params, huge), run.classes, 0)
    message = r"huge: the loss of 301 of 301 test samples is no finite number \(the first is sample 0\)"
    refused(DataError, message, place / "good-1", tmp_path / "huge")


def test_texts_with_another_tokeniser(tmp_path: Path) -> None:
    """The same texts are the same samples; labels that are symbols are not."""
    for kind in ("classify", "t5", "gpt"):
        untrained(tmp_path / kind, kind)
        other = tmp_path / f"{kind}-other"
        shutil.copytree(tmp_path / kind, other)
        plain = json.loads((other / "tokenizer.json").read_text())
        ids = plain["model"]["vocab"]
        first, second = ("1", "5") if kind == "t5" else ("o", "e")
        ids[first], ids[second] = ids[second], ids[first]
        (other / "tokenizer.json").write_text(json.dumps(plain))
    same = compare([[tmp_path / "classify"], [tmp_path / "classify-other"]])
    assert [one.score.name for one in same.differences] == ["accuracy", "loss"]
    whole = compare([[tmp_path / "t5"], [tmp_path / "t5-other"]])
    assert [one.score.name for one in whole.differences] == ["exact match"]
    assert "Losses are not compared" in whole.notes[0]
    refused(DataError, "one tokeniser and one context", tmp_path / "gpt", tmp_path / "gpt-other")
    shutil.copytree(tmp_path / "gpt", tmp_path / "twin")
    windows = compare([[tmp_path / "gpt"], [tmp_path / "twin"]])
    assert [one.score.name for one in windows.differences] == ["loss", "accuracy"]  # what the task is judged by first
    assert windows.notes == ("Windows of one text depend on each other: the interval over samples may be too narrow.",)


def test_names_do_not_become_formulas(place: Path, tmp_path: Path) -> None:
    run = tmp_path / "=1+1"
    shutil.copytree(place / "good-1", run)
    found = compare([[place / "bad-1"], [run]])
    assert "'=1+1" in as_csv(found)
