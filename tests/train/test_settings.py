"""Recipes on the way in: what is accepted, what is refused and with which words, and what a run writes down."""

import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glassformer.errors import FileError, GlassformerError, SettingError, ShapeError, UnknownNameError
from glassformer.layers.positions import GridSinusoidal, Sinusoidal, Uniform, Zero
from glassformer.models import MLP, Images, PatchAttention, ViT
from glassformer.train import Recipe
from glassformer.train.jax_engine import JaxEngine
from glassformer.train.optimiser import Optimiser, Schedule
from glassformer.train.presets import DEFAULT, MANY, preset, preset_names, recipe_file
from glassformer.train.recipe import Engine, Training, Validation
from glassformer.train.resolve import resolved
from glassformer.train.rng import Threefry
from glassformer.train.settings import from_plain, must_survive, to_plain, to_toml, with_changes

from .small import small_data


def through_toml(recipe: Recipe) -> Recipe:
    return from_plain(Recipe, tomllib.loads(to_toml(to_plain(recipe))))


OF_IMAGES = [name for name in preset_names() if preset(name).model.input.reads == Images.reads]


@pytest.mark.parametrize("images", [0, MANY])
@pytest.mark.parametrize("name", OF_IMAGES)
def test_every_preset_survives_its_own_file(name: str, images: int) -> None:
    recipe = resolved(preset(name, images), small_data())
    assert through_toml(recipe) == recipe
    assert isinstance(recipe.model.input, Images)
    assert recipe.model.input.shape == (8, 8, 1)
    assert recipe.model.input.classes == 3


@pytest.mark.parametrize("name", OF_IMAGES)
def test_every_preset_takes_a_step(name: str) -> None:
    """At a constant rate, for a warm-up begins at zero."""
    data = small_data()
    recipe = with_changes(resolved(preset(name), data), ["training.batch=60", "optimiser.schedule.kind=constant"])
    engine = JaxEngine(recipe, data.train, (1,))
    params = engine.compiled(recipe.model.init)(jax.random.key(1))
    before = jax.tree.map(np.array, params)
    state, losses = engine.run(engine.start(params), engine.batches([np.arange(103)], 1), 0, 2)
    assert np.isfinite(losses).all()
    assert all(
        jax.tree.leaves(jax.tree.map(lambda a, b: np.isfinite(b).all() and a.shape == b.shape, before, state.params))
    )
    assert any(jax.tree.leaves(jax.tree.map(lambda a, b: np.any(a != b), before, state.params)))


def test_the_presets_are_those_that_are_documented() -> None:
    assert {"attention-pool", "attention-pool-64", "mlp", "vit-pico", "vit-nano", "vit-micro", "vit-tiny"} <= set(
        preset_names()
    )
    assert DEFAULT == "vit-nano"
    assert preset("attention-pool").model == PatchAttention(width=16, hidden=32, start=Uniform(0.1))
    assert preset("attention-pool").optimiser == Optimiser(name="sgd", lr=0.01)
    assert preset("mlp").model == MLP(hidden=(512,))


def test_many_images_change_a_preset_from_twenty_thousand_on() -> None:
    few, many = preset("vit-nano", MANY - 1), preset("vit-nano", MANY)
    assert few == preset("vit-nano")
    assert (few.training.epochs, few.training.shift) != (5, 0)
    assert (many.training.epochs, many.training.shift) == (5, 0)
    assert many.training.batch == few.training.batch
    assert many.model == few.model


def test_everything_that_can_be_set_survives_toml() -> None:
    recipe = Recipe(
        model=ViT(start=GridSinusoidal(7, 7), with_class_token=True, dropout=0.1),
        data='a "quoted" \\ path/ünd.npz',
        training=Training(epochs=3, batch=7, seed=2**63 - 1, label_smoothing=0.125, shift=2),
        optimiser=Optimiser(name="lion", lr=1e-7, clip=0.5, schedule=Schedule(kind="step", every=2, factor=0.1)),
        validation=Validation(share=0.25, patience=2, min_delta=1e-3),
        engine=Engine(name="jax", rng="xorshift", deterministic=True),
    )
    assert through_toml(recipe) == recipe
    assert through_toml(replace(recipe, model=MLP(hidden=()))).model == MLP(hidden=())


NUMBERS = st.floats(allow_nan=False)
POSITIVE = st.floats(min_value=0, exclude_min=True)


