"""The studio answers what the lens and the run say, and refuses everything else in plain words."""

import asyncio
import base64
import io
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner

from glassformer.cli import app
from glassformer.data import load as load_data
from glassformer.data.prepare import prepare
from glassformer.errors import SettingError
from glassformer.files import locked
from glassformer.lens import payload as payloads
from glassformer.lens.payload import view
from glassformer.lens.studio import compile_limit, guard, inputs, watch, work_queue
from glassformer.lens.studio.app import Studio
from glassformer.lens.studio.guard import Guard
from glassformer.lens.studio.http_errors import HTTPError, TooLongError
from glassformer.lens.studio.json_bytes import json_bytes
from glassformer.lens.studio.preview import preview
from glassformer.lens.studio.requests import PictureFile
from glassformer.lens.studio.run_cache import newest
from glassformer.lens.studio.runs import Place, Standing, standing_of
from glassformer.lens.studio.serve import is_loopback, open_address
from glassformer.lens.trace import trace
from glassformer.lens.trace_input import image_input, text_input
from glassformer.names import named_leaves
from glassformer.predict.run import load
from glassformer.train.run_folder import Row, RunFolder
from glassformer.train.weights import save_arrays

from .studio_runs import grown, make_run

TOKEN, HOST = "3wKq-xV8_pZt", "127.0.0.1:8765"
PAIRS = ("scores", "pattern", "dscores")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("studio") / "runs"
    for i, name in enumerate(("vit", "gpt", "iris")):
        path = make_run(runs / f"{name}-run", name)
        for file in path.iterdir():
            os.utime(file, (1e9 + i, 1e9 + i))
    make_run(runs / "vit-other", "vit", seed=7)
    return runs


WORK = work_queue.WorkQueue()  # one process for all tests


@pytest.fixture(scope="module", autouse=True)
def working() -> Iterator[None]:
    yield
    WORK.stop()


def client_of(folder: Path, **options: Any) -> TestClient:
    app = Guard(Studio(folder, WORK, WORK).app(), TOKEN, [HOST])
    return TestClient(app, base_url=f"http://{HOST}", headers={"Authorization": f"Bearer {TOKEN}"}, **options)


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with client_of(folder) as client:
        yield client


def in_base64(content: bytes | np.ndarray) -> str:
    return base64.b64encode(content if isinstance(content, bytes) else content.tobytes()).decode()


def numbers(view: dict[str, Any], name: str) -> np.ndarray:
    entry = view["tensors"][name]
    entry = view["tensors"][entry["same"]] | {"shape": entry["shape"]} if "same" in entry else entry
    assert entry["type"] == "f4"
    return np.frombuffer(base64.b64decode(entry["data"]), "<f4").reshape(entry["shape"])


# ---- the runs


def test_the_list_says_what_each_run_is(client: TestClient, folder: Path) -> None:
    answer = client.get("/api/runs").json()
    runs = {run["name"]: run for run in answer["runs"]}
    assert list(runs) == ["vit-other", "iris-run", "gpt-run", "vit-run", "-"]  # newest first
    assert answer["start"] == "vit-other"
    vit, gpt, iris, along = runs["vit-run"], runs["gpt-run"], runs["iris-run"], runs["-"]
    assert (vit["kind"], vit["shape"], vit["classes"], vit["context"]) == (
        "image",
        [28, 28, 1],
        list("0123456789"),
        None,
    )
    assert (gpt["kind"], gpt["task"], gpt["context"], gpt["shape"]) == ("text", "next-token", 32, None)
    assert (iris["kind"], iris["classes"]) == ("row", ["setosa", "versicolor", "virginica"])
    assert vit["parameters"] == sum(leaf.size for leaf in leaves(load(folder / "vit-run").params))
    assert (along["title"], along["state"], along["accuracy"]) == ("vit-pico, comes along", "finished", 0.9669)
    assert {run["error"] for run in runs.values()} == {None}


def leaves(tree: Any) -> list[Any]:
    import jax

    return jax.tree.leaves(tree)


def test_without_runs_the_model_that_comes_along_is_the_start(tmp_path: Path) -> None:
    with client_of(tmp_path / "missing") as client:
        answer = client.get("/api/runs").json()
    assert [run["name"] for run in answer["runs"]] == ["-"]
    assert answer["start"] == "-"


def test_a_run_folder_itself_may_be_given(folder: Path) -> None:
    with client_of(folder / "vit-run") as client:
        assert [run["name"] for run in client.get("/api/runs").json()["runs"]] == ["vit-run", "-"]
        assert client.get("/api/sample", params={"run": "vit-run", "index": 3}).status_code == 200


