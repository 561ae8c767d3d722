"""Every script of examples/ runs: made small, so that it takes seconds, and with what it promises checked."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
QUICK = {"training__epochs": 1, "training__samples": 64, "training__batch": 16, "validation__share": 0.0}
SMALL = {"model__width": 16, "model__hidden": 16, "model__heads": 2, "model__depth": 1}


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_script_is_listed_and_run_here() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"vit", "gpt", "bert", "t5", "recurrent", "iris"}
    assert all(f"`{name}.py`" in (EXAMPLES / "README.md").read_text() for name in names)


@pytest.mark.slow
def test_vit(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("vit").main(training__epochs=1) > 0.2
    assert "looks most at token" in capsys.readouterr().out


@pytest.mark.slow
def test_gpt(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("gpt").main(**QUICK, **SMALL)
    assert 0 < len(text) <= 300 * len("<mask>")
    assert f"The {text}" in capsys.readouterr().out


@pytest.mark.slow
def test_recurrent() -> None:
    assert script("recurrent").main(**QUICK, model__width=16, model__hidden=16)


@pytest.mark.slow
def test_bert(capsys: pytest.CaptureFixture[str]) -> None:
    reading: dict[str, Any] = QUICK | SMALL
    assert 0 < script("bert").main(reading, {"training__epochs": 1}) < 1
    assert "masked loss" in capsys.readouterr().out


@pytest.mark.slow
def test_t5(capsys: pytest.CaptureFixture[str]) -> None:
    answers = script("t5").main(**QUICK, **SMALL, model__head_width=8)
    assert len(answers) == 4
    assert "<fr> 14 juillet 1989 -> " in capsys.readouterr().out


def test_iris() -> None:
    assert script("iris").main(splits=2, training__epochs=30) > 50
