"""Somebody's package (third_party/orchard), installed as pip does it, and a single file: everything from the command
line, forward, backward and killed; and nothing of either is imported where it is not installed or named.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from glassformer import formulas
from glassformer.train.weights import load_arrays

from .train.small import assert_same_run, small_data, write_npz

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
EYE = ("--recipe", "eye.toml", "--threads", "1")

RECIPES = {
    "eye": """
data = "small.npz"
model = { kind = "orchard-eye" }
training = { epochs = 2, batch = 10 }
optimiser = { name = "momentum", lr = 0.05 }
engine = { name = "native" }
""",
    "writer": """
data = "poem.txt"
task = "next-token"
model = { kind = "orchard-writer", text = { context = 16 } }
training = { epochs = 1, batch = 8 }
engine = { name = "native" }
""",
    "grower": """
data = "trees.tsv"
task = { kind = "harvest", reach = 2.0 }
model = { kind = "orchard-grower" }
training = { epochs = 3, batch = 8 }
optimiser = { lr = 0.1 }
""",
}

# Several commands in one process, as `main` runs each: what they print, and what they return.
SEVERAL = """
import contextlib, io, json, sys
from glassformer.cli import main

for words in json.load(sys.stdin):
    sys.argv, out, err = ["glassformer", *words], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code or 0, out.getvalue(), err.getvalue()]))
"""

# `kill -9` in the middle of the second epoch: every step is saved, the state is put in its place a last time.
KILLED = """
import os, signal
from glassformer.cli import main
from glassformer.train import loop
from glassformer.train.run_folder import RunFolder

def save(self, state, order, progress, save=RunFolder.save_state):
    save(self, state, order, progress)
    if (progress.epoch, progress.step > 1) == (1, True):
        os.kill(os.getpid(), signal.SIGKILL)