def test_states_new_runs_and_broken_ones(tmp_path: Path) -> None:
    with client_of(tmp_path) as client:

        def states() -> dict[str, str]:
            return {run["name"]: run["state"] for run in client.get("/api/runs").json()["runs"]}

        assert states() == {"-": "finished"}
        run = make_run(tmp_path / "new", "vit")
        (run / "state.safetensors").write_bytes(b"")
        with locked(run):
            assert states()["new"] == "training"
        assert states()["new"] == "stopped"
        (run / "metrics.json").write_text('{"test_accuracy": 0.25, "epochs": 3}')
        assert states()["new"] == "finished"
        (tmp_path / "bad").mkdir()
        (tmp_path / "bad" / "recipe.toml").write_text("model = {")
        (tmp_path / "seeds" / "seed-0").mkdir(parents=True)
        (tmp_path / "seeds" / "seed-0" / "recipe.toml").write_text("format = 99")
        found = {run["name"]: run for run in client.get("/api/runs").json()["runs"]}
        assert found["new"]["accuracy"] == 0.25
        assert found["bad"]["state"] == "broken"
        assert "cannot be read as TOML" in found["bad"]["error"]
        assert "format version 99" in found["seeds/seed-0"]["error"]
        view = client.post("/api/preview", json={"runs": ["bad", "new"], "input": {"sample": 0}}).json()["views"]
        assert "cannot be read as TOML" in view[0]["error"]
        assert "tensors" in view[1]


def test_a_run_without_weights_says_so(tmp_path: Path) -> None:
    (make_run(tmp_path / "young", "vit") / "model.safetensors").unlink()
    with client_of(tmp_path) as client:
        assert client.get("/api/runs").json()["start"] == "-"
        answer = client.post("/api/view", json={"run": "young", "input": {"sample": 0}})
    assert answer.status_code == 400
    assert "no weights yet" in answer.json()["error"]


def test_weights_that_are_written_anew_are_read_anew(tmp_path: Path) -> None:
    path = make_run(tmp_path / "one", "vit", seed=1)
    with client_of(tmp_path) as client:
        ask = {"runs": ["one"], "input": {"sample": 0}}
        before = client.post("/api/preview", json=ask).json()["views"][0]
        (path / "recipe.toml").unlink()
        make_run(path, "vit", seed=2)
        after = client.post("/api/preview", json=ask).json()["views"][0]
    assert not np.allclose(numbers(before, "blocks.0.attn.pattern"), numbers(after, "blocks.0.attn.pattern"))


# ---- what is seen


@pytest.mark.parametrize("label", [None, 3])
def test_the_preview_of_an_image_equals_the_trace(client: TestClient, folder: Path, label: int | None) -> None:
    run, image = load(folder / "vit-run"), load_data("mnist-mini").test.images[5]
    answer = client.post(
        "/api/preview", json={"runs": ["vit-run"], "input": {"image": in_base64(image), "label": label}}
    ).json()
    (seen,) = answer["views"]
    expected = int(run.predict(image[None])[0]) if label is None else label
    traced = trace(run.model, run.params, image[None], labels=[expected])
    assert set(seen["tensors"]) == {f"blocks.0.attn.{word}" for word in PAIRS}
    for word in PAIRS:
        np.testing.assert_allclose(
            numbers(seen, f"blocks.0.attn.{word}"), traced[f"blocks.0.attn.{word}"][0], atol=1e-6
        )
    np.testing.assert_allclose(seen["answer"]["probabilities"], run.probabilities(image[None])[0], atol=1e-6)
    assert seen["answer"]["label"] == expected
    assert seen["answer"]["known"] is (label is not None)
    assert seen["answer"]["loss"] == pytest.approx(traced.loss, abs=1e-6)
    assert base64.b64decode(seen["input"]["pixels"]) == image.tobytes()
    assert seen["input"]["grid"] == [7, 7]
    assert (seen["run"], seen["attention"][0]["heads"]) == ("vit-run", 2)


def test_two_runs_side_by_side_and_an_input_that_suits_one(client: TestClient) -> None:
    image = in_base64(load_data("mnist-mini").test.images[5])
    seen = client.post("/api/preview", json={"runs": ["vit-run", "vit-other"], "input": {"image": image}}).json()[
        "views"
    ]
    first, second = (numbers(one, "blocks.0.attn.pattern") for one in seen)
    assert not np.allclose(first, second)
    mixed = client.post("/api/preview", json={"runs": ["vit-run", "gpt-run"], "input": {"image": image}}).json()[
        "views"
    ]
    assert mixed[0] == seen[0]
    assert "reads texts" in mixed[1]["error"]
    words = client.post("/api/preview", json={"runs": ["vit-run", "gpt-run"], "input": {"text": "the cat"}}).json()
    assert "reads images" in words["views"][0]["error"]
    assert words["views"][1]["sequences"]["tokens"] == list("the cat")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"image": in_base64(bytes(783))}, "783 bytes came, vit-run reads 28 x 28 x 1 = 784"),
        ({"image": in_base64(bytes(784)), "label": 10}, "vit-run knows classes 0 to 9"),
        ({"sample": 2000}, "there are 2,000 test samples"),
    ],
)
def test_what_does_not_suit_a_run_is_said_in_its_place(client: TestClient, given: Any, message: str) -> None:
    previewed = client.post("/api/preview", json={"runs": ["vit-run"], "input": given})
    assert previewed.status_code == 200
    assert message in previewed.json()["views"][0]["error"]
    viewed = client.post("/api/view", json={"run": "vit-run", "input": given})
    assert viewed.status_code == 400
    assert message in viewed.json()["error"]


