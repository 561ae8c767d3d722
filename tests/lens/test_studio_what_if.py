"""What if by the studio's server: every control equals lens.patch, and what is wrong is refused in plain words."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from glassformer import lens
from glassformer.data import load as load_data
from glassformer.lens.studio import what_if as questions
from glassformer.lens.studio import work_queue
from glassformer.lens.studio.app import Studio
from glassformer.lens.studio.guard import Guard
from glassformer.lens.trace_input import TraceInput, image_input, text_input
from glassformer.predict.run import Run, load

from .studio_runs import make_run

TOKEN, HOST = "3wKq-xV8_pZt", "127.0.0.1:8765"
WORK = work_queue.WorkQueue()
LAYERS = {"vit": "blocks.0.attn", "gpt": "blocks.0.attn", "bert": "bert.blocks.0.attn", "t5": "decoder.blocks.0.cross"}
INPUTS: dict[str, dict[str, Any]] = {
    "gpt": {"text": "the cat sat"},
    "bert": {"text": "the c<mask>t sat"},
    "t5": {"text": "24 May 2021"},
}
STREAMS = {"gpt": "blocks.0.resid_post", "bert": "bert.blocks.0.norm2.y", "t5": "encoder.blocks.0.resid_post"}
SCORES = {kind: [f"{layer.replace('cross', 'attn')}.scores"] for kind, layer in LAYERS.items()}  # one block each
KINDS = ["vit", "gpt", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bert", "t5"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("studio") / "runs"
    runs.mkdir()
    return runs


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    app = Guard(Studio(folder, WORK, WORK).app(), TOKEN, [HOST])
    with TestClient(app, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client
    WORK.stop()


def ready(folder: Path, kind: str) -> tuple[Run, TraceInput, dict[str, Any]]:
    path = folder / f"{kind}-run"
    run = load(path if path.exists() else make_run(path, kind))
    if kind == "vit":
        image = load_data("mnist-mini").test.images[5]
        return run, image_input(run, "drawing", image, 1), {"image": pixels(image), "label": 1}
    given = INPUTS[kind]
    return run, text_input(run, given["text"], given["text"]), given


def pixels(image: np.ndarray) -> str:
    return base64.b64encode(image.tobytes()).decode()


def logits_of(answer: dict[str, Any]) -> np.ndarray:
    return np.array(answer["logits"]["data"]).reshape(answer["logits"]["shape"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_control_equals_lens_patch(client: TestClient, folder: Path, kind: str) -> None:
    run, given, plain = ready(folder, kind)
    layer = LAYERS[kind]
    rest = {"labels": given.labels, "weights": given.weights, "loss": run.recipe.loss, **given.keywords}

    def at(where: Any, new: Any) -> Any:
        def put(value: Any) -> Any:
            out = np.array(value)
            out[where] = new(out[where])
            return out

        return put

    def hidden(scores: Any) -> Any:
        out = np.array(scores)
        out[:, :, np.arange(out.shape[2]) != 1, 1] = -1e9
        return out

    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"change": "head-off", "layer": layer, "head": 1}, {f"{layer}.z": at(np.s_[:, :, 1], lambda z: 0 * z)}),
        ({"change": "temperature", "value": 2, "layer": layer}, {f"{layer}.scores": at(np.s_[:], lambda s: s / 2)}),
        ({"change": "scale", "name": f"{layer}.v", "by": -1.5}, {f"{layer}.v": at(np.s_[:], lambda v: -1.5 * v)}),
        (
            {"change": "replace", "name": f"{layer}.z", "value": 0.5, "position": 2},
            {f"{layer}.z": at(np.s_[:, 2], lambda z: 0 * z + 0.5)},
        ),
        ({"change": "hide", "position": 1}, dict.fromkeys(SCORES[kind], hidden)),
    ]
    for record, patch in cases:
        answer = client.post("/api/what_if", json={"run": f"{kind}-run", "input": plain, "changes": [record]})
        assert answer.status_code == 200, answer.text
        expected = lens.patch(run.model, run.params, given.x, patch, **rest)
        np.testing.assert_allclose(logits_of(answer.json()), np.asarray(expected.logits)[0], atol=1e-5)
        assert answer.json()["loss"] == pytest.approx(expected.loss, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_head_off_is_ablate_each(client: TestClient, folder: Path, kind: str) -> None:
    run, given, plain = ready(folder, kind)
    found = client.post("/api/what_if", json={"run": f"{kind}-run", "input": plain, "table": "heads"}).json()["heads"]
    rest = {"labels": given.labels, "weights": given.weights, "loss": run.recipe.loss, **given.keywords}
    effects = lens.ablate_each(run.model, run.params, given.x, **rest)
    assert [(one["layer"] + ".z", one["head"]) for one in found] == [(one.name, one.head) for one in effects.heads]
    np.testing.assert_allclose([one["change"] for one in found], [one.loss_change for one in effects.heads], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_the_changed_input_its_swap_and_its_table(client: TestClient, folder: Path, kind: str) -> None:
    run, given, plain = ready(folder, kind)
    edit = {"change": "token", "position": 2, "id": 5, "sequence": "memory" if kind == "t5" else "tokens"}
    ids = np.array(given.x.source if kind == "t5" else given.x)
    ids[0, 2] = 5
    other = given.x._replace(source=ids) if kind == "t5" else ids
    ask = {"run": f"{kind}-run", "input": plain}
    changed = logits_of(client.post("/api/what_if", json={**ask, "changes": [edit]}).json())
    np.testing.assert_allclose(changed, np.asarray(lens.trace(run.model, run.params, other).logits)[0], atol=1e-5)

    name = STREAMS[kind]
    swap = {"change": "swap", "name": name, "position": 2}
    swapped = logits_of(client.post("/api/what_if", json={**ask, "changes": [edit, swap]}).json())
    expected = lens.what_if(run.model, run.params, given.x, [lens.Swap(name, position=2)], other=other)
    np.testing.assert_allclose(swapped, np.asarray(expected.after.logits)[0], atol=1e-5)

    table = client.post("/api/what_if", json={**ask, "changes": [edit], "table": "positions"}).json()
    rows = lens.activation_patching(run.model, run.params, given.x, other).rows
    assert list(table["rows"]) == list(rows)
    for stream, row in rows.items():
        np.testing.assert_allclose(table["rows"][stream], row, atol=1e-5)


def test_an_image_drawn_on(client: TestClient, folder: Path) -> None:
    run, given, plain = ready(folder, "vit")
    drawn = 255 - np.asarray(given.x)
    ask = {"run": "vit-run", "input": plain, "changes": [{"change": "image", "pixels": pixels(drawn)}]}
    found = logits_of(client.post("/api/what_if", json=ask).json())
    np.testing.assert_allclose(found, np.asarray(lens.trace(run.model, run.params, drawn).logits)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"changes": [{"change": "explode"}]}, "'explode' is no kind of change"),
        ({"changes": [{"change": "head-off", "layer": "x", "head": 0}]}, "no attention layer is called 'x'"),
        ({"changes": "all"}, "changes: a string came, expected a list of objects"),
        ({"changes": [{}] * 65}, "65 came, at most 64 are taken"),
        ({"table": "everything"}, "table: a string came, expected heads or positions"),
        ({"table": "positions"}, "nothing of the input is changed"),
        ({"changes": [{"change": "token", "position": 0, "id": 99}]}, "id 99 came, gpt-run knows 0 to"),
        ({"changes": [{"change": "image", "pixels": "?"}]}, "pixels: not base64"),
        ({"changes": [{"change": "image", "pixels": pixels(np.zeros(3, np.uint8))}]}, "3 pixels came"),
        ({"changes": [], "place": -1}, "place: a number came, expected a whole number"),
        ({"heads": 1}, "'heads' came, expected run, input, changes, table, label, place"),
    ],
)
def test_what_is_wrong_is_said(client: TestClient, folder: Path, question: dict[str, Any], message: str) -> None:
    _, _, plain = ready(folder, "gpt")
    answer = client.post("/api/what_if", json={"run": "gpt-run", "input": plain, **question})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_of_many_logits_only_the_row_that_is_looked_at_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.arange(12.0).reshape(3, 4)
    assert questions.plain_logits(logits, 1)["shape"] == [3, 4]
    monkeypatch.setattr(questions, "MOST_LOGITS", 5)
    assert questions.plain_logits(logits, 1) == {"shape": [4], "data": [4.0, 5.0, 6.0, 7.0]}
    assert questions.plain_logits(logits, None)["data"] == [8.0, 9.0, 10.0, 11.0]
