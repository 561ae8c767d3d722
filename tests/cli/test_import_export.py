"""glassformer import and export: a folder becomes a run, a run becomes a folder, and nothing is lost on the way."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import typer
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from glassformer.cli.export import export
from glassformer.cli.import_ import import_
from glassformer.data.tokeniser_training import Characters
from glassformer.errors import CheckpointError, FileError, GlassformerError, SettingError
from glassformer.hub import bert, parity, vit
from glassformer.hub.folder import read_folder
from glassformer.hub.run import write_run
from glassformer.models import MLP
from glassformer.predict.run import load
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.warm_start import recipe_from

from ..hub.builders import MODELS, build, tensors_of

app = typer.Typer()
app.command("import")(import_)
app.command()(export)


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


def answered(*arguments: str | Path) -> dict[str, Any]:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        ("gpt2", "next-token"),
        ("mistral", "next-token"),
        ("bert", "tag"),
        ("distilbert", "classify"),
        ("masked", "masked"),
        ("t5", "translate"),
        ("vit", "classify"),
        ("deit", "classify"),
    ],
)
def test_there_and_back(kind: str, task: str, tmp_path: Path) -> None:
    folder = build(tmp_path / "theirs", kind)
    classes = ["LABEL_0", "LABEL_1", "LABEL_2"] if task in ("tag", "classify") else []
    own, reads_text = Characters().train(["abc def"]), kind not in ("vit", "deit")
    if reads_text:
        (folder / "tokenizer.json").write_text(own.to_json())
    if kind == "deit":
        (folder / vit.PREPARATION).write_text(json.dumps(vit.preparation_of(MODELS[kind])))
    found = answered("import", folder, "--out", tmp_path / "run", "--no-parity")
    assert found["parity"] is None
    assert (found["model"], found["classes"]) == (type(MODELS[kind]).__name__, classes)
    assert found["parameters"] == sum(tensor.size for tensor in tensors_of(kind).values())
    assert found["tokeniser"] is reads_text

    run = load(tmp_path / "run")
    assert run.model == MODELS[kind]
    assert run.classes == tuple(classes)
    assert run.recipe.task.name == task
    jax.tree.map(np.testing.assert_array_equal, run.params, read_folder(folder).params)
    if reads_text:
        assert run.tokeniser is not None
        assert run.tokeniser.encode("fad") == own.encode("fad")

    out = answered("export", tmp_path / "run", "--to", "hf", tmp_path / "ours")
    assert out["architecture"] == json.loads((folder / "config.json").read_text())["architectures"][0]
    assert sorted(file.name for file in (tmp_path / "ours").iterdir()) == out["files"]
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "ours" / "model.safetensors")
    assert set(before) == set(after)
    for name, value in before.items():
        assert after[name].tobytes() == value.tobytes(), name


def test_in_bfloat16(tmp_path: Path) -> None:
    """Half the size, the same tensors out again; a run that starts from it computes in bfloat16."""
    folder = build(tmp_path / "theirs", "llama")
    given = {name: value.astype(ml_dtypes.bfloat16) for name, value in tensors_of("llama").items()}
    save_file(given, folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(Characters().train(["abc def"]).to_json())
    narrow, wide = tmp_path / "narrow", tmp_path / "wide"
    found = answered("import", folder, "--out", narrow, "--no-parity", "--precision", "bf16")
    assert found["precision"] == "bf16"
    assert answered("import", folder, "--out", wide, "--no-parity")["precision"] == "float32"
    jax.tree.map(np.testing.assert_array_equal, load(narrow).params, load(wide).params)
    assert (recipe_from(narrow).engine.precision, recipe_from(wide).engine.precision) == ("bf16", "float32")
    for run, word in ((narrow, "bfloat16"), (wide, "float32")):
        answered("export", run, "--to", "hf", tmp_path / word)
        assert json.loads((tmp_path / word / "config.json").read_text())["dtype"] == word
        after = load_file(tmp_path / word / "model.safetensors")
        assert {name: value.dtype.name for name, value in after.items()} == dict.fromkeys(given, word)
        assert all(np.array_equal(value.astype(word), after[name]) for name, value in given.items())
    result = invoke("import", folder, "--onto", wide, "--precision", "bf16")
    assert (result.exit_code, "has its head and its precision" in result.output) == (2, True)


def test_a_next_sentence_head_stays_one(tmp_path: Path) -> None:
    folder = build(tmp_path / "theirs", "masked", architectures=[bert.NEXT])
    body = {name: value for name, value in tensors_of("masked").items() if not name.startswith("cls.")}
    head = {name: np.ones((6, 6), np.float32) for name in ("bert.pooler.dense.weight",)}
    head |= {"bert.pooler.dense.bias": np.ones(6, np.float32), "cls.seq_relationship.bias": np.ones(2, np.float32)}
    head |= {"cls.seq_relationship.weight": np.ones((2, 6), np.float32)}
    save_file(body | head, folder / "model.safetensors")
    assert answered("import", folder, "--out", tmp_path / "run", "--no-parity")["classes"] == list(bert.NEXT_CLASSES)
    assert answered("export", tmp_path / "run", tmp_path / "ours")["architecture"] == bert.NEXT


def test_notes_go_to_stderr_and_the_head_can_be_chosen(tmp_path: Path) -> None:
    folder = build(tmp_path / "theirs", "masked")
    result = invoke("import", folder, "--out", tmp_path / "run", "--no-parity", "--architecture", bert.TAGS)
    assert result.exit_code == 0, result.exception
    assert "note: new, to be trained before use: classifier.weight, classifier.bias" in result.stderr
    assert "note: left out, of other heads: cls.predictions.bias" in result.stderr
    assert "note: no tokeniser" in result.stderr
    assert result.stdout.startswith("not compared with transformers\nwrote ")
    assert result.stdout.rstrip().endswith("parameters")


def test_the_default_is_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "small-gpt")
    monkeypatch.chdir(tmp_path)
    for number in 1, 2:
        run = answered("import", "small-gpt", "--no-parity")["run"]
        assert run == str(Path("runs") / f"small-gpt-{number}")
        assert load(run).model == MODELS["gpt2"]


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    folder = build(tmp_path / "theirs")
    answered("import", folder, "--out", tmp_path / "run", "--no-parity")
    with pytest.raises(FileError, match=r"run: holds recipe\.toml already; choose another folder with --out"):
        raise refused("import", folder, "--out", tmp_path / "run", "--no-parity")
    with pytest.raises(FileError, match=r"theirs: holds model\.safetensors already"):
        raise refused("import", folder, "--out", folder, "--no-parity")
    with pytest.raises(FileError, match=r"theirs: holds a model already \(config\.json\)"):
        raise refused("export", tmp_path / "run", folder)


def test_an_import_that_was_killed_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    def killed(self: RunFolder, recipe: Recipe) -> None:
        raise KilledError

    folder = build(tmp_path / "theirs")
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "save_recipe", killed)
        with pytest.raises(KilledError):
            write_run(tmp_path / "run", read_folder(folder))
    assert (tmp_path / "run/model.safetensors").exists()
    answered("import", folder, "--out", tmp_path / "run", "--no-parity")
    jax.tree.map(np.testing.assert_array_equal, load(tmp_path / "run").params, read_folder(folder).params)
    assert not list(tmp_path.rglob(".lock"))


def test_weights_that_are_not_finite_are_not_imported(tmp_path: Path) -> None:
    folder = build(tmp_path / "theirs")
    tensors = load_file(folder / "model.safetensors")
    first, *_, last = sorted(tensors)
    save_file(
        {name: value * (np.nan if name in (first, last) else 1) for name, value in tensors.items()},
        folder / "model.safetensors",
    )
    with pytest.raises(
        CheckpointError, match=rf"2 of {len(tensors)} tensors hold values that are not finite .*: "
    ) as error:
        raise refused("import", folder, "--out", tmp_path / "run", "--no-parity")
    assert first in str(error.value)
    assert last in str(error.value)
    assert not (tmp_path / "run").exists()


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such folder"):
        raise refused("import", tmp_path / "gone")
    with pytest.raises(CheckpointError, match="not a run folder"):
        raise refused("export", tmp_path / "gone", tmp_path / "out")
    mlp = MLP()
    RunFolder(tmp_path / "mlp").create(Recipe(model=mlp))
    RunFolder(tmp_path / "mlp").save_model(Recipe(model=mlp), mlp.init(jax.random.key(0)), (), 1)
    with pytest.raises(SettingError, match="MLP has no counterpart among Hugging Face models"):
        raise refused("export", tmp_path / "mlp", tmp_path / "out")
    assert invoke("export", tmp_path / "mlp", tmp_path / "out", "--to", "onnxx").exit_code == 2
    assert invoke("import").exit_code == 2


def test_values_that_are_not_theirs_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [parity.Row("drop.y", 1e-6, 1.0), parity.Row("norm.y", 0.5, 2.0), parity.Row("logits", float("nan"), 2.0)]
    assert [row.close for row in rows] == [True, False, False]
    monkeypatch.setattr(parity, "compare", lambda folder, found: rows)
    folder = build(tmp_path / "theirs")
    with pytest.raises(
        CheckpointError, match=r"not those of transformers, first at norm\.y:\n.*largest difference"
    ) as why:
        raise refused("import", folder, "--out", tmp_path / "run", "--parity")
    assert ["norm.y", "5.00e-01", "2.50e-01"] in [line.split() for line in str(why.value).splitlines()]
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(parity, "compare", lambda folder, found: rows[:1])
    result = invoke("import", folder, "--out", tmp_path / "run", "--parity")
    assert [line.split() for line in result.stdout.splitlines()[:2]][1] == ["drop.y", "1.00e-06", "1.00e-06"]


@pytest.mark.slow
def test_compared_with_theirs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.22")
    found = answered("import", build(tmp_path / "theirs", "t5"), "--out", tmp_path / "run")
    assert [row["name"] for row in found["parity"]] == [
        "encoder.drop.y",
        "encoder.drop_memory.y",
        "decoder.drop.y",
        "decoder.drop_last.y",
        "logits",
    ]
    assert all(row["relative"] < 1e-4 for row in found["parity"])


def refused(*arguments: str | Path) -> GlassformerError:
    error = invoke(*arguments).exception
    assert isinstance(error, GlassformerError), error
    return error


def test_help_shows_an_example_and_loads_neither_jax_nor_numpy() -> None:
    for command in "import", "export":
        assert f"glassformer {command} " in invoke(command, "--help").stdout
    code = """
import sys
import glassformer.cli.export, glassformer.cli.import_
sys.exit(any(name in sys.modules for name in ("jax", "numpy", "torch", "transformers")))
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