def test_a_text_is_previewed_as_if_it_had_not_been_filled_up(client: TestClient, folder: Path) -> None:
    run, text = load(folder / "gpt-run"), "the dog sat."
    seen = client.post("/api/preview", json={"runs": ["gpt-run"], "input": {"text": text}}).json()["views"][0]
    assert run.tokeniser is not None
    ids = run.tokeniser.encode(text)
    weights = np.array([[1.0] * (len(ids) - 1) + [0.0]], np.float32)  # what follows the last token is asked
    traced = trace(run.model, run.params, np.array([ids]), labels=np.array([[*ids[1:], 0]]), weights=weights)
    for word in PAIRS:
        found, expected = numbers(seen, f"blocks.0.attn.{word}"), traced[f"blocks.0.attn.{word}"][0]
        finite = np.isfinite(expected)
        np.testing.assert_allclose(found[finite], expected[finite], atol=2e-6)
    assert seen["answer"]["loss"] == pytest.approx(traced.loss, abs=1e-5)
    assert [place[2] for place in seen["answer"]["places"]] == [*text[1:], None]
    assert [layer["mask"] for layer in seen["attention"]] == ["causal"]


def test_a_text_grows_as_generate_writes_it(client: TestClient, folder: Path) -> None:
    """One token after the other, each time from the same prompt: the same text as the command's, with the same seed."""
    run = str(folder / "gpt-run")
    for drawing, flags in (
        ({"temperature": 2.0, "top_p": 0.9, "seed": 5}, "-t 2 --top-p 0.9 --seed 5"),
        ({"greedy": True}, "--greedy"),
    ):
        said = CliRunner().invoke(app, ["generate", run, "--prompt", "the cat", "-n", "6", *flags.split(), "--json"])
        whole = json.loads(said.stdout.splitlines()[-1])["texts"][0]["text"]
        for length in (1, 2, 6):
            asked = {"run": "gpt-run", "prompt": "the cat", "length": length, **drawing}
            answer = client.post("/api/write", json=asked).json()
            assert whole.startswith(answer["text"])
            assert answer["tokens"] == length
        assert answer["text"] == whole
    context = load(folder / "gpt-run").recipe.model.input.context  # pyright: ignore
    assert "last_half" not in answer
    full = ("the cat " * context)[:context]
    answer = client.post("/api/write", json={"run": "gpt-run", "prompt": full, "length": 1, "greedy": True}).json()
    assert answer["last_half"] == full[-(context // 2) :]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"length": 0}, "length: 0 tokens came, expected 1 to 1,000"),
        ({"length": 1, "temperature": "hot"}, "temperature: a string came, expected a number"),
        ({"length": 1, "temperature": 0}, "sampling: temperature is 0.0, expected a number above 0"),
        ({"length": 1, "greedy": 1}, "greedy: a number came, expected true or false"),
        ({"length": 1, "run": "vit-run"}, "does not write text"),
    ],
)
def test_what_cannot_be_written_is_refused(client: TestClient, asked: dict[str, Any], message: str) -> None:
    answer = client.post("/api/write", json={"run": "gpt-run", "prompt": "the cat", **asked})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "text", "target"),
    [("bert", "the <mask>at sat", None), ("t5", "<de> 5. Mai 2024", "2024-05-05"), ("gpt", "the", None)],
)
def test_filling_up_changes_no_number(tmp_path: Path, kind: str, text: str, target: str | None) -> None:
    run = load(make_run(tmp_path / "runs" / "one", kind))
    trace_input = text_input(run, "a text", text, target)
    seen, whole = preview(run, trace_input), view(run, trace_input)
    assert seen["attention"] == whole["attention"]
    assert seen["sequences"] == whole["sequences"]
    assert {name.rpartition(".")[2] for name in seen["tensors"]} == set(PAIRS)
    for name in seen["tensors"]:
        found, expected = numbers(seen, name), numbers(whole, name)
        np.testing.assert_allclose(found[np.isfinite(expected)], expected[np.isfinite(expected)], atol=1e-5)
    for found, expected in zip(seen["answer"]["places"], whole["answer"]["places"], strict=True):
        assert found[0::2] == expected[0::2]
        assert found[1::2] == pytest.approx(expected[1::2], abs=1e-5)
    assert seen["answer"]["loss"] == pytest.approx(whole["answer"]["loss"], abs=1e-5)


def test_a_long_text_is_sent_as_what_its_attention_follows_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "DERIVED", 100)
    run = load(folder / "gpt-run")
    tensors = preview(run, text_input(run, "a text", "the dog sat."))["tensors"]
    assert {name.rpartition(".")[2] for name, entry in tensors.items() if "derived" in entry} == {*PAIRS, "dpattern"}
    given = {"q", "k", "v", "dz", "mask"}
    assert {name.rpartition(".")[2] for name, entry in tensors.items() if "data" in entry} == given
    assert tensors["blocks.0.attn.k"]["shape"] == [12, 2, 4]
    assert tensors["blocks.0.attn.mask"]["shape"][-2:] == [12, 12]
    for entry in tensors.values():  # their formulas, and all that these read
        assert ("derived" in entry) == ("equation" in entry)
        assert {ref["tensor"] for ref in entry.get("refs", {}).values() if "tensor" in ref} <= set(tensors)