@settings(max_examples=60, deadline=None, database=None)
@given(st.text(), st.lists(POSITIVE, min_size=3, max_size=3), st.lists(NUMBERS, min_size=3, max_size=3))
@example("d😀/x.npz", [1.0, math.inf, 5e-324], [-0.0, -math.inf, 0.1 + 0.2])
@example("a\r\n\t\"'\\ \x00\x1f\x7f\x85\u2028\ufeff", [1e22, 1e-7, 1.0], [1e300, 0.0, 1.0])
@example("name of a file that is not UTF-8: \udcff", [1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
def test_every_text_and_every_number_comes_back(data: str, positive: list[float], numbers: list[float]) -> None:
    """Or is refused, before it is written: what is no Unicode."""
    (lr, clip, factor), (limit, mean, momentum) = positive, numbers
    optimiser = Optimiser(lr=lr, clip=clip, momentum=momentum, schedule=Schedule(factor=factor))
    model = PatchAttention(start=Uniform(limit), images=Images(mean=mean))
    recipe = Recipe(model=model, data=data, start=data, optimiser=optimiser)
    if data.encode("utf-8", "ignore").decode() != data:
        with pytest.raises(
            SettingError, match=r"data is .*, which is not Unicode text; give the file or folder another"
        ):
            must_survive(recipe)
        return
    must_survive(recipe)
    back = from_plain(Recipe, tomllib.loads(to_toml(to_plain(recipe)).encode().decode()))
    assert back == recipe
    assert repr(back) == repr(recipe)  # which knows 0.0 from -0.0


def test_a_setting_that_is_no_number_is_refused() -> None:
    with pytest.raises(SettingError, match=r"cannot be written down: optimiser\.clip is nan, expected a number"):
        must_survive(with_changes(Recipe(), ["optimiser.clip=nan"]))


def test_changes_reach_into_parts_and_choose_kinds() -> None:
    recipe = with_changes(
        Recipe(),
        ["model.kind=patch_attention", "model.width=8", "model.start=zero", "training.epochs = 7", "data=x y.npz"],
    )
    assert recipe.model == PatchAttention(width=8, start=Zero())
    assert recipe.training.epochs == 7
    assert recipe.data == "x y.npz"
    changes = ["model.start.kind=uniform", "model.start.limit=0.5"]
    assert with_changes(recipe, changes).model.start == Uniform(0.5)  # pyright: ignore
    assert with_changes(Recipe(model=MLP()), ["model.hidden=[3, 4]"]).model == MLP(hidden=(3, 4))
    assert with_changes(recipe, ["optimiser.schedule.kind=cosine"]).optimiser.schedule == Schedule(kind="cosine")
    assert from_plain(Recipe, {"model": "vit"}).model == ViT()
    assert from_plain(Recipe, {"model": MLP(hidden=(3,))}).model == MLP(hidden=(3,))
    assert from_plain(Recipe, {"model": {"kind": "vit", "start": "sinusoidal"}}).model == ViT(start=Sinusoidal())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "trainng.epochs=3",
            "trainng.epochs: Recipe has no setting 'trainng' (did you mean 'training'?); it has model",
        ),
        ("training.epoch=3", "training.epoch: Training has no setting 'epoch' (did you mean 'epochs'?)"),
        ("model.widht=3", "model.widht: ViT has no setting 'widht' (did you mean 'width'?)"),
        ("model.start.limit=3", "model.start.limit: Sinusoidal has no setting 'limit'; it has none"),
        ("training.epochs.x=3", "training.epochs.x: epochs is a plain value and has no setting 'x'"),
        ("training.epochs", "'training.epochs' is not a setting; write name=value, such as model.width=32"),
        ("training.epochs=many", "training.epochs: 'many' came; input should be a valid integer"),
        ("training.epochs=2.5", "training.epochs: 2.5 came; input should be a valid integer"),
        ('training.epochs="5"', "training.epochs: '5' came; input should be a valid integer"),
        ("training.epochs=true", "training.epochs: True came; input should be a valid integer"),
        ("optimiser.lr=true", "optimiser.lr: True came; input should be a valid number"),
        ('optimiser.lr="0.1"', "optimiser.lr: '0.1' came; input should be a valid number"),
        ("engine.deterministic=1", "engine.deterministic: 1 came; input should be a valid boolean"),
        ("model.images.shape=[8, 8, true]", "model.images.shape: [8, 8, True] came; input should be a valid integer"),
        ("training=3", "training: 3 came; input should be a dictionary"),
        ("model.hidden=[1]", "model.hidden: [1] came; input should be a valid integer"),
        ("training.batch=0", "training: batch is 0, expected 1 or more"),
        ("training.epochs=0", "training: epochs is 0, expected 1 or more"),
        ("training.seed=-1", "training: seed is -1, expected 0 or more"),
        ("training.seed=9223372036854775808", "training: seed is 9223372036854775808, expected less than 2^63"),
        ("training.shift=-1", "training: shift is -1, expected 0 or more"),
        ("training.label_smoothing=1.5", "label smoothing: 1.5 came, expected a share from 0 to below 1"),
        ("optimiser.lr=0", "optimiser: lr is 0.0, expected a number above 0"),
        ("optimiser.lr=nan", "optimiser: lr is nan, expected a number above 0"),
        ("optimiser.schedule.kind=cosin", "optimiser.schedule.kind: 'cosin' came"),
        ("model.kind=vti", "model.kind: 'vti' came (did you mean 'vit'?), expected mlp, patch_attention, vit"),
        ("model.start=sinusodial", "model.start.kind: 'sinusodial' came (did you mean 'sinusoidal'?)"),
        ("model.kind=[1]", "model.kind: [1] came"),
        ("model=3", "model.kind: 3 came, expected mlp, patch_attention, vit"),
        ("validation.share=1", "validation: share is 1.0, expected 0 to below 1"),
        ("validation.patience=-1", "validation: patience is -1, expected 0 or more"),
        ("engine.name=torch", "engine.name: 'torch' came; input should be 'auto', 'jax' or 'native'"),
        ("engine.rng=mersenne", "engine.rng: 'mersenne' came; input should be 'threefry' or 'xorshift'"),
    ],
)
def test_mistakes_are_refused_with_a_reason(change: str, message: str) -> None:
    with pytest.raises(SettingError) as error:
        with_changes(Recipe(), [change])
    assert message in str(error.value)


