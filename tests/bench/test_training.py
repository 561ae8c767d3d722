"""`glassformer bench train`: all sides compute the same losses, and the command says what it measured. No times."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.bench import measure, peers, text_peers, training
from glassformer.cli.bench import ratio_table, training_notes, training_table
from glassformer.cores import cores
from glassformer.errors import UnknownNameError
from glassformer.models import GPT, MLP
from glassformer.models.text import Text
from glassformer.train.presets import preset
from glassformer.train.recipe import Recipe

from .bench_command import (
    NO_COMPILER,
    answer_of,
    bench,
    compile_nothing,
    needs_c_compiler,
    needs_compiler,
    take_the_c_compiler_away,
)

STEPS = 5
SIDES = ["native-1", "native", "jax", "eager", "fused", "compiled"]
QUICKLY = ("attention-pool", "--rounds", "1", "--steps", "2")
NO_GLOBAL = "the native engine has no attention with global tokens yet (blocks.0.attn)"


def slowly(name: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow)


def small(name: str) -> Recipe:
    recipe = training.comparable(preset(name))
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, batch=3))


def small_gpt(**model: Any) -> Recipe:
    """gpt-nano, but of two narrow blocks."""
    recipe = small("gpt-nano")
    sizes = {"width": 12, "hidden": 20, "heads": 3, "depth": 2, **model}
    return dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, **sizes))  # pyright: ignore


def differences(recipe: Recipe, theirs: Recipe, *modes: str) -> list[float]:
    """The largest between the jax engine and each mode of PyTorch, over the losses of the same few steps."""
    samples, params = training.random_samples(recipe, STEPS), recipe.model.init(jax.random.key(1))
    contestants = [peers.training(theirs, samples, params, mode) for mode in modes]
    losses = training.jax_training(recipe, samples, params)()
    assert losses.shape == (STEPS,)
    return [np.abs(train() - losses).max() for train in contestants]


@pytest.mark.slow
@pytest.mark.parametrize("name", training.PRESETS)
def test_pytorch_computes_the_same_losses(name: str) -> None:
    pytest.importorskip("torch")
    assert max(differences(small(name), small(name), "eager", "fused")) < 1e-5


def test_pytorch_computes_the_same_losses_of_a_language_model() -> None:
    pytest.importorskip("torch")
    assert max(differences(small_gpt(), small_gpt(), "eager", "fused")) < 1e-5


@pytest.mark.parametrize("mode", ["eager", "fused"])
def test_a_language_model_that_looks_ahead_would_be_noticed(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    functional = pytest.importorskip("torch").nn.functional
    attend = peers.written_out if mode == "eager" else functional.scaled_dot_product_attention
    monkeypatch.setattr(text_peers, "looking_back", lambda tokens, mode: attend)
    assert min(differences(small_gpt(), small_gpt(), mode)) > 1e-4


def test_pytorch_is_given_the_windows_that_the_jax_engine_draws() -> None:
    """Each begins somewhere in its own part of the stream, and its labels are the tokens one further on."""
    pytest.importorskip("torch")
    recipe = small("gpt-nano")
    stream = training.random_samples(recipe, STEPS)
    ids, length = stream.ids, 64
    assert ids.shape == (STEPS * 3 * length + 1,)
    assert (ids.min(), ids.max()) == (0, 64)
    starts = []
    for labels, x in peers.ready(recipe, stream):
        for row, following in zip(x.numpy(), labels.numpy().reshape(3, length), strict=True):
            (start,) = (s for s in range(len(ids) - length) if np.array_equal(ids[s : s + length], row))
            assert np.array_equal(ids[start + 1 : start + 1 + length], following)
            starts.append(start)
    places = np.array(starts) - length * np.arange(STEPS * 3)
    assert ((places >= 0) & (places < length)).all()
    assert len(set(places)) > 5


@pytest.mark.parametrize("model", [MLP(), GPT(tied=False), GPT(dropout=0.1), GPT(text=Text(9, 4), depth=1, eps=1e-3)])
def test_a_model_that_pytorch_would_compute_otherwise_is_refused(model: Any) -> None:
    pytest.importorskip("torch")
    with pytest.raises(TypeError, match="has no PyTorch peer"):
        peers.forward_for(model, "eager")


@needs_c_compiler
@pytest.mark.parametrize("name", ["attention-pool", "vit-pico", *map(slowly, training.TEXTS_TRAINED)])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_native_engine_computes_the_same_losses(name: str, threads: int) -> None:
    recipe = small(name)
    samples, params = training.random_samples(recipe, STEPS), recipe.model.init(jax.random.key(1))
    native = training.native_training(recipe, samples, params, threads)
    losses = training.jax_training(recipe, samples, params)
    assert np.abs(native() - losses()).max() < 1e-5
    assert np.abs(native() - losses()).max() < 1e-4  # both go on where they were: not the same losses again


@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # importing PyTorch's compiler warns
@pytest.mark.parametrize("recipe", [small("vit-pico"), small_gpt()], ids=["vit-pico", "gpt"])
def test_compiled_pytorch_computes_the_same_losses(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert max(differences(recipe, recipe, "compiled")) < 1e-5


@pytest.mark.parametrize(
    ("recipe", "setting", "value"),
    [
        (small("attention-pool"), "lr", 0.0101),
        (small("vit-pico"), "b2", 0.97),
        (small_gpt(), "weight_decay", 0.2),
    ],
    ids=["attention-pool", "vit-pico", "gpt"],
)
def test_a_slightly_different_optimiser_would_be_noticed(recipe: Recipe, setting: str, value: float) -> None:
    pytest.importorskip("torch")
    other = dataclasses.replace(recipe, optimiser=dataclasses.replace(recipe.optimiser, **{setting: value}))
    assert min(differences(recipe, other, "eager")) > 1e-5


def check_row(row: dict[str, Any]) -> None:
    """One preset, everything measured."""
    assert (row["preset"], row["batch"], row["steps"]) == ("attention-pool", 32, 2)
    assert list(row["step_ms"]) == list(row["compile_s"]) == SIDES
    ms = row["step_ms"]
    best = row["best"]
    assert best == min(peers.MODES, key=ms.__getitem__)
    assert row["ratios"] == {
        "native_to_torch": ms[best] / ms["native"],
        "native_to_jax": ms["jax"] / ms["native"],
        "jax_to_torch": ms[best] / ms["jax"],
    }
    assert row["multiply_adds"] == 32 * 519_488
    for side in ("native-1", "native"):
        assert row["share"][side] == pytest.approx(row["multiply_adds"] * 1e3 / ms[side] / row["peak"][side])
    assert row["spread"] == 1.0  # one round
    assert row["without_native"] is None


@needs_c_compiler
@needs_compiler
def test_the_command_beside_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    compile_nothing(monkeypatch)
    answer = answer_of(bench("train", *QUICKLY, "--json"))
    (row,) = answer["presets"]
    assert answer["torch"] is not None
    assert (answer["cores"], answer["rounds"]) == (cores(), 1)
    check_row(row)


@needs_c_compiler
@needs_compiler
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_command_beside_pytorch_really_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (row,) = answer_of(bench("train", *QUICKLY, "--json"))["presets"]
    check_row(row)


@needs_c_compiler
def test_the_command_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it now fails
    output = bench("train", *QUICKLY)
    assert output.exit_code == 0, output.output
    head, row, _, ratios, ratio, _, *notes = output.stdout.splitlines()
    assert head.split() == ["ms", "per", "step", "batch", "native-1", "native", "jax"]
    assert row.split()[:2] == ["attention-pool", "32"]
    assert ratios.split() == ["times", "as", "fast", "native:jax", "of", "peak:", "native-1", "native"]
    assert ratio.split()[0] == "attention-pool"
    assert notes[0] == (
        f"median of 1 turns of 2 steps, taken one after the other on {cores()} cores; compiling is not counted"
    )
    assert notes[1].startswith("peak: ")
    assert [note for note in notes[3:] if "above 100 %" not in note] == [  # one turn: not unsteady, but busy perhaps
        "PyTorch is left out: it is not installed; `pip install glassformer[parity]`",
    ]
    answer = answer_of(bench("train", *QUICKLY, "--json"))
    (measured,) = answer["presets"]
    assert answer["torch"] is measured["best"] is None
    assert list(measured["step_ms"]) == SIDES[:3]
    assert measured["ratios"]["native_to_torch"] is measured["ratios"]["jax_to_torch"] is None
    assert measured["ratios"]["native_to_jax"] > 0


def test_the_command_without_a_c_compiler_and_without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_c_compiler_away(monkeypatch)
    output = bench("train", *QUICKLY, "--no-peers")
    assert output.exit_code == 0, output.output
    head, row, *_, native, pytorch = output.stdout.splitlines()
    assert head.split() == ["ms", "per", "step", "batch", "jax"]
    assert row.split()[:2] == ["attention-pool", "32"]
    assert native == f"native is left out: {NO_COMPILER}"
    assert pytorch == "PyTorch is left out, as --no-peers asks"
    (measured,) = answer_of(bench("train", *QUICKLY, "--no-peers", "--json"))["presets"]
    assert measured["without_native"] == NO_COMPILER
    assert list(measured["step_ms"]) == ["jax"]
    assert measured["peak"] == measured["share"] == {}
    assert set(measured["ratios"].values()) == {None}


@needs_c_compiler
@pytest.mark.slow
def test_a_preset_without_a_native_side_beside_one_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    compile_nothing(monkeypatch)
    with_global = small_gpt(depth=1, window=64, global_tokens=1)
    monkeypatch.setattr(training, "preset", lambda name: with_global if name == "gpt-nano" else preset(name))
    gpt, pool = answer_of(bench("train", "gpt-nano", *QUICKLY, "--json"))["presets"]
    modes = [side for side in SIDES[3:] if side in pool["step_ms"]]
    assert list(gpt["step_ms"]) == list(gpt["compile_s"]) == ["jax", *modes]
    assert (gpt["preset"], gpt["batch"], gpt["steps"], gpt["without_native"]) == ("gpt-nano", 3, 2, NO_GLOBAL)
    assert gpt["peak"] == gpt["share"] == {}
    assert gpt["ratios"]["native_to_torch"] is gpt["ratios"]["native_to_jax"] is None
    assert gpt["ratios"]["jax_to_torch"] == gpt["step_ms"][gpt["best"]] / gpt["step_ms"]["jax"]
    assert list(pool["step_ms"]) == ["native-1", "native", "jax", *modes]
    assert pool["without_native"] is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vit-nno", "bench train: 'vit-nno' is not compared (did you mean 'vit-nano'?); known: attention-pool, "),
        ("mlp", "bench train: 'mlp' is not compared; known: attention-pool, "),
    ],
)
def test_what_is_not_compared_is_refused_before_anything_is_measured(name: str, message: str) -> None:
    error = bench("train", "vit-tiny", name).exception
    assert isinstance(error, UnknownNameError)
    assert str(error).startswith(message)


@pytest.mark.parametrize("option", ["--rounds", "--steps"])
def test_nothing_to_measure_is_wrong_usage(option: str) -> None:
    output = bench("train", option, "0")
    assert output.exit_code == 2
    assert f"Invalid value for '{option}'" in output.stderr


def test_the_help_shows_an_example() -> None:
    assert "Example: glassformer bench train attention-pool" in bench("train", "--help").stdout


def test_a_call_holds_many_short_steps_and_few_long_ones() -> None:
    contests = [training.comparable(preset(name)) for name in training.PRESETS]
    steps = [training.steps_for(r.training.batch * training.peak.multiply_adds(r.model)) for r in contests]
    assert steps == [100, 24, 100, 11, 5, 4, 4, 4, 4]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_step_of_a_language_model_by_formula(depth: int) -> None:
    """Everything thrice: forward and both gradients, also of the first product, whose input was looked up."""
    T, C, F, V = 7, 24, 40, 11
    block, head = T * (4 * C * C + 2 * C * F) + 2 * T * T * C, T * C * V
    model = GPT(text=Text(vocabulary=V, context=T), width=C, hidden=F, heads=3, depth=depth)
    assert training.peak.multiply_adds(model) == 3 * (depth * block + head)


def test_gpt_nano_is_compared_as_nanogpt_is_timed() -> None:
    recipe = training.comparable(preset("gpt-nano"))
    model: Any = recipe.model
    assert (model.depth, model.width, model.heads, model.text) == (4, 128, 4, Text(vocabulary=65, context=64))
    assert (recipe.training.batch, recipe.training.samples) == (12, 0)  # as many samples as the steps need
    assert (recipe.optimiser.name, recipe.optimiser.clip, recipe.optimiser.schedule.kind) == ("adamw", 0.0, "constant")


def result(spread: float = 1.1, without_native: str | None = None, **step_ms: float) -> training.Result:
    own = {} if without_native else {"native-1": 4.0, "native": 2.0}
    return training.Result(
        preset="vit-pico",
        batch=32,
        steps=100,
        step_ms={**own, "jax": 3.0, **step_ms},
        compile_s={},
        multiply_adds=10**7,
        peak={"native-1": 5e9, "native": 8e9} if own else {},
        spread=spread,
        without_native=without_native,
    )


def test_the_ratio_is_that_of_the_best_mode() -> None:
    measured = result(eager=4.5, fused=3.6, compiled=5.0)
    assert measured.best == "fused"
    assert measured.ratios == pytest.approx({"native_to_torch": 1.8, "native_to_jax": 1.5, "jax_to_torch": 1.2})
    assert measured.plain()["ratios"] == measured.ratios


def test_the_share_of_the_peak() -> None:
    """10 million in 4 ms are 2.5 thousand million a second."""
    assert result().share == pytest.approx({"native-1": 0.5, "native": 0.625})


def test_more_than_the_peak_is_explained() -> None:
    more = dataclasses.replace(result(), multiply_adds=3 * 10**7)
    assert more.share == pytest.approx({"native-1": 1.5, "native": 1.875})
    assert training_notes([result(), more])[2].startswith("above 100 %: native leaves out products by exact rewrites")
    assert not any("above 100 %" in note for note in training_notes([result()]))


def test_the_tables() -> None:
    measured = [result(eager=4.5, fused=3.6, compiled=5.0)]
    assert training_table(measured) == [
        "ms per step         batch  native-1    native       jax     eager     fused  compiled",
        "vit-pico               32     4.000     2.000     3.000     4.500     3.600     5.000",
    ]
    assert ratio_table(measured) == [
        "times as fast       native:PyTorch  native:jax  jax:PyTorch  PyTorch's best  of peak: native-1  native",
        "vit-pico                      1.80        1.50         1.20           fused               50 %    62 %",
    ]
    text = dataclasses.replace(result(without_native="no", fused=3.6), preset="gpt-nano")
    assert training_table([text, *measured])[1:] == [
        "gpt-nano               32         -         -     3.000         -     3.600         -",
        "vit-pico               32     4.000     2.000     3.000     4.500     3.600     5.000",
    ]
    assert ratio_table([text, *measured]) == [
        "times as fast       native:PyTorch  native:jax  jax:PyTorch  PyTorch's best  of peak: native-1  native",
        "gpt-nano                         -           -         1.20           fused                  -       -",
        "vit-pico                      1.80        1.50         1.20           fused               50 %    62 %",
    ]
    assert ratio_table([result(without_native="no")]) == []
    assert ratio_table([result(without_native="no", eager=6.0)])[1].split() == ["vit-pico", "2.00", "eager"]


def test_what_native_was_left_out_of_is_named() -> None:
    text = dataclasses.replace(result(without_native="no images"), preset="gpt-nano")
    notes = training_notes([text, result()], peers=False)
    assert notes[0].startswith("peak: 10 and 16 billion ")
    assert notes[-2:] == ["native is left out of gpt-nano: no images", "PyTorch is left out, as --no-peers asks"]
    assert training_notes([text, text], peers=False)[0] == "native is left out: no images"


def test_without_a_compiler_the_compiled_mode_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "torch_version", lambda: "2")
    monkeypatch.setattr(training.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert training.modes() == ("eager", "fused", "compiled")
    assert not any("compiler" in note for note in training_notes([result(eager=4.0, fused=3.0, compiled=1.0)]))
    monkeypatch.setattr(training.shutil, "which", lambda name: None)
    assert training.modes() == ("eager", "fused")
    assert training_notes([result(eager=4.0, fused=3.0)])[-1] == (
        "PyTorch compiled is left out: no C++ compiler (CXX, g++, clang++) is installed"
    )


def test_a_busy_machine_is_mentioned() -> None:
    assert training_notes([result(eager=4.0), result(eager=4.0, spread=8.25)])[-1] == (
        "unsteady: the slowest turn of one side took 8.2 times its fastest; is the machine busy?"
    )


def test_contestants_take_turns_and_the_first_turn_is_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now, seen = 0.0, []
    lasting = {"a": iter([9.0, 1.0, 3.0, 2.0]), "b": iter([5.0, 5.0, 5.0, 5.0])}

    def contestant(name: str) -> Any:
        def run() -> None:
            nonlocal now
            now += next(lasting[name])
            seen.append(name)

        return run

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now)
    turns = measure.Turns({name: contestant(name) for name in lasting})
    assert list(turns.run(3)) == [0, 1, 2, 3]
    assert seen == ["a", "b"] * 4
    assert turns.medians() == {"a": 2.0, "b": 5.0}
    assert turns.compiling() == {"a": 7.0, "b": 0.0}
    assert turns.spread() == 3.0
    assert turns.fastest() == {"a": 1.0, "b": 5.0}


def test_a_turn_is_as_many_calls_as_last_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    now, calls = 0.0, 0

    def call() -> None:
        nonlocal now, calls
        now, calls = now + 2.0, calls + 1

    monkeypatch.setattr(measure.time, "perf_counter", lambda: now)
    turns = measure.Turns({"a": call}, least=11.0)
    assert list(turns.run(2)) == [0, 1, 2]
    assert turns.calls == {"a": 8}
    assert calls == 1 + (1 + 2 + 4 + 8) + 2 * 8  # to compile, to find out, two turns
    assert turns.medians() == {"a": 2.0}