def test_rows_of_numbers_are_taken_as_text(client: TestClient, folder: Path) -> None:
    run = load(folder / "iris-run")
    sample = client.get("/api/sample", params={"run": "iris-run", "index": 2}).json()
    (seen,) = client.post("/api/preview", json={"runs": ["iris-run"], "input": {"text": sample["text"]}}).json()[
        "views"
    ]
    (answer,) = run.answer([sample["text"]])
    assert dict(zip(seen["answer"]["classes"], seen["answer"]["probabilities"], strict=True)) == pytest.approx(
        answer.probabilities,  # pyright: ignore[reportAttributeAccessIssue]
        abs=1e-6,
    )
    assert sample["target"] in run.classes


def test_samples_are_the_test_data(client: TestClient) -> None:
    test = load_data("mnist-mini").test
    sample = client.get("/api/sample", params={"run": "vit-run", "index": 17}).json()
    assert (sample["name"], sample["count"], sample["label"]) == ("test:17", len(test.labels), test.labels[17])
    assert base64.b64decode(sample["image"]) == test.images[17].tobytes()
    by_number = client.post("/api/view", json={"run": "vit-run", "input": {"sample": 17}}).json()
    assert by_number["input"] == {
        **by_number["input"],
        "name": "test:17",
        "pixels": sample["image"],
    }
    text = client.get("/api/sample", params={"run": "gpt-run", "index": 1}).json()
    assert (len(text["text"]), text["target"]) == (32, None)
    for index in ("-1", "1.5", "", "99999999999999999999", "٣"):
        assert client.get("/api/sample", params={"run": "vit-run", "index": index}).status_code == 400
    assert client.get("/api/sample", params={"run": "vit-run", "index": "2000"}).status_code == 400


def test_a_view_is_the_page_s_payload(client: TestClient, folder: Path) -> None:
    run, image = load(folder / "vit-run"), load_data("mnist-mini").test.images[5]
    shown = client.post("/api/view", json={"run": "vit-run", "input": {"image": in_base64(image), "label": 1}}).json()
    expected = json.loads(json_bytes(view(run, image_input(run, "drawing", image, 1), alone=False)))
    assert shown == {**expected, "run": "vit-run"}


def test_a_picture_is_prepared_as_predict_does(client: TestClient, folder: Path) -> None:
    digit = load_data("mnist-mini").test.images[5][..., 0]
    paper = 255 - np.pad(np.kron(digit, np.ones((4, 4), np.uint8)), 30)  # dark ink on white, large
    run = load(folder / "vit-run")
    for kind in ("PNG", "JPEG", "WEBP"):
        file = io.BytesIO()
        Image.fromarray(paper).save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
        answer = client.post(
            "/api/preview", json={"runs": ["vit-run"], "input": {"picture": in_base64(file.getvalue())}}
        )
        assert answer.status_code == 200, answer.text
        (seen,) = answer.json()["views"]
        pixels = np.asarray(Image.open(file).convert("L"))[..., None]
        image, _ = prepare(pixels, run.images.shape)
        assert np.abs(np.frombuffer(base64.b64decode(seen["input"]["pixels"]), np.uint8) - image.ravel()).max() == 0
        assert np.argmax(seen["answer"]["probabilities"]) == run.predict(image[None])[0]


# ---- who may ask


def test_the_page_opens_with_the_token_alone(client: TestClient) -> None:
    bare = TestClient(client.app, base_url=f"http://{HOST}")
    page = bare.get("/", params={"token": TOKEN})
    assert page.status_code == 200
    assert '<div id="studio">' in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'sha256-" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert TOKEN not in page.text
    for address in ("/", "/?token=", "/?token=3wKq-xV8_pZ", f"/?token={TOKEN}x", "/?token=%ff%00", "/?token=é"):
        refused = bare.get(address)
        assert refused.status_code == 401
        assert refused.text.startswith("the token is missing or wrong; open the address that `glassformer studio`")


@pytest.mark.parametrize("path", ["/api/runs", "/api/sample", "/api/preview", "/api/view", "/api/watch", "/api/none"])
def test_nothing_is_told_without_the_token(client: TestClient, path: str) -> None:
    bare = TestClient(client.app, base_url=f"http://{HOST}")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": TOKEN}):
        for method in ("GET", "POST", "DELETE"):
            answer = bare.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert list(answer.json()) == ["error"]
    assert bare.get("/api/runs", params={"token": TOKEN}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8765", "", "*"]
)
def test_a_foreign_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/runs", headers={"Host": host})
    assert answer.status_code == 421
    assert "Host" in answer.json()["error"]


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "https://127.0.0.1:8765", "http://127.0.0.1", "null", "", "http://127.0.0.1:87651"],
)
def test_a_foreign_origin_is_refused(client: TestClient, origin: str) -> None:
    for method, path in (("GET", "/api/runs"), ("POST", "/api/preview"), ("OPTIONS", "/api/view"), ("GET", "/")):
        assert client.request(method, path, headers={"Origin": origin}).status_code == 403
    assert client.get("/api/runs", headers={"Origin": f"http://{HOST}"}).status_code == 200


