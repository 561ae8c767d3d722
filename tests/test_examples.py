"""Every script of examples/ runs: made small, so that it takes seconds, and with what it promises checked."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.hub.folder import write_folder

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
    assert names == {"vit", "gpt", "bert", "t5", "recurrent", "iris", "chat", "tune_on_conversations"}
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


@pytest.mark.slow
def test_chat(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("chat").main() == ["hi there", "a small model", "see you"]
    assert "user       hello\nassistant  hi there\n" in capsys.readouterr().out


@pytest.mark.slow
def test_tune_on_conversations(tmp_path: Path) -> None:
    """It learns the format and keeps what it has read; and the library `peft` loads what was learned."""
    exact, risen = script("tune_on_conversations").main(out=tmp_path / "dates")  # smaller ones do not learn to copy
    assert exact >= 0.95
    assert risen < 0.05
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    import torch

    read, tuned = (glassformer.load(tmp_path / "dates" / name) for name in ("read", "tuned"))
    write_folder(tmp_path / "theirs", read.model, read.params)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs")
    adapted = peft.PeftModel.from_pretrained(theirs, tmp_path / "dates/adapter").eval()
    ids = np.arange(2, 42).reshape(2, 20)
    with torch.no_grad():
        expected = adapted(input_ids=torch.tensor(ids)).logits.numpy()
    ours, _ = tuned.model.forward(tuned.params, ids)
    assert np.abs(ours - expected).max() < 1e-3
    assert np.abs(read.model.forward(read.params, ids)[0] - expected).max() > 1


NOTEBOOK = json.loads((EXAMPLES / "study.ipynb").read_text())


def test_the_notebook_is_listed_and_holds_no_outputs() -> None:
    assert "`study.ipynb`" in (EXAMPLES / "README.md").read_text()
    for cell in NOTEBOOK["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert not any(word in "".join(cell["source"]) for word in ("/home", "/Users", "/tmp", "/work"))


@pytest.mark.slow
def test_the_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """By nbclient where it is installed; else its cells one after the other."""
    pytest.importorskip("pandas")
    try:
        import nbclient  # pyright: ignore[reportMissingImports]
        import nbformat  # pyright: ignore[reportMissingImports]
    except ImportError:
        names: dict[str, Any] = {}
        for cell in NOTEBOOK["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), "study.ipynb", "exec"), names)
        said = capsys.readouterr().out
    else:
        done = nbclient.NotebookClient(nbformat.from_dict(NOTEBOOK), kernel_name="python3").execute()
        said = "".join(out.get("text", "") for cell in done.cells for out in cell.get("outputs", ()))
    assert "points" in said
    assert "rate-0.3 is worse than rate-0.03: accuracy " in said
    assert Path("studies/rates/report.html").is_file()


def test_iris() -> None:
    assert script("iris").main(splits=2, training__epochs=30) > 50
