"""Quantised models: the exported C gives what the twin gives, on every target; the answers are those of float."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.data.builders import MNIST, needs_mnist
from tests.edge.boards import ALL, needs
from tests.edge.devices import MODELS, STRICT, params_of, predicting, samples_of, written

from glassformer.data import load as load_data
from glassformer.edge.comparison import compare
from glassformer.edge.emulator import run
from glassformer.edge.objects import compiled, sizes
from glassformer.edge.quantise import QuantisedModel, quantise
from glassformer.edge.steps import Weight
from glassformer.edge.targets import Target, find
from glassformer.edge.write import Source
from glassformer.errors import DataError, EngineError, SettingError
from glassformer.models import TinyIris
from glassformer.predict import load

FLAGS = ("-O2", "-ffp-contract=off", *STRICT)
QUICK = ("vit, class token", "iris")
SLOWLY = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MODELS]


@cache
def quantised_of(name: str) -> QuantisedModel:
    model = MODELS[name]
    return quantise(model, params_of(model), samples_of(model, 300))


def on_target(target: Target, quantised: QuantisedModel, samples: np.ndarray, folder: Path) -> np.ndarray:
    source = Source("model", "a model", quantised.layout(), quantised.weights)
    outcome = run(target, [written(source, folder)], predicting(source, samples), FLAGS, timeout=60)
    assert outcome.status == 0
    return outcome.values("logits", np.float32).reshape(len(samples), -1)


@pytest.fixture(scope="module")
def pico() -> QuantisedModel:
    trained = load()
    return quantise(trained.model, trained.params, load_data("mnist-mini").train.images[:500])


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("name", SLOWLY)
def test_device_and_twin_agree_to_the_bit(name: str, target: Target, tmp_path: Path) -> None:
    quantised, samples = quantised_of(name), samples_of(MODELS[name], 300)
    found = quantised.logits(samples[:4])
    assert np.array_equal(on_target(target, quantised, samples[:4], tmp_path), found)
    assert min(quantised.noise(samples[:50]).values()) > 20  # dB


@pytest.mark.parametrize("target", ALL)
def test_trained_vit_answers_as_float_does(pico: QuantisedModel, target: Target, tmp_path: Path) -> None:
    images, labels = load_data("mnist-mini").test
    found = pico.logits(images)
    assert pico.stays_float == ()
    compared = compare(load().logits(images), found, labels)
    assert compared.changed <= 0.005 * compared.samples
    assert abs(compared.difference) <= 0.001
    assert compared.interval[0] < 0 < compared.interval[1]
    assert np.array_equal(on_target(target, pico, images[:3], tmp_path), found[:3])
    assert pico.layout().arena < 4096


@needs("m4")
@pytest.mark.parametrize(
    ("plain", "most"), [((), 650_000), (("-U__ARM_FEATURE_DSP",), 850_000)], ids=["SMLAD", "plain"]
)
def test_vit_pico_fits_a_small_device(pico: QuantisedModel, plain: Sequence[str], most: int, tmp_path: Path) -> None:
    images = load_data("mnist-mini").test.images[:2]
    source = Source("model", "a model", pico.layout(), pico.weights)
    file, flags = written(source, tmp_path), (*FLAGS, *plain)
    outcome = run(find("m4"), [file], predicting(source, images), flags)
    assert np.array_equal(outcome.values("logits", np.float32).reshape(2, -1), pico.logits(images))
    measured = outcome.measured("predict")
    assert measured.instructions < most
    assert source.arena + measured.stack < 4.5 * 1024
    assert sizes(find("m4"), compiled(find("m4"), [file], flags)).flash < 9.5 * 1024


@needs_mnist
@pytest.mark.slow
def test_ten_thousand_answers(pico: QuantisedModel) -> None:
    images, labels = load_data(str(MNIST)).test
    compared = compare(load().logits(images), pico.logits(images), labels)
    assert compared.samples == 10_000
    assert compared.changed <= 50
    assert compared.difference > -0.001


def test_noise_is_told_by_name(pico: QuantisedModel) -> None:
    noise = pico.noise(load_data("mnist-mini").test.images[:50])
    first, *_, last = noise
    assert (first, last) == ("patches.y", "head.y")
    assert {"blocks.0.attn.k", "blocks.0.attn.z", "blocks.0.ff.hidden_pre", "blocks.0.resid_mid"} < set(noise)
    assert min(noise.values()) > 25  # dB
    assert noise["patches.y"] > 100  # bytes stay what they are


def test_int8_sees_broken_weights(pico: QuantisedModel) -> None:
    images = load_data("mnist-mini").test.images[:50]
    weights = dict(pico.weights, **{"blocks.0.attn.w_q": -pico.weights["blocks.0.attn.w_q"]})
    broken = QuantisedModel(pico.model, pico.params, pico.program, weights, pico.scales, ())
    assert broken.noise(images)["blocks.0.attn.q"] < 0 < 30 < pico.noise(images)["blocks.0.attn.q"]


@pytest.mark.parametrize(
    "patterns", [["blocks.0.attn"], ["blocks.*", "patch*"], ["class_token"], ["norm", "head"], ["*"]]
)
def test_named_layers_stay_float(patterns: list[str], tmp_path: Path) -> None:
    model = MODELS["vit, class token"]
    params, samples = params_of(model), samples_of(model, 50)
    quantised = quantise(model, params, samples, patterns)
    found, exact = quantised.logits(samples[:3]), np.asarray(model.forward(params, samples[:3])[0])
    assert "blocks.0.attn" in quantised.stays_float or "blocks.0.attn" not in patterns
    assert np.allclose(found, exact, atol=(1e-5 if patterns == ["*"] else 0.05) * np.abs(exact).max())
    assert np.allclose(on_target(find("host"), quantised, samples[:3], tmp_path), found, atol=1e-3)


def test_calibration_is_checked() -> None:
    model = MODELS["iris"]
    params, samples = params_of(model), samples_of(model, 5)
    with pytest.raises(DataError, match=r"shape \(3,\) came, the model reads \(4,\)"):
        quantise(model, params, samples[:, :3])
    with pytest.raises(DataError, match="no calibration samples"):
        quantise(model, params, samples[:0])
    with pytest.raises(DataError, match="NaN or infinity"):
        quantise(model, params, np.where(samples > 0, np.nan, samples))
    with pytest.raises(DataError, match="float64 came, the model reads bytes"):
        quantise(MODELS["mlp"], params_of(MODELS["mlp"]), np.zeros((2, 8, 12, 1)))
    with pytest.raises(EngineError, match=r"attn.w_q has NaN"):
        quantise(model, params._replace(attn=params.attn._replace(w_q=params.attn.w_q * np.nan)), samples)
    with pytest.raises(SettingError, match=r"no layer fits 'attm'; there are attn, head"):
        quantise(model, params, samples, ["attm"])


def test_columns_without_mean_and_std_are_read_as_they_are(tmp_path: Path) -> None:
    model = TinyIris()
    samples = samples_of(model, 50)
    quantised = quantise(model, params_of(model), samples)
    assert quantised.stays_float == ()
    assert np.array_equal(on_target(find("host"), quantised, samples[:4], tmp_path), quantised.logits(samples[:4]))


def test_somebodys_own_kernel_stays_float() -> None:
    assert quantised_of("somebody's kernel").stays_float == ("scale", "again")


def test_comparison_counts_and_has_an_interval() -> None:
    before, labels = np.eye(4)[[0, 1, 2, 3] * 25], np.array([0, 1, 2, 0] * 25)
    after = before.copy()
    after[0] = [0, 1, 0, 0]  # was right
    after[3] = [1, 0, 0, 0]  # was wrong
    after[7] = [0, 1, 0, 0]  # wrong before and after
    found = compare(before, after, labels)
    assert (found.samples, found.changed, found.float_accuracy, found.difference) == (100, 3, 0.75, 0.0)
    assert found.interval[0] == pytest.approx(-found.interval[1])
    assert found.interval[1] == pytest.approx(1.96 * np.sqrt(3) / 102)
    with pytest.raises(DataError, match="expected"):
        compare(before, after[:5], labels)


def test_all_weights_in_flash_are_read(pico: QuantisedModel) -> None:
    used = {one.name for step in pico.program.steps for one in step.reads if isinstance(one, Weight)}
    assert used == set(pico.weights)
