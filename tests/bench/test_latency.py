"""`glassformer bench latency`: all sides give the model's own logits, and the command says what it measured."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from glassformer.bench import latency, peers
from glassformer.bench.training import random_samples
from glassformer.cli.bench import latency_notes, latency_table
from glassformer.errors import UnknownNameError
from glassformer.train.presets import preset

from ..programs import forward
from .bench_command import (
    NO_COMPILER,
    answer_of,
    bench,
    compile_nothing,
    needs_c_compiler,
    needs_compiler,
    take_the_c_compiler_away,
)

QUICKLY = ("vit-pico", "--rounds", "1", "--seconds", "0")
MODES = ["eager", "eager from patches", "fused", "fused from patches", "compiled", "compiled from patches"]


def model_and_image(name: str) -> tuple:
    recipe = preset(name)
    params = jax.tree.map(np.array, recipe.model.init(jax.random.key(3)))
    images = random_samples(recipe, 1).images[:2]
    return recipe, params, images, np.asarray(forward(recipe.model, params, images))


@needs_c_compiler
@pytest.mark.parametrize("name", ["vit-pico", pytest.param("vit-micro", marks=pytest.mark.slow)])
def test_native_gives_the_logits_of_the_model(name: str) -> None:
    recipe, params, images, logits = model_and_image(name)
    answer = latency.native_answering(recipe, params)
    first, second = answer(images[0]), answer(images[1])  # the second must not change the first
    assert np.abs(np.stack([first, second]) - logits).max() < 1e-5


def test_onnxruntime_gives_the_logits_of_the_model() -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    recipe, params, images, logits = model_and_image("vit-pico")
    answer = latency.onnxruntime_answering(recipe, params)
    assert np.abs(np.stack([answer(image) for image in images]) - logits).max() < 1e-5


@pytest.mark.parametrize("mode", ["eager", "fused"])
def test_pytorch_gives_the_logits_of_the_model(mode: str) -> None:
    torch = pytest.importorskip("torch")
    recipe, params, images, logits = model_and_image("vit-micro")
    with torch.inference_mode():
        from_bytes, from_patches = latency.torch_contestants(recipe, params, mode, images[1]).values()
        assert torch.get_num_threads() == 1
        assert from_bytes().shape == logits[1].shape
        assert np.abs(from_bytes() - logits[1]).max() < 1e-5
        assert np.abs(from_patches().numpy() - logits[1]).max() < 1e-5


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # importing PyTorch's compiler warns
def test_compiled_pytorch_gives_the_logits_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    recipe, params, images, logits = model_and_image("vit-pico")
    with torch.inference_mode():
        from_bytes, from_patches = latency.torch_contestants(recipe, params, "compiled", images[1]).values()
        assert np.abs(from_bytes() - logits[1]).max() < 1e-5
        assert np.abs(from_patches().numpy() - logits[1]).max() < 1e-5


@needs_c_compiler
@needs_compiler
def test_the_command_beside_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    onnxruntime = pytest.importorskip("onnxruntime")
    compile_nothing(monkeypatch)
    answer = answer_of(bench("latency", *QUICKLY, "--json"))
    assert answer["torch"] is not None
    assert answer["onnxruntime"] == onnxruntime.__version__
    assert (answer["rounds"], answer["seconds"]) == (1, 0.0)
    (row,) = answer["presets"]
    us = row["call_us"]
    assert list(us) == list(row["compile_s"]) == ["native", "onnxruntime", *MODES]
    assert row["best"] == min(peers.MODES, key=us.__getitem__)
    assert row["best_from_patches"] == min(MODES[1::2], key=us.__getitem__)
    assert row["ratios"] == {
        "native_to_torch": us[row["best"]] / us["native"],
        "native_to_torch_from_patches": us[row["best_from_patches"]] / us["native"],
        "native_to_onnxruntime": us["onnxruntime"] / us["native"],
    }
    assert row["without_native"] is None


@needs_c_compiler
def test_the_command_without_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in "torch", "onnxruntime":
        monkeypatch.setitem(sys.modules, package, None)  # importing it now fails
    output = bench("latency", *QUICKLY)
    assert output.exit_code == 0, output.output
    head, row, _, how, onnx, pytorch = output.stdout.splitlines()
    assert head.split() == ["µs", "per", "image", "native"]
    assert row.split()[0] == "vit-pico"
    assert how == "median of 1 turns of at least 0 s, taken one after the other; one thread each"
    assert onnx == "onnxruntime is left out: it is not installed; `pip install glassformer[parity]`"
    assert pytorch == "PyTorch is left out: it is not installed; `pip install glassformer[parity]`"


def test_the_command_with_nothing_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_c_compiler_away(monkeypatch)
    (row,) = answer_of(bench("latency", *QUICKLY, "--no-peers", "--json"))["presets"]
    assert row["call_us"] == {}
    assert row["without_native"] == NO_COMPILER
    *_, onnx, native, pytorch = bench("latency", *QUICKLY, "--no-peers").stdout.splitlines()
    assert onnx == "onnxruntime is left out, as --no-peers asks"
    assert native == f"native is left out: {NO_COMPILER}"
    assert pytorch == "PyTorch is left out, as --no-peers asks"


def test_the_table() -> None:
    us = {"native": 10.0, "eager": 250.0, "eager from patches": 180.0, "fused": 220.0, "fused from patches": 170.0}
    measured = [latency.Result("vit-pico", us, {}, spread=1.1)]
    assert latency_table(measured) == [
        "µs per image      native     eager     fused  from patches   ratio  to patches",
        "vit-pico            10.0     250.0     220.0         170.0   22.00       17.00",
    ]
    assert latency_notes(measured, peers=True)[0] == (
        "ratio: PyTorch's best mode from bytes over native; to patches: its best from patches cut beforehand"
    )
    measured = [latency.Result("vit-pico", {"native": 10.0, "onnxruntime": 44.0}, {}, spread=1.1)]
    assert latency_table(measured) == [
        "µs per image      native  onnxruntime  to onnx",
        "vit-pico            10.0         44.0     4.40",
    ]
    assert latency_notes(measured, peers=True)[0].startswith("to onnx: onnxruntime, from bytes, with the file of")
    assert latency_table([latency.Result("vit-pico", {"eager": 250.0}, {}, spread=1.1)])[1].split() == [
        "vit-pico",
        "250.0",
    ]


def test_what_is_not_compared_is_refused() -> None:
    error = bench("latency", "attention-pool").exception
    assert isinstance(error, UnknownNameError)
    assert str(error) == (
        "bench latency: 'attention-pool' is not compared; known: vit-pico, vit-nano, vit-micro, vit-tiny"
    )


def test_the_help_shows_an_example() -> None:
    assert "Example: glassformer bench latency vit-pico" in bench("latency", "--help").stdout
