"""Weight decay of matrices alone: what each layer declares, the same on both engines."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from glassformer.edge.export import optimiser_for
from glassformer.errors import SettingError
from glassformer.layers import LSTM, Embedding, Layer, Linear, Positions
from glassformer.layers.contract import decayed, param_shapes
from glassformer.models import GPT, ViT
from glassformer.names import named_leaves
from glassformer.native.engine import NativeEngine
from glassformer.train import fit
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.loop import InterruptedRunError, Listener
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Recipe
from glassformer.train.rng import Threefry
from glassformer.train.settings import from_plain, to_plain

from ..native.compiled import c_compiler
from .small import Stop, assert_same_run, small_data, small_recipe

MATRICES = Optimiser(name="adamw", lr=0.02, weight_decay=0.5, decay="matrices")


def names_of(layer: Layer) -> set[str]:
    return {name for name, is_decayed in named_leaves(decayed(param_shapes(layer))).items() if is_decayed}


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (Linear(3, 2), {"w"}),
        (Linear(3, 2, bias=False), {"w"}),
        (LSTM(3, 2), {"w_x", "w_h"}),  # its biases have two axes
        (Embedding(5, 3), set()),
        (Positions(5, 3), set()),
    ],
)
def test_a_layer_declares_what_is_decayed(layer: Layer, expected: set[str]) -> None:
    assert names_of(layer) == expected


def test_of_a_model_it_is_the_products() -> None:
    for model in (ViT(with_class_token=True), GPT()):
        last = {name.rpartition(".")[2] for name in names_of(model)}
        assert last == {"w", "w_q", "w_k", "w_v", "w_o", "w_up", "w_down"} - (
            {"w"} if isinstance(model, GPT) else set()
        )


def test_a_layer_that_declares_nothing_is_decayed_by_rank() -> None:
    class Params(NamedTuple):
        kernel: Any
        shift: Any
        rest: Any

    tree = Params(kernel=jnp.ones((2, 3)), shift=jnp.ones(3), rest={"a": (jnp.ones((1, 1)), None)})
    assert decayed(tree) == Params(kernel=True, shift=False, rest={"a": (True, None)})


def test_it_is_adamw_with_a_mask_written_by_hand() -> None:
    params: Any = Linear(3, 2).init(jax.random.key(0))._replace(b=jnp.ones(2))
    gradient = jax.tree.map(lambda leaf: 0.1 * leaf + 0.3, params)
    by_hand = optax.adamw(0.02, weight_decay=0.5, mask=type(params)(w=True, b=False))
    own = MATRICES.transformation(10, 1)
    everything = replace(MATRICES, decay="all").transformation(10, 1)

    def added(rule: optax.GradientTransformation) -> Any:
        return rule.update(gradient, rule.init(params), params)[0]

    np.testing.assert_array_equal(added(own).w, added(by_hand).w)
    np.testing.assert_array_equal(added(own).b, added(by_hand).b)
    assert (added(everything).b != added(own).b).all()


def test_a_recipe_without_the_key_decays_all() -> None:
    plain = to_plain(Recipe())
    del plain["optimiser"]["decay"]
    assert from_plain(Recipe, plain).optimiser.decay == "all"


def test_an_optimiser_that_decays_nothing_refuses_it() -> None:
    with pytest.raises(SettingError, match="sgd does not use decay, which is matrices"):
        Optimiser(decay="matrices").must_use_its_settings()


@pytest.mark.parametrize("decay", ["matrices", "all"])
def test_both_engines_decay_the_same(decay: Any) -> None:
    c_compiler()
    recipe = small_recipe("vit")
    recipe = replace(recipe, optimiser=replace(MATRICES, decay=decay, clip=1.0))
    data, order = small_data().train, np.arange(103)
    params = []
    engines: list[Any] = [NativeEngine(recipe, data), JaxEngine(recipe, data, (1,))]
    for engine in engines:
        state = engine.start(Threefry(0).init(recipe.model))
        params.append(engine.run(state, engine.batches([order], 1), 0, 4)[0].params)
    for name, leaf in named_leaves(params[0]).items():
        if not name.endswith("b_k"):  # of which softmax leaves nothing: Adam makes full steps of rounding
            np.testing.assert_allclose(leaf, named_leaves(params[1])[name], atol=2e-5, err_msg=name)


def test_natively_decayed_it_resumes_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    c_compiler()
    monkeypatch.setattr(fit, "load_for", lambda recipe, name, tokeniser: small_data())
    recipe = replace(small_recipe("vit"), optimiser=MATRICES)
    fit.train(recipe, small_data(), tmp_path / "whole", Listener())
    with pytest.raises(InterruptedRunError):
        fit.train(recipe, small_data(), tmp_path / "cut", Stop(after=1))
    assert fit.resume(tmp_path / "cut")["engine"] == "native"
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_device_decays_all_that_it_trains() -> None:
    run: Any = SimpleNamespace(recipe=Recipe(optimiser=replace(MATRICES, clip=1.0, freeze=("head.*",))))
    assert optimiser_for(run, "adamw") == replace(MATRICES, decay="all")
