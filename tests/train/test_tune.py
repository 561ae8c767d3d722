"""Tuning a part of a model: what learns, what stays to the bit, what is saved of it, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import glassformer
from glassformer.cli.training_report import as_text
from glassformer.errors import SettingError
from glassformer.layers.contract import is_bias
from glassformer.models import GPT, MLP, T5, BERTFor, ClassHead, MaskedHead, RecurrentLM, Text
from glassformer.names import named_leaves
from glassformer.predict.run import load
from glassformer.train import fit
from glassformer.train.engines import choose
from glassformer.train.loop import Listener
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import resolved
from glassformer.train.run_folder import ADAPTER, STATE, RunFolder
from glassformer.train.settings import from_plain, to_plain, with_changes
from glassformer.train.tune import Bias, Full, Head, LowRank, Tune
from glassformer.train.warm_start import recipe_from, warm_start
from glassformer.train.weights import load_arrays

from .small import small_data, small_recipe, whole_and_cut
from .small_texts import ready, small_text_recipe
from .text_runs import untrained

RANK2 = LowRank(rank=2, alpha=3.0)


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vit")
    fit.train(small_recipe("adamw", epochs=1), small_data(), path, Listener())
    return path


def tuned(start: Path, tune: Tune, **settings: Any) -> Recipe:
    recipe = with_changes(recipe_from(start), [f"{name}={value}" for name, value in settings.items()])
    return resolved(replace(recipe, tune=tune), small_data())


def same(one: Any, other: Any) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("tune", [Head(), Bias(), RANK2], ids=lambda tune: type(tune).__name__)
def test_what_learns_changes_and_the_rest_stays_to_the_bit(tune: Tune, vit: Path, tmp_path: Path) -> None:
    recipe = tuned(vit, tune)
    result = fit.train(recipe, small_data(), tmp_path, Listener())
    before, after = named_leaves(load(vit).params), named_leaves(load(tmp_path).params)
    changed = {name for name in after if not same(before[name], after[name])}
    head = {"head.w", "head.b"}
    beside = {
        "Head": set(),
        "Bias": {name for name in before if is_bias(name)},
        "LowRank": {"blocks.0.attn.w_q", "blocks.0.attn.w_v"},
    }[type(tune).__name__]
    assert changed == head | beside
    # the optimiser remembers two numbers of each that learns, and two counts
    thin = 2 * 2 * (6 + 6) if tune is RANK2 else sum(before[name].size for name in beside - head)
    assert result["learning"] == thin + sum(before[name].size for name in head)
    assert result["optimiser_bytes"] == 2 * 4 * result["learning"] + 8
    whole = sum(leaf.size for leaf in before.values()) + (thin if tune is RANK2 else 0)
    assert result["parameters"] == whole
    share = 100 * result["learning"] / whole
    assert f"learns {result['learning']:,} of {whole:,} parameters ({share:.1f} %)" in as_text(result)


def test_an_adapter_lies_alone_and_merged(vit: Path, tmp_path: Path) -> None:
    recipe = tuned(vit, RANK2, **{"validation.share": 0.0})
    fit.train(recipe, small_data(), tmp_path, Listener())
    adapter, about = load_arrays(tmp_path / ADAPTER)
    names = {f"{part}.blocks.0.attn.{name}" for part in "ab" for name in ("w_q", "w_v")}
    assert set(adapter) == names | {"base.head.w", "base.head.b"}
    assert from_plain(Tune, about["tune"]) == recipe.tune
    base, merged = load(vit).params.blocks[0].attn, load(tmp_path).params.blocks[0].attn
    a, b = adapter["a.blocks.0.attn.w_q"], adapter["b.blocks.0.attn.w_q"]
    assert a.shape == (6, 2)
    assert b.any()
    np.testing.assert_allclose(merged.w_q, base.w_q + 1.5 * a @ b, rtol=1e-6)
    state, _ = load_arrays(tmp_path / STATE)  # nothing was held out: the last weights are the kept ones
    assert same(state["state.params.a.blocks.0.attn.w_q"], a)
    assert same(state["state.params.base.blocks.0.attn.w_q"], base.w_q)


def test_it_begins_at_the_answers_of_the_run(vit: Path) -> None:
    recipe = tuned(vit, RANK2)
    params = warm_start(recipe, recipe.network.init(jax.random.key(3)))
    assert jax.tree.all(jax.tree.map(same, recipe.merged(params), load(vit).params))
    assert all(leaf.any() for leaf in jax.tree.leaves(params.a))


@pytest.mark.parametrize("seeds", [(), pytest.param((1, 2), marks=pytest.mark.slow)])
def test_cut_in_the_middle_it_resumes_to_the_bit(
    seeds: tuple[int, ...], vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "load_for", lambda recipe, name, tokeniser: small_data())
    recipe = tuned(vit, RANK2, **{"training.ema": 0.9, "training.epochs": 2})

    for whole, cut in whole_and_cut(recipe, seeds, tmp_path):
        assert (whole / ADAPTER).read_bytes() == (cut / ADAPTER).read_bytes()
    assert RunFolder(tmp_path / "cut").recipe_and_seeds()[0].tune == recipe.tune


@pytest.mark.parametrize(
    ("old", "new", "tune"),
    [
        ("gpt", "gpt", "lora"),
        ("t5", "t5", "lora"),
        ("masked", "classify", "lora"),
        pytest.param("masked", "tag", "bias", marks=pytest.mark.slow),
        pytest.param("classify", "span", "head", marks=pytest.mark.slow),
        pytest.param("masked", "tag", "lora", marks=pytest.mark.slow),
        pytest.param("masked", "span", "lora", marks=pytest.mark.slow),
    ],
)
def test_texts(old: str, new: str, tune: str, tmp_path: Path) -> None:
    start = untrained(tmp_path / "start", old)
    target, data = ready(replace(small_text_recipe(new, epochs=1), start=str(start.path), tune=from_plain(Tune, tune)))
    result = fit.train(target, data, tmp_path / "run", Listener())
    run = load(tmp_path / "run")
    had, have = named_leaves(start.params), named_leaves(run.params)
    changed = {name for name, leaf in have.items() if name not in had or not same(had[name], leaf)}
    new_head = {name for name in have if name.startswith("head.")}
    expected = {
        "lora": {name for name in have if name.endswith((".w_q", ".w_v"))},
        "bias": {name for name in have if is_bias(name)},
        "head": set(),
    }[tune]
    assert changed == expected | new_head
    assert 0 < result["learning"] < result["parameters"] / 2
    assert run.score(data).loss == pytest.approx(result["test_loss"], rel=1e-5)


def test_whether_a_head_learns() -> None:
    """That of a task does; that of a language model, which gives symbols, only where it is new."""
    text = Text(vocabulary=11, context=9)
    bert: Any = small_text_recipe("masked").model
    bert = replace(bert, text=text)
    untied = GPT(text, width=6, hidden=7, heads=3, depth=1, tied=False)
    assert LowRank().with_head(untied, own=False).also == ()
    assert LowRank().with_head(untied, own=True).also == ("head.*",)
    assert Bias().with_head(BERTFor(bert, ClassHead(16, 3)), own=True).also == ("head.*",)
    assert LowRank(also=("norm.*",)).with_head(untied, own=True).also == ("norm.*",)
    masked = BERTFor(bert, MaskedHead(16, 11))
    assert Bias().with_head(masked, own=False).also == ()
    mlp = MLP(hidden=(7, 6))
    assert Head().learns(mlp) == ["layers.2.w", "layers.2.b"]


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        (
            LowRank(targets=("*.atn.w_q",)),
            r"the target '\*\.atn\.w_q' matches no matrix \(did you mean '\*\.attn\.w_q'",
        ),
        (LowRank(targets=("norm.gain",)), r"'norm.gain' matches no matrix \(norm.gain has the shape \(6,\)\)"),
        (LowRank(targets=()), "no target is named, expected patterns of matrices such as"),
        (LowRank(also=("haed.*",)), r"tune: no parameter is called 'haed\.\*' \(did you mean 'head\.\*'\?\)"),
        (Bias(also=("blocks.7.*",)), r"tune: no parameter is called 'blocks\.7\.\*'"),
    ],
)
def test_what_matches_nothing_is_refused(tune: Tune, message: str, vit: Path) -> None:
    with pytest.raises(SettingError, match=message):
        tuned(vit, tune)


def test_a_model_without_such_matrices(vit: Path) -> None:
    model = RecurrentLM(Text(vocabulary=11, context=9), width=6, hidden=6, depth=1)
    with pytest.raises(SettingError, match=r"the target '\*\.w_q' matches no matrix.*reader"):
        LowRank().learns(model)


def test_everything_frozen(vit: Path) -> None:
    with pytest.raises(SettingError, match=r"every parameter is frozen \(by 'head\.\*', 'patch.w', .*…\)"):
        tuned(vit, Head(), **{"optimiser.freeze": '["head.*"]'})
    for model in GPT(Text(), 6, 7, 3, 1), T5(Text(), 6, 7, 3, 4, 1):
        with pytest.raises(SettingError, match=f"{type(model).__name__} has no weights in head that could be tuned"):
            Head().learns(model)


@pytest.mark.parametrize(("rank", "alpha"), [(0, 1.0), (-1, 1.0), (1, 0.0), (1, float("nan")), (1, float("inf"))])
def test_a_rank_or_alpha_that_is_none(rank: int, alpha: float) -> None:
    with pytest.raises(
        SettingError, match=r"lora: (rank is .*, expected 1 or more|alpha is .*, expected a number abo)"
    ):
        LowRank(rank, alpha)


def test_without_a_run_to_start_from() -> None:
    with pytest.raises(SettingError, match=r"tune: lora came, and no run to start from.*--from RUN"):
        resolved(replace(small_recipe("adamw"), tune=LowRank()), small_data())
    assert resolved(replace(small_recipe("adamw"), tune=Full()), small_data()).tune == Full()


def test_settings_from_outside() -> None:
    changed = with_changes(Recipe(), ["tune=lora", "tune.rank=8", 'tune.targets=["*.w_o"]'])
    assert changed.tune == LowRank(rank=8, targets=("*.w_o",))
    assert with_changes(Recipe(), ['tune={kind="lora", alpha=1.0}']).tune == LowRank(alpha=1.0)
    assert from_plain(Recipe, to_plain(changed)) == changed
    with pytest.raises(SettingError, match=r"tune.kind: 'lorra' came \(did you mean 'lora'\?\)"):
        with_changes(Recipe(), ["tune=lorra"])


@pytest.mark.parametrize("tune", [Head(), RANK2], ids=lambda tune: type(tune).__name__)
def test_the_native_engine_has_it(tune: Tune, tmp_path: Path) -> None:
    recipe = replace(small_recipe("vit"), tune=tune)
    assert choose(recipe, small_data().train, pytest.fail).name == "native"
    folder = RunFolder(tmp_path)  # a run of the native engine brings its name along, and need not be tuned by it
    folder.save_recipe(replace(recipe, engine=replace(recipe.engine, name="native"), tune=Full()))
    assert recipe_from(tmp_path).engine.name == "auto"


def test_from_python(vit: Path, tmp_path: Path) -> None:
    run = glassformer.fit(data=small_data(), start=vit, tune="lora", tune__rank=1, training__epochs=1, out=tmp_path)
    assert run.recipe.tune == LowRank(rank=1, also=("head.*",))
    assert recipe_from(tmp_path).tune == Full()  # who goes on from it tunes all, of the merged weights
