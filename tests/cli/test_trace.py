"""glassformer trace: what is printed, and what is written, are the numbers of the trace."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from safetensors.numpy import load_file
from typer.testing import CliRunner

from glassformer import lens
from glassformer.cli.trace import trace
from glassformer.cli.view import trace_input_of
from glassformer.data import load as load_data
from glassformer.data.text_sources import KNOWN_TEXTS
from glassformer.errors import DataError, UnknownNameError
from glassformer.lens.health import findings
from glassformer.names import with_leaves
from glassformer.predict.run import Run, load
from glassformer.train.run_folder import RunFolder

from ..lens import studio_runs
from ..train.small_texts import small_texts
from ..train.text_runs import NUMBERS, framed_ids, untrained

app = typer.Typer()
app.command()(trace)

TEXT = "<up> one two"
TEST = small_texts().test
SHIPPED = load()
SEVEN, LABEL = (part[17] for part in load_data("mnist-mini").test)


@pytest.fixture(scope="module", autouse=True)
def numbers_are_known() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(KNOWN_TEXTS, "numbers", NUMBERS)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    kinds = ("classify", "span", "masked", "gpt", "t5", "iris")
    return {kind: untrained(tmp_path_factory.mktemp(kind), kind) for kind in kinds}


def invoke(*arguments: str | Path) -> Any:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}).invoke(app, [*map(str, arguments)])


def invoked(*arguments: str | Path) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*arguments: str | Path) -> dict[str, Any]:
    return json.loads(invoked(*arguments, "--json").splitlines()[-1])


def test_forward() -> None:
    expected = lens.trace(SHIPPED.model, SHIPPED.params, SEVEN[None])
    shown = invoked("-", "test:17")
    assert shown.startswith(f"{expected.table()}\n\n")
    assert shown.endswith("findings: nothing stands out\n")
    rows = as_json("-", "test:17")
    assert (rows["run"], rows["input"], rows["loss"], rows["against"]) == (str(SHIPPED.path), "test:17", None, None)
    assert [row["name"] for row in rows["values"]] == expected.names()
    pattern = expected["blocks.0.attn.pattern"].astype(float)
    (row,) = [row for row in rows["values"] if row["name"] == "blocks.0.attn.pattern"]
    assert row == {
        "name": "blocks.0.attn.pattern",
        "part": "forward",
        "shape": [1, 1, 49, 49],
        "mean": pytest.approx(pattern.mean()),
        "spread": pytest.approx(pattern.std()),
        "norm": pytest.approx(np.sqrt((pattern**2).sum())),
    }


def test_backward_from_the_label_of_a_test_image() -> None:
    rows = as_json("-", "test:17", "--grad", "--match", "*.dpattern")
    expected = lens.trace(SHIPPED.model, SHIPPED.params, SEVEN[None], labels=[LABEL])
    assert rows["loss"] == pytest.approx(expected.loss)
    assert rows["against"] == f"the right answer: {LABEL}"
    (row,) = rows["values"]
    assert row["name"] == "blocks.0.attn.dpattern"
    assert row["norm"] == pytest.approx(np.linalg.norm(expected["blocks.0.attn.dpattern"]))
    assert "\ngradients of the loss against the right answer: " in invoked("-", "test:17", "--grad")


def test_of_a_picture_the_model_says_what_it_is(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(SEVEN[..., 0]).save(tmp_path / "digit.png")
    rows = as_json("-", tmp_path / "digit.png", "--grad", "-m", "loss.*")
    assert rows["against"] == f"the model's own answer: {SHIPPED.predict(SEVEN[None])[0]}"
    assert [row["name"] for row in rows["values"]] == [
        *("loss.log_p", "loss.labels", "loss.share", "loss.loss"),
        *("loss.dloss", "loss.dlog_p"),
    ]
    assert [row["mean"] for row in rows["values"] if row["name"] == "loss.labels"] == [None]


def test_arrays_are_written(tmp_path: Path) -> None:
    out = tmp_path / "trace.safetensors"
    shown = invoked("-", "test:17", "--grad", "--match", "blocks.0.attn.*", "--out", out)
    expected = lens.trace(SHIPPED.model, SHIPPED.params, SEVEN[None], labels=[LABEL]).match("blocks.0.attn.*")
    assert shown.endswith(f"wrote {out}: {len(expected)} arrays\n")
    arrays = load_file(out)
    assert {*arrays} == {*expected.names()}
    assert all(np.array_equal(arrays[name], expected[name]) for name in arrays)
    invoked("-", "test:17", "--grad", "--out", out)
    assert {"loss.labels", "prepare.y", "head.dw", "loss.loss"} <= {*load_file(out)}


def test_findings_are_of_the_whole_trace(tmp_path: Path) -> None:
    """A model none of whose feed-forward units ever fire says so, also where only a part is shown."""
    silent = with_leaves(SHIPPED.params, {"blocks.0.ff.b_up": np.full(32, -1e3, np.float32)})
    folder = RunFolder(tmp_path / "silent")
    folder.create(SHIPPED.recipe)
    folder.save_model(SHIPPED.recipe, silent, SHIPPED.classes, 0)
    expected = findings(lens.trace(SHIPPED.model, silent, SEVEN[None]))
    assert expected
    assert as_json(folder.path, "test:17", "-m", "*.pattern")["findings"] == expected
    lines = invoked(folder.path, "test:17", "-m", "*.pattern").splitlines()
    assert lines[-len(expected) :] == [f"finding: {finding}" for finding in expected]


@pytest.mark.parametrize(
    ("kind", "text", "against"),
    [
        ("classify", TEXT, "the model's own answer: "),
        ("classify", "test:3", f"the right answer: {('even', 'odd')[TEST[3].label]}"),
        ("span", TEXT, "the model's own answer: "),
        ("masked", "<up> o<mask>e", "the model's own answer: '"),
        ("gpt", "one two", "the right answer: 'n', 'e', ' ', 't', 'w', 'o'"),
        ("gpt", "one two one t", "the right answer: 'n', 'e', ' ', 't', 'w', 'o', ' ', 'o' and 4 more"),
        ("t5", "test:3", "the right answer: '"),
        ("iris", "5.1,3.5,1.4,0.2", "the model's own answer: "),
    ],
)
def test_texts_and_rows(runs: dict[str, Run], kind: str, text: str, against: str) -> None:
    rows = as_json(runs[kind].path, text, "--grad")
    assert rows["against"].startswith(against)
    assert rows["loss"] > 0
    names = {row["name"] for row in rows["values"]}
    assert {"loss.loss", "loss.dloss"} < names
    assert any(name.endswith("attn.dpattern") for name in names)


def test_a_text_is_traced_as_the_run_reads_it(runs: dict[str, Run], tmp_path: Path) -> None:
    run, out = runs["classify"], tmp_path / "trace.safetensors"
    invoked(run.path, TEXT, "--out", out)
    ids = np.array([framed_ids(run, TEXT)])
    assert np.array_equal(load_file(out)["bert.embed.ids"], ids)
    expected = lens.trace(run.model, run.params, ids)
    assert np.allclose(load_file(out)["head.classify.y"], expected["head.classify.y"], atol=1e-5)


def test_the_lines_of_a_file_are_one_text(
    runs: dict[str, Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studio_runs, "TEXT", "the cat sat on the mat.\n" * 40)
    run = load(studio_runs.make_run(tmp_path / "runs" / "gpt", "gpt"))
    file = tmp_path / "two.txt"
    file.write_text("the cat\nsat on me\n")
    seen = trace_input_of(run, f"@{file}")
    assert "".join(seen.tokens) == "the cat\nsat on me"
    file.write_text(" \n\n")
    with pytest.raises(DataError, match=r"two.txt: holds no text; a page shows one"):
        trace_input_of(run, f"@{file}")
    file.write_text("5.1,3.5,1.4,0.2\n" * 2)
    with pytest.raises(DataError, match=r"two.txt: holds 2 rows, one a line; a page shows one"):
        trace_input_of(runs["iris"], f"@{file}")


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownNameError, match=r"nothing in the trace matches '\*\.patern' \(did you mean 'blocks\.0\."
    ):
        raise invoke("-", "test:17", "-m", "*.patern").exception
    with pytest.raises(UnknownNameError, match=r"gradients need labels=…, or dy=…; on the command line --grad"):
        raise invoke("-", "test:17", "-m", "*.dpattern").exception
    with pytest.raises(DataError, match=r"there are .* images, numbered 0 to"):
        raise invoke("-", "test:99999").exception
    assert invoke("-").exit_code == 2
