"""glassformer export --to onnx: the file, what is said about it, and what is refused."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from glassformer.cli import app
from glassformer.errors import CheckpointError, EngineError, FileError
from glassformer.models import GPT, MLP, Columns, Images, RecurrentLM, Text, TinyIris
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import TASKS

from ..hub.builders import drawn

MODEL = MLP(Images((4, 3, 1), classes=2), hidden=(5,))


def run_of(path: Path, model: Any = MODEL, params: Any = None, task: str = "classify") -> Path:
    recipe = Recipe(model=model, task=TASKS[task]())
    RunFolder(path).create(recipe)
    RunFolder(path).save_model(recipe, drawn(model) if params is None else params, ("cat", "dog"), 1)
    return path


def exported(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(
        app, ["export", *map(str, arguments), "--to", "onnx"]
    )


def test_the_file_and_what_is_said(tmp_path: Path) -> None:
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    file = tmp_path / "pets.onnx"
    said = exported(run_of(tmp_path / "run"), file)
    assert said.exit_code == 0, said.exception
    images, logits, compared, wrote = said.stdout.splitlines()
    assert (images, logits) == ("images: uint8 (batch, 4, 3, 1)", "logits: float32 (batch, 2)")
    assert compared.startswith(f"largest difference from our logits in onnxruntime {onnxruntime.__version__}: ")
    assert wrote == f"wrote {file}: 9 nodes, {file.stat().st_size:,} bytes, opset 20"
    assert json.loads(onnx.load(file).metadata_props[0].value) == ["cat", "dog"]
    answer = json.loads(exported(tmp_path / "run", file, "--json").stdout.splitlines()[-1])
    assert answer["difference"] < 1e-6
    del answer["difference"]
    assert answer == {
        "out": str(file),
        "run": str(tmp_path / "run"),
        "to": "onnx",
        "opset": 20,
        "onnxruntime": onnxruntime.__version__,
        "bytes": file.stat().st_size,
        "nodes": 9,
        "inputs": {"images": "uint8 (batch, 4, 3, 1)"},
        "output": "float32 (batch, 2)",
    }


def test_without_onnxruntime_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # importing it now fails
    run = run_of(tmp_path / "run", TinyIris(Columns(count=3, classes=2)), task="regress")
    said = exported(run, tmp_path / "iris.onnx")
    assert said.exit_code == 0, said.exception
    assert said.stdout.splitlines()[1:3] == [
        "numbers: float32 (batch, 2)",
        "not compared with onnxruntime, which is not installed",
    ]
    answer = json.loads(exported(run, tmp_path / "iris.onnx", "--json").stdout)
    assert answer["onnxruntime"] is answer["difference"] is None


def test_without_onnx_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    error = exported(run_of(tmp_path / "run"), tmp_path / "model.onnx").exception
    assert isinstance(error, EngineError)
    assert str(error) == "ONNX export: onnx is not installed; pip install 'glassformer[onnx]'"


def test_what_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    file = tmp_path / "model.onnx"
    lstm = RecurrentLM(Text(11, 9), width=5, hidden=5, depth=1)
    error = exported(run_of(tmp_path / "lstm", lstm, task="next-token"), file).exception
    assert isinstance(error, EngineError)
    assert str(error).startswith("ONNX export has no LSTM yet (reader.cells.0)")
    broken = drawn(MODEL)
    broken.layers[1].b[0] = np.inf
    error = exported(run_of(tmp_path / "broken", params=broken), file).exception
    assert isinstance(error, CheckpointError)
    assert "1 of 4 tensors hold values that are not finite (NaN or infinite): layers.1.b" in str(error)
    assert not file.exists()
    (tmp_path / "folder").mkdir()
    error = exported(run_of(tmp_path / "run"), tmp_path / "folder").exception
    assert isinstance(error, FileError)
    assert "folder: is there, and is no file" in str(error)


def test_a_language_model(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    gpt = GPT(Text(11, 9), width=4, hidden=5, heads=2, depth=1)
    said = exported(run_of(tmp_path / "gpt", gpt, task="next-token"), tmp_path / "gpt.onnx")
    assert said.exit_code == 0, said.exception
    session = onnxruntime.InferenceSession(tmp_path / "gpt.onnx", providers=["CPUExecutionProvider"])
    assert session.run(["logits"], {"ids": np.array([[1, 2, 3]])})[0].shape == (1, 3, 11)
