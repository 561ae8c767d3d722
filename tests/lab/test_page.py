"""What pages say of studies is what the studies say: no number is typed by hand."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def script_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_page_is_written_from_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    script = script_of("attention_accuracy_page", monkeypatch)
    expected = script.page(script.Study())
    assert (ROOT / "docs/attention-accuracy.md").read_text() == expected, "python scripts/attention_accuracy_page.py"
    answer = script.Study().json["answer"].split("\n\n")
    assert all(f"> {words}" in expected for words in answer)


@pytest.mark.slow
def test_what_twelve_seeds_say_is_what_the_runs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    script = script_of("twelve_seeds", monkeypatch)
    kept = script.FOLDER / script.FILE
    grown = len(script_of("attention_accuracy_page", monkeypatch).Study().json["seeds"]) > 12
    assert kept.exists() == grown
    if grown:
        assert kept.read_text() == script.written(script.before(script.FOLDER)), "python scripts/twelve_seeds.py"


def test_the_answer_about_the_class_token_is_the_studys() -> None:
    report = (ROOT / "studies/class-token/report.md").read_text()
    answer = report.split("\n\n")[1]
    assert f"> {answer}\n" in (ROOT / "docs/lab.md").read_text()
    assert (ROOT / "studies/class-token/plan.toml").read_text() == (
        ROOT / "src/glassformer/plans/class-token.toml"
    ).read_text()