def test_numbers_are_taken_where_they_mean_the_same() -> None:
    recipe = with_changes(Recipe(), ["training.epochs=3", "optimiser.lr=1", "engine.deterministic=true"])
    assert (recipe.training.epochs, recipe.optimiser.lr, recipe.engine.deterministic) == (3, 1.0, True)
    assert type(recipe.optimiser.lr) is float
    plain = {"training": {"epochs": np.int64(3)}, "model": {"kind": "mlp", "hidden": [np.int32(3), 4]}}
    recipe = from_plain(Recipe, plain)
    assert recipe.model == MLP(hidden=(3, 4))
    assert type(recipe.training.epochs) is int


def test_patience_needs_something_to_wait_for() -> None:
    with pytest.raises(SettingError, match=r"early stopping \(patience\) needs a validation share above 0"):
        Validation(share=0.0, patience=3)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"training": {"epoch": 3}}, "training.epoch: Training has no setting 'epoch' (did you mean 'epochs'?)"),
        ({"modle": {}}, "modle: Recipe has no setting 'modle' (did you mean 'model'?)"),
        ({"model": {"width": 8}}, "model.kind: None came, expected mlp, patch_attention, vit"),
        ({"model": {"kind": "vit", "start": {"kind": "grid-sinusoidal"}}}, "model.start: "),
        ({"optimiser": {"schedule": {"every": "x"}}}, "optimiser.schedule.every: 'x' came; input should be a valid"),
        ({"data": 3}, "data: 3 came; input should be a valid string"),
    ],
)
def test_mistakes_in_a_file_are_refused_the_same_way(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        from_plain(Recipe, plain)
    assert message in str(error.value)


def test_heads_that_do_not_divide_are_refused_before_anything_is_computed() -> None:
    recipe = with_changes(Recipe(), ["model.heads=5"])
    with pytest.raises(ShapeError, match="width 64 does not divide into 5 heads; try heads=4"):
        Threefry(1).init(recipe.model)


def test_a_recipe_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[model]\nkind = "mlp"\n[many-images.training]\nepochs = 2\n[optimiser]\nlr = 0.5\n')
    assert recipe_file(file).model == MLP()
    assert recipe_file(file).training.epochs == 5
    assert recipe_file(file, MANY).training == Training(epochs=2)
    assert recipe_file(file, MANY).optimiser.lr == 0.5


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, FileError, "mine.toml: there is no such file"),
        (b"\xff\xfe", FileError, "mine.toml: damaged: not UTF-8 text"),
        (b"model = ", SettingError, "mine.toml: cannot be read as TOML: "),
        (b"data = " + b"[" * 3000 + b"]" * 3000, SettingError, "mine.toml: cannot be read as TOML: .*recursion"),
        (b"data = " + b"[" * 90 + b"]" * 90, SettingError, "mine.toml: more than 64 brackets within brackets"),
        (b"#" * (1 << 20) + b"#", FileError, "mine.toml: is larger than 1 MiB"),
        (b"[training]\nepochs = 0", SettingError, "training: epochs is 0, expected 1 or more"),
        (b"[many-images]\ntraining = { epoch = 3 }", SettingError, r"many-images\.training\.epoch: .* setting 'epoch'"),
        (b"[many-images]\ntraining = { epochs = 0 }", SettingError, "training: epochs is 0, expected 1 or more"),
        (b"[many-images]\nmany-images = 3", SettingError, "many-images.many-images: Recipe has no setting"),
        (b"many-images = 3", SettingError, r"mine\.toml: many-images is 3, expected a table of settings"),
    ],
)
def test_a_recipe_file_that_cannot_be_used(
    content: bytes | None, error: type[GlassformerError], message: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(error, match=message):
        recipe_file(tmp_path / "mine.toml")


def test_an_unknown_preset_gets_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match=r"no preset is called 'vit-nan' \(did you mean 'vit-nano'\?\); known: "):
        preset("vit-nan")
