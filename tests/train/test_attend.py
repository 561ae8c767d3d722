"""Ways to attend, by recipe: the same losses where the numbers are the same, and a clear word where they cannot be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import EngineError, SettingError
from glassformer.layers import Attention, BlockwiseAttention, LinearAttention
from glassformer.models import GPT, ViT
from glassformer.predict.run import load
from glassformer.train import fit
from glassformer.train.engines import choose
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.loop import Listener, Loop
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import resolved
from glassformer.train.rng import Threefry
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import from_plain, to_plain, with_changes

from .small import small_data, small_recipe
from .small_texts import ready, small_text_recipe

KINDS = ("vit", "masked", "gpt")
WINDOW = ["model.window=2", "model.global_tokens=1"]  # of the four tokens of an image, the second misses the fourth


def losses_of(kind: str, *changes: str, steps: int = 10) -> np.ndarray:
    """Of the first steps, through the trainer, dropout and all."""
    written = small_recipe("adamw", batch=8) if kind == "vit" else small_text_recipe(kind, batch=2)
    recipe = with_changes(written, list(changes))
    recipe, data = (resolved(recipe, small_data()), small_data()) if kind == "vit" else ready(recipe)
    engine = JaxEngine(recipe, data.train, (1,))
    order = np.random.default_rng(1).permutation(engine.total)
    state = engine.start(Threefry(1).init(recipe.model))
    return engine.run(state, engine.batches([order], 1), 0, steps)[1][:steps]


FIRST, *OTHERS = KINDS
SOME = [FIRST, *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)]


@pytest.mark.parametrize("kind", SOME)
def test_blockwise_trains_to_the_losses_of_plain(kind: str) -> None:
    plain = losses_of(kind)
    assert len(plain) == 10
    blocks = 'model.attend={kind = "blockwise", block = 4}'
    for changes in ([blocks], ["model.attend=blockwise", "model.checkpoint=true"]):
        np.testing.assert_allclose(losses_of(kind, *changes), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", SOME)
def test_a_window_is_the_same_however_it_is_computed(kind: str) -> None:
    plain = losses_of(kind, *WINDOW)
    assert not np.allclose(plain, losses_of(kind), atol=1e-5, rtol=0)
    for way in ("banded", "blockwise"):
        np.testing.assert_allclose(losses_of(kind, f"model.attend={way}", *WINDOW), plain, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["vit", "gpt"])
def test_linear_attention_is_another_formula_and_learns(kind: str) -> None:
    losses = losses_of(kind, "model.attend=linear", "model.dropout=0.0", steps=12)
    assert losses[-3:].mean() < losses[:3].mean() - 0.1
    assert not np.allclose(losses, losses_of(kind, "model.dropout=0.0", steps=12), atol=1e-3)


def test_attention_weights_are_dropped_in_training_only() -> None:
    """And what else is drawn stays what it is without."""
    plain, dropping = losses_of("gpt"), losses_of("gpt", "model.attend.dropout=0.3")
    assert not np.allclose(plain, dropping, atol=1e-4)
    np.testing.assert_array_equal(losses_of("gpt", "model.attend.dropout=0.0"), plain)


def test_a_run_keeps_how_it_attends(tmp_path: Path) -> None:
    changes = ["model.attend=banded", *WINDOW, "model.checkpoint=true"]
    recipe = with_changes(small_recipe("vit", epochs=1), changes)
    recipe = replace(recipe, engine=replace(recipe.engine, name="jax", threads=0))
    fit.train(recipe, small_data(), tmp_path / "run", Listener())
    model: Any = load(tmp_path / "run").recipe.model
    assert model.attend.called == "banded attention"
    assert (model.window, model.global_tokens, model.checkpoint) == (2, 1, True)


def test_what_stands_in_for_fused_attention_is_said_once(tmp_path: Path) -> None:
    class Hear(Listener):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def notice(self, text: str) -> None:
            self.heard.append(text)

    def heard(way: str) -> list[str]:
        hear, changes = Hear(), [f"model.attend={way}", "model.depth=2", "engine.name=jax"]
        Loop(with_changes(small_recipe("vit"), changes), small_data(), RunFolder(tmp_path), hear)
        return hear.heard

    line = "fused attention is for GPUs; on this CPU blockwise attention stands in"
    assert heard("fused") == ([] if jax.default_backend() == "gpu" else [line])
    assert heard("plain") == []


def test_a_recipe_of_before_means_plain_attention() -> None:
    for model in (ViT(), GPT()):
        plain = to_plain(model)
        for name in ("attend", "window", "global_tokens", "checkpoint"):
            plain.pop(name, None)
        assert from_plain(type(model), plain) == model
        assert model.attend == Attention()
        assert (model.window, model.checkpoint) == (None, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.window=0"], "attention: window is 0, expected 1 or more"),
        (["model.attend=blokwise"], r"model.attend.kind: 'blokwise' came \(did you mean 'blockwise'\?\), expected pl"),
        (["model.attend=blockwise", "model.attend.dropout=0.1"], "BlockwiseAttention has no setting 'dropout'"),
        (["model.attend.dropout=1.0"], "dropout: rate is 1.0, expected a share from 0 to below 1"),
    ],
)
def test_settings_that_cannot_be(changes: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        with_changes(small_recipe("vit"), changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.attend=banded"], "banded attention: it has no window to keep to; set window, or attend"),
        (["model.attend=linear", "model.window=3"], "linear attention: a window came, which it cannot honour"),
        (["model.global_tokens=1"], "1 global tokens came without a window, where every token sees all"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_before_training(
    changes: list[str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=message):
        fit.train(with_changes(small_recipe("vit"), changes), small_data(), tmp_path / "run", Listener())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 3, "global_tokens": 1}, "the native engine has no attention with global tokens yet"),
        ({"attend": LinearAttention()}, "C has no linear attention yet"),
        ({"attend": Attention(dropout=0.1)}, "the native engine has no Dropout yet"),
    ],
)
def test_what_c_does_not_have_is_left_to_jax(changes: dict[str, Any], message: str) -> None:
    recipe = small_recipe("vit")
    model: Any = recipe.model
    recipe = resolved(replace(recipe, model=replace(model, **changes)), small_data())
    heard: list[str] = []
    assert engine_of(recipe, "auto", heard.append).name == "jax"
    assert [line.startswith(f"engine jax: {message}") for line in heard] == [True]
    with pytest.raises(EngineError, match=message):
        engine_of(recipe, "native")


def test_c_computes_blockwise_attention_plainly() -> None:
    recipe = small_recipe("vit")
    plain: Any = recipe.model
    model = replace(plain, attend=BlockwiseAttention(), checkpoint=True)
    recipe = resolved(replace(recipe, model=model), small_data())
    assert engine_of(recipe, "native").name == "native"


def engine_of(recipe: Recipe, name: Any, notice: Any = print) -> Any:
    return choose(replace(recipe, engine=replace(recipe.engine, name=name)), small_data().train, notice)