RunFolder.save_state = save
loop.CHUNK_SECONDS = loop.SAVE_SECONDS = 0.0
main()
"""


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.stderr
        return json.loads(self.stdout.splitlines()[-1])


class House(NamedTuple):
    """A folder to work in, and what is on Python's path there."""

    folder: Path
    site: Path | None
    canary: Path | None = None  # a file that somebody's package makes when it is imported

    def python(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(str, filter(None, (SOURCE, self.site))))
        env = os.environ | {"PYTHONPATH": path, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
        env |= {"ORCHARD_CANARY": str(self.canary)} if self.canary else {}
        command = [sys.executable, *words]
        return subprocess.run(command, cwd=self.folder, env=env, input=given, capture_output=True, text=True)

    def run(self, *commands: str) -> list[Answer]:
        done = self.python("-c", SEVERAL, given=json.dumps([command.split() for command in commands]))
        assert done.returncode == 0, done.stderr
        return [Answer(*json.loads(line)) for line in done.stdout.splitlines()]

    def page(self, name: str) -> dict[str, Any]:
        """What stands in a page."""
        text = (self.folder / name).read_text()
        found = re.search(r'<script type="application/json" id="trace">(.*?)</script>', text, re.DOTALL)
        assert found
        return json.loads(found[1])


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed; built from a copy, for a build writes beside its sources."""
    folder = tmp_path_factory.mktemp("orchard")
    shutil.copytree(ROOT / "tests/third_party/orchard", folder / "source")
    options = ("--no-deps", "--no-build-isolation", "--no-compile", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", folder / "source"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def house(site: Path, tmp_path_factory: pytest.TempPathFactory) -> House:
    folder = tmp_path_factory.mktemp("house")
    for name, recipe in RECIPES.items():
        (folder / f"{name}.toml").write_text(recipe)
    write_npz(folder / "small.npz", small_data())
    (folder / "poem.txt").write_text("the apple falls not far from the tree\n" * 40)
    rows = np.random.default_rng(0).normal(size=(60, 3))
    lines = [[*row, row @ [1, -2, 0.5] + 3] for row in rows]
    text = "\n".join("\t".join(f"{cell:.5f}" for cell in line) for line in lines)
    (folder / "trees.tsv").write_text(f"age\theight\train\tapples\n{text}\n")
    return House(folder, site)


@pytest.fixture(scope="module")
def eye(house: House) -> Path:
    """The image model, trained by its own C."""
    (trained,) = house.run(f"train {' '.join(EYE)} --out eye --json")
    assert (trained.json["engine"], trained.json["task"]) == ("native", "classify")
    return house.folder / "eye"


def must_hold(page: dict[str, Any]) -> set[str]:
    """Every equation of a page gives the numbers beside it; those of the names that it explains."""
    tensors = page["tensors"]

    def number(name: str) -> np.ndarray:
        entry = tensors[name]
        source = tensors[entry["same"]] if "same" in entry else entry
        data, size = base64.b64decode(source["data"]), int(np.prod(entry["shape"]))
        is_mask = source["type"] == "b1"
        flat = np.unpackbits(np.frombuffer(data, np.uint8))[:size] if is_mask else np.frombuffer(data, "<f4")
        array = flat.astype(np.float64).reshape(entry["shape"])
        return np.moveaxis(array, 1, 0) if array.ndim == 3 and entry["axes"][1] == "H" else array

    explained = {name for name, entry in tensors.items() if "equation" in entry}
    for name in explained:
        refs, left = tensors[name]["refs"], number(name)

        def value(word: str, refs: dict[str, Any] = refs) -> Any:
            return number(refs[word]["tensor"]) if "tensor" in refs[word] else np.asarray(refs[word]["value"])

        def part(word: str, given: list[Any], refs: dict[str, Any] = refs) -> np.ndarray | None:
            return number(refs[word]["y"]) if word in refs else None

        right = np.asarray(formulas.evaluate(formulas.parse(tensors[name]["equation"]).expr, value, part))
        right = right.reshape(left.shape) if right.size == left.size else np.broadcast_to(right, left.shape)
        np.testing.assert_allclose(right, left, rtol=1e-3, atol=1e-5, err_msg=tensors[name]["equation"])
    return explained


@pytest.mark.parametrize(
    "names",
    [
        "dynamic-tanh(width=6) huber orchard-grower",
        pytest.param("orchard-eye orchard-writer", marks=pytest.mark.slow),
    ],
)
def test_its_gradients_are_right(house: House, names: str) -> None:
    (checked,) = house.run(f"gradcheck {names} --json")
    assert [layer["name"] for layer in checked.json["layers"]] == names.split()
    assert checked.json["ok"]


def test_both_engines_train_its_image_model(house: House, eye: Path) -> None:
    again, source = house.run(f"train {' '.join(EYE)} --engine jax --out eye-jax --json", "info eye --c")
    assert again.json["engine"] == "jax"
    ours, theirs = (load_arrays(run / "model.safetensors")[0] for run in (eye, house.folder / "eye-jax"))
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], rtol=1e-3, atol=1e-5, err_msg=name)
    assert '#include "dynamic_tanh.h"' in source.stdout
    assert "dynamic_tanh_backward_4_8(" in source.stdout


def test_its_layer_is_written_as_onnx(house: House, eye: Path) -> None:
    onnx = pytest.importorskip("onnx")
    (written,) = house.run("export eye --to onnx eye.onnx --json")
    difference = written.json["difference"]
    assert difference is None or difference < 1e-5
    assert "squash.squashed" in [node.name for node in onnx.load(house.folder / "eye.onnx").graph.node]


@pytest.mark.slow
def test_several_seeds_of_its_image_model(house: House) -> None:
    (seeds,) = house.run(f"train {' '.join(EYE)} --seeds 0-1 --epochs 1 --out seeds --json")
    assert [run["seed"] for run in seeds.json["runs"]] == [0, 1]


def test_its_image_model_answers_and_is_explained(house: House, eye: Path) -> None:
    metrics = json.loads((eye / "metrics.json").read_text())
    scored, said, traced, viewed, looked = house.run(
        "eval eye --json",
        "predict test:3 --run eye --json",
        "trace eye test:3 --grad --match squash.* --json",
        "view eye test:3 --out eye.html",
        "attend eye test:3 --out eye.png --json",
    )
    assert scored.json["accuracy"] == pytest.approx(metrics["test_accuracy"])
    assert scored.json["loss"] == pytest.approx(metrics["test_loss"], rel=1e-5)
    assert set(said.json["images"][0]["probabilities"]) == {"0", "1", "2"}
    names = [row["name"] for row in traced.json["values"]]
    assert {"squash.squashed", "squash.dsquashed", "squash.alpha", "squash.dalpha"} <= set(names)
    assert viewed.code == 0, viewed.stderr
    assert [head["name"] for head in looked.json["heads"]] == ["blocks.0.attn.pattern"] * 2
    with Image.open(house.folder / "eye.png") as picture:
        assert picture.width > 100

    page = house.page("eye.html")
    step = next(step for step in page["steps"] if step["id"] == "squash")
    assert step["title"] == "Dynamic tanh"
    assert step["forward"] == ["squashed = tanh(alpha * x)", "y = squashed * gain + bias"]
    assert "dalpha = sum_tokens(sum(dsquashed * (1 - squashed^2) * x))" in step["backward"]
    explained = must_hold(page)
    assert {"blocks.0.norm1.squashed", "squash.dx", "squash.dalpha", "blocks.0.resid_mid"} <= explained
    assert len(explained) >= 0.75 * len([one for one in page["tensors"].values() if one["kind"] == "value"])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "jax"])
def test_killed_it_goes_on_as_if_nothing_had_been(house: House, engine: str, tmp_path: Path) -> None:
    words = f"train {' '.join(EYE)} --engine {engine} --out".split()
    killed = house.python("-c", KILLED, *words, str(tmp_path / "killed"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole, resumed = house.run(f"{' '.join(words)} {tmp_path}/whole", f"train --resume {tmp_path}/killed")
    assert (whole.code, resumed.code) == (0, 0), resumed.stderr
    assert_same_run(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_its_text_model(house: House) -> None:
    trained, scored, said, traced, viewed, looked, written = house.run(
        "train --recipe writer.toml --out writer --json",
        "eval writer --json",
        "predict apple test:0 --run writer --json",
        "trace writer apple --grad --json",
        "view writer apple --out writer.html",
        "attend writer apple --out writer.png --json",
        "generate writer --prompt apple --length 4 --json",
    )
    assert trained.json["engine"] == "native"  # with their kernel in its blocks, and behind them
    assert scored.json["loss"] == pytest.approx(trained.json["test_loss"], rel=1e-5)
    assert [len(answer["best"]) for answer in said.json["answers"]] == [5, 5]
    assert traced.json["loss"] == pytest.approx(said.json["answers"][0]["loss"], rel=1e-4)
    assert viewed.code == 0, viewed.stderr
    assert np.shape(looked.json["heads"][0]["weights"]) == (5, 5)
    assert (written.json["engine"], len(written.json["texts"])) == ("jax", 1)
    assert re.search(r"^note: the native decoder has no DynamicTanh yet .*; jax writes$", written.stderr, re.MULTILINE)
    page = house.page("writer.html")
    assert [step["layer"] for step in page["steps"]].count("DynamicTanh") == 3
    assert {"blocks.0.norm2.y", "squash.dgain", "head.y"} <= must_hold(page)


@pytest.mark.slow
def test_its_regression_with_its_loss_on_its_table(house: House) -> None:
    trained, scored, said, traced, viewed, unfit, study = house.run(
        "train --recipe grower.toml --out grower --json",
        "eval grower --json",
        f"predict {' '.join(f'test:{i}' for i in range(12))} --run grower --json",
        "trace grower test:2 --grad --json",
        "view grower test:2 --out grower.html",
        "train mlp --data small.npz --set training.loss=huber --out never",
        "diagnose grower --seeds 3 --budget 3s --jobs 2 --out why --json",
    )
    errors = np.array([answer["values"][0] - answer["expected"][0] for answer in said.json["answers"]])
    near = np.clip(errors, -2, 2)
    assert trained.json["test_loss"] == pytest.approx(np.mean(near * (errors - near / 2)), rel=1e-4)
    assert trained.json["test_loss"] == pytest.approx(scored.json["loss"])
    assert trained.json["test_accuracy"] is None
    assert traced.json["loss"] == pytest.approx(near[2] * (errors[2] - near[2] / 2), rel=1e-4)
    page = house.page("grower.html")
    assert viewed.code == 0, viewed.stderr
    (number,), answer = page["answer"]["numbers"], said.json["answers"][2]
    assert number == ["apples", pytest.approx(answer["values"][0]), pytest.approx(answer["expected"][0])]
    assert {"loss.near", "loss.loss", "squash.y"} <= must_hold(page)
    assert unfit.code == 1
    assert unfit.stderr.splitlines()[-1] == (
        "glassformer: huber: labels of shape (64,) came, expected one for each number: (64, 3)"
    )
    assert study.code == 0, study.stderr
    assert study.json["answer"].startswith("Incomplete: "), "three seconds are not enough for all"


@pytest.mark.slow
def test_diagnose_finds_it_in_its_workers(house: House, eye: Path) -> None:
    (study,) = house.run("diagnose eye --seeds 3 --budget 3s --jobs 2 --out study --json")
    assert study.code == 0, study.stderr
    records = [json.loads(line) for line in (house.folder / "study/results.jsonl").read_text().splitlines()]
    assert records
    assert all(record["engine"] == "native" and not record["failed"] for record in records)


def test_uninstalled_its_runs_say_what_to_give_and_import_nothing(house: House, eye: Path, tmp_path: Path) -> None:
    """The code lies on Python's path; the package is not installed any more."""
    assert house.site
    shutil.copytree(house.site / "orchard", tmp_path / "site/orchard")
    canary = tmp_path / "imported"
    commands = (
        "eval eye", "predict test:3 --run eye", "attend eye test:3", "trace eye test:3", "view eye test:3", "info eye",
        "generate eye", "diagnose eye", "export eye never", "train --resume eye", "train --from eye",
        "train --recipe eye.toml", "train --set model.kind=orchard-eye",
    )  # fmt: skip
    for answer in House(house.folder, tmp_path / "site", canary).run(*commands):
        assert (answer.code, answer.stdout) == (1, "")
        (line,) = answer.stderr.splitlines()
        assert line.startswith("glassformer: model.kind: 'orchard-eye' came")
        assert line.endswith("if it is your own, install its package or give its file: --code FILE")
    assert not canary.exists()
    (found,) = House(house.folder, house.site, canary).run("info eye")
    assert "Eye" in found.stdout
    assert canary.exists()


def test_ours_import_nothing_of_it(house: House, tmp_path: Path) -> None:
    with_canary = House(house.folder, house.site, tmp_path / "imported")
    answers = with_canary.run("info vit", "train mlp --data small.npz --epochs 1 --set model.hidden=[4] --out ours")
    assert [answer.code for answer in answers] == [0, 0]
    assert not (tmp_path / "imported").exists()


# ---- the same for a single file


OWN = "--code my_model.py"
SMALL = "--recipe recipe.toml --data small.npz --set model.width=8 --set model.hidden=8 --set training.epochs=2"


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> House:
    house = House(tmp_path_factory.mktemp("file"), None)
    (made,) = house.run("template model .")
    assert made.code == 0, made.stderr
    write_npz(house.folder / "small.npz", small_data())
    return house


@pytest.mark.slow
def test_a_single_file(mine: House) -> None:
    checked, trained, scored, said, traced, viewed, looked, seeds = mine.run(
        f"gradcheck {OWN} --json",
        f"train {OWN} {SMALL} --out run --json",
        f"eval {OWN} run --json",
        f"predict {OWN} test:3 --run run --json",
        f"trace {OWN} run test:3 --grad --match gate.* --json",
        f"view {OWN} run test:3 --out page.html",
        f"attend {OWN} run test:3 --json",
        f"train {OWN} {SMALL} --seeds 0-1 --epochs 1 --out seeds --json",
    )
    assert checked.json["ok"]
    assert scored.json["accuracy"] == pytest.approx(trained.json["test_accuracy"])
    assert said.json["images"][0]["class"] in ("0", "1", "2")
    assert "gate.dgate" in [row["name"] for row in traced.json["values"]]
    assert viewed.code == looked.code == 0
    assert len(seeds.json["runs"]) == 2
    page = mine.page("page.html")
    assert page["tensors"]["gate.gate"]["equation"] == "gate = sigmoid(x @ w + b)"
    assert {"gate.gate", "gate.y", "gate.dx", "gate.dw"} <= must_hold(page)


@pytest.mark.slow
def test_a_single_file_is_killed_and_goes_on(mine: House, tmp_path: Path) -> None:
    words = f"train {OWN} {SMALL} --out".split()
    killed = mine.python("-c", KILLED, *words, str(tmp_path / "killed"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    whole, resumed = mine.run(f"{' '.join(words)} {tmp_path}/whole", f"train --resume {tmp_path}/killed {OWN}")
    assert (whole.code, resumed.code) == (0, 0), resumed.stderr
    assert_same_run(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.slow
def test_a_single_file_reaches_the_workers_of_a_study(mine: House, tmp_path: Path) -> None:
    trained, study = mine.run(
        f"train {OWN} {SMALL} --epochs 1 --out {tmp_path}/run",
        f"diagnose {OWN} {tmp_path}/run --seeds 3 --budget 3s --jobs 2 --out {tmp_path}/study --json",
    )
    assert (trained.code, study.code) == (0, 0), study.stderr
    records = [json.loads(line) for line in (tmp_path / "study/results.jsonl").read_text().splitlines()]
    assert records
    assert not any(record["failed"] for record in records)
    assert f"diagnose {tmp_path}/run --seeds 3 {OWN}" in (tmp_path / "study/report.md").read_text()
    (nameless,) = mine.run(f"eval {tmp_path}/run")
    assert nameless.code == 1
    assert nameless.stderr.startswith("glassformer: model.kind: 'my-model' came")
    assert nameless.stderr.count("\n") == 1