def test_every_answer_carries_the_security_headers(client: TestClient) -> None:
    answers = [
        client.get("/"),
        client.get("/api/runs"),
        client.get("/api/nothing"),
        client.get("/api/preview"),
        client.get("/api/runs", headers={"Host": "evil.example"}),
        client.post("/api/view", content=b"{"),
        client.get("/api/watch", params={"run": "-"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 405, 421, 400, 200]
    for answer in answers:
        for name, value in guard.HEADERS.items():
            assert value in answer.headers[name] or name == "content-security-policy"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_errors_say_what_to_do(client: TestClient) -> None:
    assert client.get("/nothing/here").json()["error"].endswith("the page is at /, what it asks under /api")
    refused = client.get("/api/view")
    assert (refused.status_code, refused.json()) == (405, {"error": "GET came, expected POST"})


# ---- names of runs


ESCAPES = [
    *(
        "..",
        "../runs/vit-run",
        "./vit-run",
        "vit-run/",
        "vit-run/.",
        "/etc",
        "vit-run\0",
        "vit-run\0.png",
        "~",
        "",
        ".",
    ),
    *(
        "....//",
        "..\\runs",
        "%2e%2e",
        "%2e%2e%2fruns%2fvit-run",
        "link",
        "link/vit",
        "VIT-RUN",
        "x" * 301,
        "\udcff",
        "-/.",
    ),
]


@pytest.fixture
def linked(tmp_path: Path, folder: Path) -> Path:
    runs = tmp_path / "runs"
    make_run(runs / "vit-run", "vit")
    (runs / "link").symlink_to(folder / "vit-run")
    (runs / "file").write_text("no run")
    return runs


def test_no_name_leads_out_of_the_folder(linked: Path) -> None:
    with client_of(linked) as client:
        assert [run["name"] for run in client.get("/api/runs").json()["runs"]] == ["vit-run", "-"]
        for name in [*ESCAPES, "file", str(linked / "vit-run"), str(linked)]:
            body = json.dumps({"run": name, "runs": [name], "input": {"sample": 0}})
            answers = [client.post(path, content=body) for path in ("/api/view", "/api/preview")]
            if name.isprintable():
                answers += [
                    client.get(f"/api/{path}", params={"run": name, "index": 0}) for path in ("sample", "watch")
                ]
            for answer in answers:
                assert answer.status_code in (400, 404), name
                assert list(answer.json()) == ["error"]
        for raw in ("%2e%2e%2fruns%2fvit-run", "..%2fvit-run", "%00", "vit-run%00", "%ff%fe", "%2Fetc%2Fpasswd"):
            assert client.get(f"/api/sample?run={raw}&index=0").status_code in (400, 404)


def test_a_folder_that_became_a_link_is_no_run_any_more(linked: Path, folder: Path) -> None:
    with client_of(linked) as client:
        address = {"run": "vit-run", "index": 0}
        assert client.get("/api/sample", params=address).status_code == 200
        (linked / "vit-run").rename(linked.parent / "away")
        (linked / "vit-run").symlink_to(folder / "vit-run")
        assert client.get("/api/sample", params=address).status_code == 404


# ---- what comes in


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client: TestClient) -> None:
    assert client.post("/api/preview", content=bytes(guard.LARGEST_BODY + 1)).status_code == 413

    def endless() -> Iterator[bytes]:
        while True:
            sent.append(1)
            yield bytes(1 << 20)

    sent: list[int] = []
    asked = asyncio.run(asked_in_parts(client.app, endless()))
    assert asked[0] == 413
    assert "at most 8,388,608 are taken" in asked[1]["error"]
    assert len(sent) == 9  # megabytes: the first that is too much


async def asked_in_parts(app: Any, parts: Iterator[bytes], path: str = "/api/preview") -> tuple[int, dict[str, Any]]:
    answers: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": next(parts), "more_body": True}

    async def send(message: Any) -> None:
        answers.append(message)

    headers = [(b"host", HOST.encode()), (b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "root_path": ""}
    scope |= {"query_string": b"", "headers": headers, "scheme": "http", "http_version": "1.1"}
    await app({**scope, "server": ("127.0.0.1", 8765), "client": None}, receive, send)
    return answers[0]["status"], json.loads(b"".join(one.get("body", b"") for one in answers[1:]))


def test_all_bodies_together_are_bounded(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "ALL_BODIES", 1000)
    status, answer = asyncio.run(asked_in_parts(client.app, iter([bytes(600), bytes(600)])))
    assert status == 503
    assert "ask again" in answer["error"]
    monkeypatch.undo()
    assert client.app.held == 0  # pyright: ignore


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "9" * 30])
def test_a_length_that_is_none_is_refused(client: TestClient, length: str) -> None:
    assert client.post("/api/view", content=b"{}", headers={"Content-Length": length}).status_code in (400, 413)


