"""Run folders that were written before models told their structure: they open, score the same, and resume.

before/            one run of each family, stopped in the middle (before/make.py), never written again
expected.json      what the code of that day said of each, before and after it went on to its end
"""

import hashlib
import json
import platform
import shutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import glassformer
from glassformer.data.dataset import Dataset, cut, digest
from glassformer.predict.run import Run
from glassformer.train import resolve
from glassformer.train.fit import resume
from glassformer.train.loop import Listener
from glassformer.train.weights import load_arrays

from .native.compiled import c_compiler

BEFORE = Path(__file__).with_name("before")
EXPECTED = BEFORE / "expected.json"
NAMES = sorted(path.parent.name for path in BEFORE.glob("*/recipe.toml"))
QUICK = ("patch-attention", "recurrent-classifier", "tiny-iris")  # to resume; the first of them by C
TESTS = 400  # test samples that are scored; of running text, tokens
FIRST = 40  # logits of each sample that are kept one by one
CLOSE = 1e-4  # of another processor, where sums are rounded in another order
ROUNDING = 1e-7  # and all there is of a weight that changes nothing: what a span's logits all gain, softmax takes away
UNUSED = ".b_k"  # so it does with what all scores of a query gain; but Adam makes full steps of rounding
OF_VERSION = {"pydoc": "python", "places": "babel", "dates": "babel"}  # whose other versions have other texts


def measured(run: Run, data: Dataset) -> dict[str, Any]:
    """Accuracy and loss on the test samples; of the first three the logits."""
    score, task = run.score(data), run.recipe.task

    @jax.jit
    def forward(params: Any, samples: Any) -> Any:
        batch = task.batch(samples, jnp.arange(3))
        return run.model.forward(params, batch.x, **batch.keywords)[0]

    logits = np.asarray(forward(run.params, jax.tree.map(jnp.asarray, data.test))).reshape(3, -1)
    return {
        "accuracy": score.accuracy,
        "loss": score.loss,
        "logits": [[float(value) for value in row[:FIRST]] for row in logits],
        "sums": sums(logits),
    }


def resumed(folder: Path, copy: Path, data: Dataset) -> dict[str, Any]:
    """How a run ends that goes on from the folder, in a copy of it."""
    shutil.copytree(folder, copy)
    result = resume(copy, data=data)
    arrays, _ = load_arrays(copy / "model.safetensors")
    ordered = {name: arrays[name] for name in sorted(arrays)}
    return {
        **{name: result[name] for name in ("epochs", "best_epoch", "engine", "test_accuracy", "test_loss")},
        "sha256": hashlib.sha256(b"".join(array.tobytes() for array in ordered.values())).hexdigest(),
        "weights": {name: {"shape": list(array.shape), "sums": sums(array)} for name, array in ordered.items()},
    }


def sums(array: np.ndarray) -> list[float]:
    """Of the magnitudes, of the values, and of the values by place: the last notices two that changed places."""
    flat = array.astype(np.float64).ravel()
    return [float(total) for total in (np.abs(flat).sum(), flat.sum(), flat @ np.cos(np.arange(flat.size)))]


def assert_close(found: list[float], expected: list[float]) -> None:
    """Sums, by the first of them: what is near zero by cancelling is only as exact as what cancels."""
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=max(ROUNDING, CLOSE * expected[0]))


@pytest.fixture(autouse=True, scope="module")
def texts_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolve, "load_texts", cache(resolve.load_texts))
        yield


@cache
def opened(name: str) -> tuple[Run, Dataset]:
    """The run and its data, with fewer test samples; skipped where another Python or Babel brings other texts."""
    run = glassformer.load(BEFORE / name)
    data = run.load_data()
    here = {"python": platform.python_version(), "babel": version("babel")}
    brings, (_, about) = OF_VERSION.get(run.recipe.data), load_arrays(BEFORE / name / "state.safetensors")
    if digest(data.train) != about["progress"]["data_digest"] and brings:
        then = json.loads(EXPECTED.read_text())["versions"][brings]
        if here[brings] != then:
            pytest.skip(f"{run.recipe.data} was that of {brings} {then}, here is {here[brings]}")
    return run, data._replace(test=cut(data.test, slice(TESTS)))


def expected_of(name: str) -> dict[str, Any]:
    return json.loads(EXPECTED.read_text())["runs"][name]


def test_every_folder_has_its_expectations() -> None:
    assert sorted(json.loads(EXPECTED.read_text())["runs"]) == NAMES
    assert len(NAMES) == 14


SOME = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("name", SOME)
def test_it_opens_and_scores_the_same(name: str) -> None:
    found, expected = measured(*opened(name)), expected_of(name)["kept"]
    assert found["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-6)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    np.testing.assert_allclose(found["logits"], expected["logits"], rtol=1e-5, atol=1e-5)
    assert_close(found["sums"], expected["sums"])


@pytest.mark.parametrize("name", SOME)
def test_it_resumes_to_the_same_end(name: str, tmp_path: Path) -> None:
    run, data = opened(name)
    if run.recipe.engine.name == "native":
        c_compiler()
    found, expected = resumed(BEFORE / name, tmp_path / name, data), expected_of(name)["resumed"]
    assert {key: found[key] for key in ("epochs", "best_epoch", "engine")} == {
        key: expected[key] for key in ("epochs", "best_epoch", "engine")
    }
    assert found["weights"].keys() == expected["weights"].keys()
    for weight, there in expected["weights"].items():
        assert found["weights"][weight]["shape"] == there["shape"]
        if not weight.endswith(UNUSED):
            assert_close(found["weights"][weight]["sums"], there["sums"])
    assert found["test_loss"] == pytest.approx(expected["test_loss"], rel=CLOSE)
    assert found["test_accuracy"] == pytest.approx(expected["test_accuracy"], abs=1.5 / TESTS)


def test_that_the_native_engine_rounds_otherwise_is_said_once(tmp_path: Path) -> None:
    c_compiler()
    _, data = opened("mlp")

    class Notices(Listener):
        def __init__(self) -> None:
            self.said: list[str] = []

        def notice(self, text: str) -> None:
            self.said.append(text)

    copy, first, second = tmp_path / "mlp", Notices(), Notices()
    shutil.copytree(BEFORE / "mlp", copy)
    resume(copy, first, data=data)
    assert first.said == ["the native engine rounds otherwise than when this run was begun; it goes on"]
    resume(copy, second, data=data)
    assert second.said == []
