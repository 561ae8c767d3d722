"""Groups of parameters with rates of their own, and frozen ones: against chains of optax written by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from glassformer.errors import SettingError
from glassformer.layers.contract import param_shapes
from glassformer.names import named_leaves
from glassformer.predict.run import load
from glassformer.train import fit
from glassformer.train.limits import bytes_of
from glassformer.train.loop import Listener
from glassformer.train.optimiser import Group, Optimiser, Schedule
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import resolved
from glassformer.train.rng import Threefry
from glassformer.train.run_folder import RunFolder
from glassformer.train.settings import from_plain, with_changes
from glassformer.train.weights import load_arrays

from .small import small_data, small_recipe, whole_and_cut

HEAD = (Group("head.*", 0.1),)
ADAMW = Optimiser(name="adamw", lr=0.02, weight_decay=0.1, schedule=Schedule(kind="cosine"))


def vit(**settings: Any) -> Recipe:
    recipe = small_recipe("adamw")
    return replace(recipe, optimiser=replace(ADAMW, **settings))


def params_of(recipe: Recipe) -> Any:
    return Threefry(0).init(recipe.model)


def updated(rule: optax.GradientTransformation, params: Any, steps: int = 3) -> dict[str, Any]:
    memory = rule.init(params)
    for step in range(steps):
        gradient = jax.tree.map(lambda leaf: jnp.cos(7 * leaf + step), params)  # noqa: B023
        updates, memory = rule.update(gradient, memory, params)
        params = optax.apply_updates(params, updates)
    return named_leaves(params)


def test_a_group_is_an_optimiser_at_a_rate_of_its_own() -> None:
    recipe = vit()
    params, names = params_of(recipe), list(named_leaves(params_of(recipe)))
    assert {name for name in names if name.startswith("head.")} == {"head.w", "head.b"}
    groups = (*HEAD, Group("*.b", 3.0), Group("head.w", 99.0))  # the first that matches
    mine = updated(replace(ADAMW, groups=groups).transformation(10, 2), params)
    for times, chosen in (
        (0.1, [name for name in names if name.startswith("head.")]),
        (3.0, [name for name in names if name.endswith(".b") and not name.startswith("head.")]),
        (1.0, [name for name in names if not name.endswith(".b") and not name.startswith("head.")]),
    ):
        rate = optax.cosine_decay_schedule(times * 0.02, 20)
        by_hand = updated(optax.adamw(rate, weight_decay=0.1), params)
        assert chosen
        for name in chosen:
            np.testing.assert_allclose(mine[name], by_hand[name], rtol=1e-6, err_msg=name)


def test_what_is_frozen_does_not_count_in_the_norm_that_is_clipped() -> None:
    params = {"a": jnp.array([3.0, 4.0]), "b": jnp.array([1000.0])}
    rule = Optimiser(lr=1.0, clip=1.0, freeze=("b",)).transformation(1, 1)
    updates: Any = rule.update(params, rule.init(params), params)[0]
    np.testing.assert_allclose(updates["a"], [-0.6, -0.8], rtol=1e-6)
    assert updates["b"] == 0


@pytest.mark.parametrize("settings", [{"freeze": ("patch.*", "blocks.*")}, {"groups": (Group("blocks.*", 0.0),)}])
def test_frozen_weights_stay_to_the_bit_and_the_others_learn(settings: Any, tmp_path: Path) -> None:
    recipe = resolved(vit(**settings), small_data())
    fit.train(recipe, small_data(), tmp_path, Listener())
    before, after = named_leaves(Threefry(recipe.training.seed).init(recipe.model)), named_leaves(load(tmp_path).params)
    patterns = tuple(pattern.rstrip("*") for pattern in settings.get("freeze", ("blocks.",)))
    for name, leaf in after.items():
        same = np.asarray(leaf).tobytes() == np.asarray(before[name]).tobytes()
        assert same == name.startswith(patterns), name


def test_minus_zero_stays_minus_zero() -> None:
    params: Any = {"a": jnp.array([-0.0, 1.0]), "b": jnp.ones(1)}
    rule = Optimiser(lr=1.0, freeze=("a",)).transformation(1, 1)
    kept = jax.jit(lambda params: optax.apply_updates(params, rule.update(params, rule.init(params), params)[0]))(
        params
    )
    assert np.signbit(kept["a"]).tolist() == [True, False]


def test_the_optimiser_remembers_only_what_learns() -> None:
    recipe = vit()
    shapes = param_shapes(recipe.model)
    head = sum(leaf.size for name, leaf in named_leaves(shapes).items() if name.startswith("head."))
    others = tuple({f"{name.partition('.')[0]}.*" for name in named_leaves(shapes)} - {"head.*"})

    def state(**settings: Any) -> Any:
        return jax.eval_shape(replace(ADAMW, **settings).transformation(10, 2).init, shapes)

    whole, frozen = state(), state(freeze=others)
    assert bytes_of(whole) == 2 * bytes_of(shapes) + 8  # mu and nu; two counts
    assert bytes_of(frozen) == 2 * 4 * head + 8
    assert bytes_of(frozen) < bytes_of(whole) / 10
    assert len(jax.tree.leaves(frozen)) == 2 * 2 + 2


@pytest.mark.parametrize("seeds", [(), (1, 2)])
def test_cut_in_the_middle_it_resumes_to_the_bit(
    seeds: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "load_for", lambda recipe, name, tokeniser: small_data())
    recipe = vit(groups=HEAD, freeze=("blocks.*.w_q",), clip=1.0, decay="matrices")

    assert whole_and_cut(recipe, seeds, tmp_path)
    assert RunFolder(tmp_path / "cut").recipe_and_seeds()[0].optimiser == recipe.optimiser


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"freeze": ("haed.*",)},
            r"no parameter is called 'haed\.\*' \(did you mean 'head\.\*'\?\); there are .*blocks\.\*",
        ),
        ({"groups": (Group("blocks.0.atn.*", 2.0),)}, r"'blocks\.0\.atn\.\*' \(did you mean 'blocks\.0\.attn\.\*'\?\)"),
        ({"freeze": ("*",)}, r"every parameter is frozen \(by '\*'\), so nothing would learn; name fewer"),
        ({"groups": (Group("*", 0.0),)}, r"every parameter is frozen \(by '\*'\)"),
    ],
)
def test_what_names_nothing_or_everything_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        resolved(vit(**settings), small_data())


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(SettingError, match=r"the rate of 'head\.\*' is .*, expected a number from 0"):
        Group("head.*", rate)


def test_settings_from_outside() -> None:
    plain = {"optimiser": {"groups": [{"pattern": "head.*", "rate": 0.1}], "freeze": ["patch.*"]}}
    recipe = from_plain(Recipe, plain)
    assert (recipe.optimiser.groups, recipe.optimiser.freeze) == (HEAD, ("patch.*",))
    changed = with_changes(Recipe(), ['optimiser.groups=[{pattern="head.*", rate=0.1}]', 'optimiser.freeze=["a.*"]'])
    assert (changed.optimiser.groups, changed.optimiser.freeze) == (HEAD, ("a.*",))
    with pytest.raises(
        SettingError, match=r"optimiser\.groups\.0\.rat: Group has no setting 'rat' \(did you mean 'rate'"
    ):
        from_plain(Recipe, {"optimiser": {"groups": [{"pattern": "head.*", "rat": 1.0}]}})
    with pytest.raises(SettingError, match=r"optimiser\.groups\.0: .*missing 1 required.*'rate'"):
        from_plain(Recipe, {"optimiser": {"groups": [{"pattern": "head.*"}]}})


def test_both_engines_have_them(tmp_path: Path) -> None:
    """And averaged weights: the same numbers from both, and what is frozen to the bit as it began."""
    optimiser = replace(ADAMW, groups=HEAD, freeze=("blocks.0.attn.*",))
    recipe = replace(small_recipe("vit", ema=0.8), optimiser=optimiser)
    found = []
    for name in ("native", "jax"):
        own = replace(recipe, engine=replace(recipe.engine, name=name, threads=0))
        fit.train(own, small_data(), tmp_path / name, Listener())
        found.append(load_arrays(tmp_path / name / "state.safetensors")[0])
    first = named_leaves(Threefry(recipe.training.seed).init(resolved(recipe, small_data()).model))
    for kind in ("params", "ema"):
        for leaf, array in first.items():
            native, jax_ = (arrays[f"state.{kind}.{leaf}"] for arrays in found)
            np.testing.assert_allclose(native, jax_, atol=2e-5, err_msg=leaf)
            assert np.array_equal(native, array) == leaf.startswith("blocks.0.attn."), leaf