@pytest.mark.parametrize(
    ("side", "message"), [(4500, "4500 x 4500 pixels came"), (20_000, "at most 20,000,000 pixels are taken")]
)
def test_a_picture_that_would_fill_the_memory_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch, side: int, message: str
) -> None:
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    assert len(file.getvalue()) < 100_000
    monkeypatch.setattr(inputs, "decode_on_white", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(HTTPError, match=message) as refused:
        inputs.unpacked(PictureFile(file.getvalue()))
    assert refused.value.status == 400


def refused(client: TestClient, path: str, body: bytes) -> None:
    answer = client.post(path, content=body)
    assert "Traceback" not in answer.text
    if answer.status_code == 200:  # of two runs one may not be suited: said in its place
        assert path == "/api/preview"
        assert all(isinstance(view["error"], str) for view in answer.json()["views"]), body[:200]
        return
    assert 400 <= answer.status_code < 500, body[:200]
    assert list(answer.json()) == ["error"]


STRANGE: list[Any] = [
    *(None, True, -1, 0, 1.5, 1e308, 2**53, 10**400, "", "x", "\0", "💥" * 10, "\ud800", [], [[]], {}, {"a": 1}),
    *(["vit-run"] * 3, [None], ["vit-run", 7], {"image": {}}, {"text": ["a"]}, [0] * 1000),
]
MALFORMED = [
    *(
        b"",
        b"{",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b"\xff\xfe{}",
        b"{} {}",
        b'{"runs": NaN}',
        b'{"a":Infinity}',
        b"\0" * 99,
    ),
    b"[" * 200_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b'{"runs":["vit-run"],"input":{"sample":' + b"9" * 100_000 + b"}}",
    b'{"runs":["vit-run"],"input":{"sample":NaN}}',
    b'{"runs":["vit-run"],"input":{"sample":1e999}}',
    b'{"runs":["vit-run"],"input":{"image":"' + b"A" * 3_000_000 + b'"}}',
    '{"run":"vit-run","input":{"text":"é'.encode("latin-1"),
]


@pytest.mark.parametrize("path", ["/api/preview", "/api/view"])
def test_malformed_requests_are_refused_in_words(client: TestClient, path: str) -> None:
    for body in MALFORMED:
        refused(client, path, body)


def test_requests_of_wrong_types_are_refused_in_words(client: TestClient) -> None:
    """Several hundred, drawn with a seed: one place of a right request holds something strange."""
    rng = random.Random(0)
    good = {"image": in_base64(bytes(784)), "text": "the cat", "picture": in_base64(b"no"), "sample": 3}
    refusals = 0
    for _ in range(400):
        kind, strange = rng.choice(list(good)), rng.choice(STRANGE)
        plain: dict[str, Any] = {"run": "vit-run", "runs": ["vit-run"], "input": {kind: good[kind]}}
        where = rng.choice(["run", "input", kind, "beside"])
        if where == "run":
            plain |= {"run": strange, "runs": strange}
        elif where == "input":
            plain["input"] = strange
        elif where == kind:
            plain["input"][kind] = strange
        else:
            plain["input"][rng.choice(["label", "target", "more", "image"])] = strange
        for path in ("/api/preview", "/api/view"):
            answer = client.post(path, content=json.dumps(plain).encode())
            assert "Traceback" not in answer.text
            assert answer.status_code == 200 or 400 <= answer.status_code < 500, plain
            assert answer.status_code == 200 or list(answer.json()) == ["error"]
            refusals += answer.status_code != 200
    assert refusals > 600  # a few strange things are right all the same: a label of 0, a text of one letter


def pictures(count: int) -> Iterator[bytes]:
    """Files that are damaged: cut off, with bytes changed, or random behind a right beginning."""
    rng = np.random.default_rng(1)
    good = []
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (31, 29, 3), dtype=np.uint8)).save(file, kind)
        good.append(file.getvalue())
    for i in range(count):
        content = bytearray(good[i % len(good)])
        if i % 3 == 0:
            yield bytes(content[: rng.integers(0, len(content) // 2)])
        elif i % 3 == 1:
            for at in rng.integers(0, min(len(content), 120), 6):
                content[at] = rng.integers(0, 256)
            yield bytes(content)
        else:
            start = int(rng.integers(0, 16))
            yield bytes(content[:start]) + rng.bytes(int(rng.integers(0, 600)))


def test_damaged_pictures_are_refused_in_words(client: TestClient) -> None:
    statuses = []
    for content in pictures(300):
        answer = client.post("/api/preview", json={"runs": ["vit-run"], "input": {"picture": in_base64(content)}})
        assert "Traceback" not in answer.text
        assert answer.status_code in (200, 400)
        (seen,) = answer.json()["views"] if answer.status_code == 200 else [answer.json()]
        assert "0x" not in seen.get("error", "")  # no object's address
        statuses.append(answer.status_code)
    assert statuses.count(400) > 150  # some are pictures all the same
    assert client.get("/api/runs").status_code == 200


# ---- heavy work


def begun(file: Path, seconds: float = 0.0) -> int:
    """In the other process: how many were begun before this one."""
    there = len(file.read_text()) if file.exists() else 0
    with file.open("a") as opened:
        opened.write("x")
    time.sleep(seconds)
    return there


def busy_in_c() -> None:
    """A loop that no signal handler and no other thread of its process interrupts."""
    sum(itertools.repeat(1))


def test_work_is_done_one_at_a_time_and_a_full_queue_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WORK, "places", threading.Semaphore(5))

    async def ask() -> list[Any]:
        asked = [asyncio.create_task(WORK.run(begun, tmp_path / "begun", 0.1)) for _ in range(8)]
        await asyncio.sleep(0.05)
        asked[4].cancel()  # who asked has gone
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(ask())
    assert found[:4] == [0, 1, 2, 3]
    assert isinstance(found[4], asyncio.CancelledError)
    assert [error.status for error in found[5:] if isinstance(error, HTTPError)] == [503] * 3
    assert found[5].headers == {"Retry-After": "1"}
    assert (tmp_path / "begun").read_text() == "xxxx"


def test_work_that_does_not_end_is_stopped_and_the_next_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WORK, "seconds", 1.0)
    monkeypatch.setattr(work_queue, "WAIT_SECONDS", 0.3)

    async def ask() -> list[Any]:
        stuck = asyncio.create_task(WORK.run(busy_in_c))
        await asyncio.sleep(0)
        behind = asyncio.create_task(WORK.run(begun, tmp_path / "begun"))
        found = await asyncio.gather(stuck, behind, return_exceptions=True)
        return [*found, await WORK.run(os.getpid)]

    stuck, behind, process = asyncio.run(ask())
    assert isinstance(stuck, TooLongError)
    assert (stuck.status, stuck.why) == (504, "it took longer than 1 s and was stopped")
    assert behind.status == 503  # it is told to wait, and does not hang
    assert not (tmp_path / "begun").exists()
    assert process != os.getpid()


def test_a_process_that_dies_of_its_work_is_replaced() -> None:
    async def ask() -> tuple[int, int]:
        before = await WORK.run(os.getpid)
        with pytest.raises(HTTPError, match="was ended"):
            await WORK.run(os._exit, 9)
        return before, await WORK.run(os.getpid)

    before, after = asyncio.run(ask())
    assert before != after


def test_compiled_programs_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[int] = []
    monkeypatch.setattr(compile_limit.jax, "clear_caches", lambda: forgotten.append(1))
    kept = compile_limit.CompileLimit(most=3)
    for size in (1, 2, 3, 1, 2, 3):
        kept.note("a model", np.zeros((1, size)))
    assert forgotten == []
    kept.note("another model", np.zeros((1, 1)))
    kept.note("another model", {"x": np.zeros((1, 1)), "y": np.zeros(4)})
    assert forgotten == [1]


def test_who_has_gone_is_not_worked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Guard(Studio(folder, WORK, WORK).app(), TOKEN, [HOST])
    begun: list[Any] = []
    monkeypatch.setattr(WORK, "done", lambda *work: begun.append(work) or time.sleep(0.3))

    async def ask() -> None:
        first = asyncio.create_task(WORK.run(os.getpid))
        await asyncio.sleep(0)
        body = json.dumps({"runs": ["vit-run"], "input": {"sample": 0}}).encode()
        messages = iter([{"type": "http.request", "body": body}, {"type": "http.disconnect"}])

        async def receive() -> Any:
            return next(messages)

        async def send(_: Any) -> None:
            pass

        headers = [(b"host", HOST.encode()), (b"authorization", f"Bearer {TOKEN}".encode())]
        scope = {"type": "http", "method": "POST", "path": "/api/preview", "raw_path": b"", "root_path": ""}
        await app({**scope, "query_string": b"", "headers": headers, "scheme": "http"}, receive, send)
        await first

    asyncio.run(ask())
    assert begun == [(os.getpid, ())]


# ---- watching


def events_of(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def row(epoch: int) -> Row:
    return Row(
        epoch=epoch, loss=2 / epoch, time=0.5, test_accuracy=epoch / 10, val_accuracy=None, lr=1e-3, test_loss=1.5
    )


def test_watching_a_finished_run_tells_everything_and_ends(client: TestClient, folder: Path) -> None:
    RunFolder(folder / "vit-run").save_log((row(1), row(2)))
    answer = client.get("/api/watch", params={"run": "vit-run"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    progress, look, end = events_of(answer.text)
    assert progress[0] == "progress"
    assert (progress[1]["state"], progress[1]["of"]) == ("finished", 3)
    assert progress[1]["epochs"] == [vars(row(1)) | {"val_loss": None}, vars(row(2)) | {"val_loss": None}]
    run = load(folder / "vit-run")
    test = load_data("mnist-mini").test
    traced = trace(run.model, run.params, test.images[:1], labels=test.labels[:1])
    assert (look[0], look[1]["epoch"]) == ("look", 2)
    np.testing.assert_allclose(
        numbers(look[1]["view"], "blocks.0.attn.dscores"), traced["blocks.0.attn.dscores"][0], atol=1e-6
    )
    assert end == ("end", {"state": "finished"})
    assert client.get("/api/watch", params={"run": "nothing"}).status_code == 404


def test_the_newest_weights_are_those_of_the_last_whole_epoch(tmp_path: Path) -> None:
    path = make_run(tmp_path / "one", "vit", seed=1)
    assert newest(path)[0] == 2  # as its file of weights says: there is no state
    last = grown(RunFolder(path).recipe().model, seed=5)
    for step, expected in ((0, (7, last)), (3, (2, load(path).params))):
        state = {f"state.params.{name}": leaf for name, leaf in named_leaves(last).items()}
        about = {"progress": {"epoch": 7, "step": step}}
        save_arrays(path / "state.safetensors", {**state, "state.optimiser.count": np.zeros(1)}, about)
        epoch, run = newest(path)
        assert epoch == expected[0]
        for found, leaf in zip(leaves(run.params), leaves(expected[1]), strict=True):
            np.testing.assert_array_equal(found, leaf)


def test_one_watcher_tells_all_and_drops_who_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(tmp_path / "one", "vit")
    (path / "state.safetensors").write_bytes(b"")
    reads: list[Place] = []
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(watch, "MOST_WAITING", 20)
    monkeypatch.setattr(watch, "KEPT_LOOKS", 3)
    looks = iter(range(1000))

    async def heard(listener: watch.Listener) -> list[tuple[str, Any]]:
        found = []
        while (event := await listener.next()) is not None:
            found += events_of(event.decode())
        return found

    async def scene() -> None:
        async def stand(place: Place) -> Standing:
            reads.append(place)
            return standing_of(place)

        async def look(_: Place) -> tuple[int, dict[str, Any]]:
            return next(looks), {"run": "one"}

        place = Place(path, tmp_path)
        watchers = watch.Watchers(stand, look)
        joined = [await watchers.join(place) for _ in range(50)]
        assert len({id(watcher) for watcher, _ in joined}) == 1
        slow = joined[0][1]
        hearing = [asyncio.create_task(heard(listener)) for _, listener in joined[1:]]
        for epoch in range(1, 41):
            RunFolder(path).save_log(tuple(map(row, range(1, epoch + 1))))
            (path / "model.safetensors").touch()
            await asyncio.sleep(0.03)
        assert slow.ended
        assert not slow.waiting
        count = len(reads)
        await asyncio.sleep(0.2)
        assert len(reads) - count < 20  # not one for each listener
        late = (await watchers.join(place))[1]
        late_hearing = asyncio.create_task(heard(late))
        (path / "metrics.json").write_text("{}")
        everything = await asyncio.gather(*hearing)
        for events in everything:
            assert [one["epoch"] for name, one in events if name == "epoch"] == list(range(1, 41))
            assert events[-1] == ("end", {"state": "finished"})
        seen = [one["epoch"] for name, one in everything[0] if name == "look"]
        assert seen == sorted(seen)
        late_events = await late_hearing
        assert [name for name, _ in late_events[:4]] == ["progress", "look", "look", "look"]
        assert len(late_events[0][1]["epochs"]) == 40
        watchers.stop()

    with locked(path):
        asyncio.run(scene())


def test_a_run_that_begins_anew_is_told_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "POLL_SECONDS", 0.02)
    path = make_run(tmp_path / "one", "vit")
    (path / "state.safetensors").write_bytes(b"")
    RunFolder(path).save_log((row(1), row(2)))

    async def scene() -> None:
        async def stand(place: Place) -> Standing:
            return standing_of(place)

        async def look(_: Place) -> tuple[int, dict[str, Any]]:
            return 0, {}

        place = Place(path, tmp_path)
        watchers = watch.Watchers(stand, look)
        _, listener = await watchers.join(place)
        RunFolder(path).save_log((replace(row(1), loss=9.0),))
        found: list[Any] = []
        while len(found) < 2:
            found += [one for one in events_of(((await listener.next()) or b"").decode()) if one[0] == "progress"]
        assert [one["loss"] for one in found[1][1]["epochs"]] == [9.0]
        watchers.stop()
        while await listener.next() is not None:
            pass
        with pytest.raises(HTTPError):
            await watchers.join(place)

    asyncio.run(scene())


# ---- serving


def test_without_its_packages_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from glassformer.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code, "studio"], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr == "glassformer: studio: needs starlette and uvicorn: pip install 'glassformer[studio]'\n"


def test_what_is_no_number_is_null() -> None:
    assert json_bytes({"loss": float("nan"), "rows": [1.0, float("inf")]}) == b'{"loss":null,"rows":[1.0,null]}'


def test_an_address_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its token is then not kept."""
    monkeypatch.delenv("GLASSFORMER_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))
    address = open_address("127.0.0.1", 0, tmp_path)
    address.listener.close()
    assert len(address.token) >= 32


def test_addresses() -> None:
    first = open_address("127.0.0.1")
    second = open_address("127.0.0.1")
    try:
        assert first.port != second.port
        assert first.token != second.token
        assert len(first.token) >= 32
        assert first.url == f"http://127.0.0.1:{first.port}/?token={first.token}"
        assert {f"localhost:{first.port}", f"127.0.0.1:{first.port}", f"[::1]:{first.port}"} == first.hosts()
        with pytest.raises(SettingError, match=f"port {first.port} is taken; choose another with --port"):
            open_address("127.0.0.1", first.port)
        with pytest.raises(SettingError, match="leads nowhere"):
            open_address("no.such.host.invalid")
    finally:
        first.listener.close()
        second.listener.close()
    assert [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9", "0.0.0.0", "192.168.0.1")] == [
        *(True, True, True, True, False, False)
    ]


def test_where_it_listens_on_all_addresses_the_one_that_was_reached_is_its_own() -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    app = Guard(inner, TOKEN, ["box:8765"], anywhere=True)
    client = TestClient(app, base_url="http://10.0.0.7:8765", headers={"Authorization": f"Bearer {TOKEN}"})
    assert client.get("/api").status_code == 204
    assert client.get("/api", headers={"Host": "box:8765"}).status_code == 204
    assert client.get("/api", headers={"Host": "evil.example:8765"}).status_code == 421
