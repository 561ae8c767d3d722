"""Whole models: the native engine beside the jax engine. Gradients, loss curves, threads, the last smaller batch.

An error is counted as DESIGN says: the largest difference over a leaf, divided by the largest gradient of its layer.
"""

import ctypes
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.check.gradients import leaf_errors
from glassformer.data.dataset import Samples
from glassformer.edge.export import covered
from glassformer.errors import EngineError
from glassformer.losses import LabelSmoothing
from glassformer.models import MLP, Network, PatchAttention, PatchBlock, TinyIris, ViT
from glassformer.models.columns import Columns
from glassformer.models.images import Images
from glassformer.models.patch_block import Normed, NormedResidual, WithResidual
from glassformer.names import named_leaves
from glassformer.native.decoder import NativeDecoder
from glassformer.native.engine import Job, NativeEngine, must_mirror, samples_at_once
from glassformer.native.lower import plan_for
from glassformer.native.write import source_of
from glassformer.predict.run import Run
from glassformer.train import engines
from glassformer.train.augment import Augment
from glassformer.train.jax_engine import JaxEngine, loss_of_step
from glassformer.train.optimiser import Optimiser, Schedule
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.tasks import TASKS, NextToken
from glassformer.train.tune import LowRank

from ..hub.builders import MODELS as OF_HUB

ALL = Augment(rotate=30, scale=0.2, shear=0.2, erase=0.5)
COUNT, BATCH = 23, 10  # the last batch has three samples
QUICKLY = {"xla_backend_optimization_level": 0}  # for the referee: most of the time goes into compiling it

GREY, COLOURS, TALL = Images((8, 12, 1), 3, 0.4, 0.3), Images((8, 12, 3), 5), Images((14, 7, 1), 10, 0.1, 0.3)

MODELS: dict[str, Network] = {
    "patch attention": PatchAttention(images=GREY),
    "patch attention, odd widths": PatchAttention(images=GREY, patch_size=2, width=10, hidden=17),
    "patch attention, patches of 7": PatchAttention(images=TALL, patch_size=7, width=7, hidden=33),
    "patch block": PatchBlock(images=GREY, heads=2),
    "patch block, residual": PatchBlock(images=GREY, block=WithResidual()),
    "patch block, residual, w_o": PatchBlock(
        images=GREY, patch_size=2, width=10, hidden=17, block=WithResidual(), heads=5, output=True
    ),
    "patch block, normed": PatchBlock(images=COLOURS, width=9, hidden=7, block=Normed(), heads=3),
    "patch block, normed, residual": PatchBlock(images=GREY, block=NormedResidual()),
    "patch block, normed, residual, w_o": PatchBlock(
        images=TALL, patch_size=7, width=18, hidden=20, block=NormedResidual(), heads=2, output=True
    ),
    "vit": ViT(images=GREY, width=16, hidden=32, heads=4, depth=2),
    "vit, class token": ViT(images=GREY, width=16, hidden=32, heads=4, depth=2, with_class_token=True),
    "deit": ViT(images=COLOURS, width=9, hidden=7, heads=3, depth=2, with_class_token=True, distillation="token"),
    "vit, window": ViT(images=GREY, patch_size=2, width=10, hidden=17, heads=2, window=5),
    "vit, odd widths": ViT(images=GREY, patch_size=2, width=10, hidden=17, heads=2),
    "vit, colours": ViT(images=COLOURS, width=9, hidden=7, heads=3, with_class_token=True),
    "vit, patches of 7": ViT(images=TALL, patch_size=7, width=18, hidden=20, heads=1),
    "mlp": MLP(images=GREY, hidden=(33,)),
    "mlp, two hidden layers": MLP(images=COLOURS, hidden=(17, 10)),
    "mlp, large weights": MLP(images=GREY, hidden=(700,)),  # whose gradient is cut by columns
}
# One of each class, with widths that fill no vector, colours, patches of 7. The others are slow: each compiles its C.
QUICK = (
    "patch attention, odd widths",
    "patch block, normed, residual, w_o",
    "vit, odd widths",
    "vit, class token",
    "mlp, two hidden layers",
)
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


def samples_for(model: Any, count: int = COUNT) -> Samples:
    """Half of each pixel is its class's own, so that there is something to learn."""
    rng = np.random.default_rng(count)
    labels = rng.integers(model.images.classes, size=count).astype(np.int32)
    own = rng.integers(128, size=(model.images.classes, *model.images.shape), dtype=np.uint8)
    return Samples(own[labels] + rng.integers(128, size=(count, *model.images.shape), dtype=np.uint8), labels)


@cache
def params_for(model: Network) -> Any:
    """Random throughout: ones and zeros hide mistakes."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(0, 0.3, leaf.shape).astype(np.float32), shapes)


def recipe_for(model: Network, threads: int = 1, **training: Any) -> Recipe:
    settings = Training(**{"batch": BATCH, "epochs": 2, **training})
    return Recipe(model=model, training=settings, engine=Engine(name="native", threads=threads))


def native(recipe: Recipe, count: int = COUNT) -> NativeEngine:
    return NativeEngine(recipe, samples_for(recipe.model, count), pytest.fail)


def order(count: int = COUNT) -> list[np.ndarray]:
    return [np.random.default_rng(3).permutation(count).astype(np.int32)]


def gradient_of(recipe: Recipe, step: int, epoch: int = 1, count: int = COUNT) -> tuple[float, Any]:
    engine = native(recipe, count)
    return engine.gradient(params_for(recipe.model), engine.batches(order(engine.count), epoch), step)


def true_gradient(recipe: Recipe, step: int, epoch: int = 1, count: int = COUNT) -> tuple[float, Any]:
    """The jax engine's."""
    engine = JaxEngine(recipe, samples_for(recipe.model, count), (recipe.training.seed,))
    batches = engine.batches(order(count), epoch)
    compiled = jax.jit(loss_of_step, static_argnums=0, compiler_options=QUICKLY)
    loss, gradient = compiled(recipe, params_for(recipe.model), batches, step)
    return float(loss), gradient


def error(ours: Any, truth: Any) -> float:
    """The largest over all layers, each measured by its own largest gradient."""
    mine, theirs = named_leaves(ours), named_leaves(truth)
    assert list(mine) == list(theirs)
    layers = {name.rpartition(".")[0] for name in theirs}
    parts = [{name for name in theirs if name.rpartition(".")[0] == layer} for layer in layers]
    return max(
        max(leaf_errors({name: mine[name] for name in part}, {name: theirs[name] for name in part}).values())
        for part in parts
    )


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_the_jax_engine(name: str) -> None:
    """In the last step, which has fewer samples than a batch and than an MLP takes at once.

    With the exact rewrites, and without: pooling before a projection is one, and patch attention has it.
    """
    recipe = recipe_for(MODELS[name])
    true_loss, truth = true_gradient(recipe, 2)
    for rewrites in (True, False):
        engine = replace(recipe.engine, rewrites=rewrites)
        loss, gradient = gradient_of(replace(recipe, engine=engine), 2)
        assert loss == pytest.approx(true_loss, rel=1e-5)
        assert error(gradient, truth) <= 1e-5


def test_the_rewrite_changes_the_calls() -> None:
    on, off = (plan_for(MODELS["patch attention"], 1, rewrites=rewrites).forward for rewrites in (True, False))
    assert [call.kernel for call in on] != [call.kernel for call in off]


@pytest.mark.parametrize("rewrites", [True, False])
def test_a_bare_patch_block_makes_the_calls_of_patch_attention(rewrites: bool) -> None:
    ours, theirs = (source_of(model(images=GREY), 1, rewrites=rewrites) for model in (PatchBlock, PatchAttention))
    assert ours.replace("PatchBlock", "PatchAttention") == theirs


def test_rows_of_floats() -> None:
    """Each column has its mean and its spread; there are no pixels that could be moved."""
    model = TinyIris(columns=Columns(mean=(1.5, -2.0, 0.0, 7.0), std=(0.5, 2.0, 1.0, 3.0)))
    rng = np.random.default_rng(0)
    samples = (rng.normal(2, 3, (COUNT, 4)).astype(np.float32), rng.integers(3, size=COUNT).astype(np.int32))
    recipe, params = recipe_for(model, 2), params_for(model)
    engine, referee = NativeEngine(recipe, samples, pytest.fail), JaxEngine(recipe, samples, (1,))
    loss, gradient = engine.gradient(params, engine.batches(order(), 1), 2)
    true_loss, truth = loss_of_step(recipe, params, referee.batches(order(), 1), 2)
    assert loss == pytest.approx(float(true_loss), rel=1e-5)
    assert error(gradient, truth) <= 1e-5
    np.testing.assert_allclose(engine.score(params, samples), referee.score(params, samples), rtol=1e-5)
    np.testing.assert_allclose(engine.answering(params)(samples[0][5]), engine.predict(params, samples[0])[5])


def test_samples_that_go_through_together() -> None:
    """Several where every product has one row a sample."""
    together = {name: samples_at_once(model, 10) for name, model in MODELS.items()}
    assert together == {name: 10 if name.startswith("mlp") else 1 for name in MODELS}
    assert samples_at_once(MODELS["mlp"], 100) == 16


def test_a_task_that_is_no_classification_is_refused() -> None:
    with pytest.raises(EngineError, match="the native engine trains classifiers of images, and has no NextToken"):
        native(replace(recipe_for(MODELS["mlp"]), task=NextToken()))


@pytest.mark.parametrize("name", ["patch attention, odd widths", "mlp, two hidden layers"])
def test_label_smoothing_and_shifts(name: str) -> None:
    """The same images are moved by the same pixels, in every epoch by others."""
    recipe = recipe_for(MODELS[name], label_smoothing=0.1, shift=2, seed=5)
    (loss, gradient), (true_loss, truth) = gradient_of(recipe, 1, epoch=2), true_gradient(recipe, 1, epoch=2)
    assert loss == pytest.approx(true_loss, rel=1e-5)
    assert error(gradient, truth) <= 1e-5
    assert gradient_of(recipe, 1, epoch=1)[0] != loss
    assert gradient_of(recipe_for(MODELS[name], label_smoothing=0.1), 1)[0] != loss


@pytest.mark.parametrize("name", ["patch attention, odd widths", "mlp, two hidden layers"])
def test_augmentation(name: str) -> None:
    """By the same draws, in every epoch by others; grey and colours, more columns than rows."""
    recipe = recipe_for(MODELS[name], augment=ALL, shift=2, seed=5)
    (loss, gradient), (true_loss, truth) = gradient_of(recipe, 1, epoch=2), true_gradient(recipe, 1, epoch=2)
    assert loss == pytest.approx(true_loss, rel=1e-5)
    assert error(gradient, truth) <= 1e-4  # a byte may be rounded the other way
    assert gradient_of(recipe, 1, epoch=1)[0] != loss
    unerased = replace(recipe, training=replace(recipe.training, augment=replace(ALL, erase=0)))
    assert gradient_of(unerased, 1, epoch=2)[0] != loss


def test_a_smoothed_loss_may_be_named_itself() -> None:
    by_share = gradient_of(recipe_for(MODELS["mlp"], label_smoothing=0.2), 0)
    by_name = gradient_of(recipe_for(MODELS["mlp"], loss=LabelSmoothing(0.2)), 0)
    assert by_share[0] == by_name[0]
    assert bits(by_share[1]) == bits(by_name[1])


@pytest.mark.parametrize("shift", [1, 9])
def test_shifts_move_images_out_of_sight(shift: int) -> None:
    """By more than their height, too: then nothing of them is left."""
    recipe = recipe_for(MODELS["mlp"], shift=shift)
    assert gradient_of(recipe, 0)[0] == pytest.approx(true_gradient(recipe, 0)[0], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "count", "batch"),
    [
        ("mlp", 7, 10),
        ("mlp", 41, 20),
        ("mlp", 37, 36),
        ("mlp", 5, 1),
        ("patch attention", 7, 10),
        ("patch attention", 5, 1),
    ],
)
def test_batches_of_any_size(name: str, count: int, batch: int) -> None:
    """An MLP takes up to 16 samples at once: a batch of 20 is one group and a part of another."""
    recipe = recipe_for(MODELS[name], batch=batch)
    last = -(-count // batch) - 1
    (loss, gradient), (true_loss, truth) = (
        gradient_of(recipe, last, count=count),
        true_gradient(recipe, last, count=count),
    )
    assert loss == pytest.approx(true_loss, rel=1e-5)
    assert error(gradient, truth) <= 1e-5


@pytest.mark.parametrize(("clip", "augment"), [(0.0, ALL), (0.5, Augment())])
@pytest.mark.parametrize("name", ["vit, odd widths", "mlp, large weights"])
def test_any_number_of_threads_gives_the_same_bits_and_a_run_may_be_cut_anywhere(
    name: str, clip: float, augment: Augment
) -> None:
    """The last step of an epoch has three samples: some shards have none."""
    optimiser = Optimiser(name="adamw", lr=0.01, weight_decay=0.1, clip=clip)
    found = []
    for threads, cuts in ((1, (0, 9)), (1, (0, 4, 9)), (2, (0, 9)), (3, (0, 9)), (5, (0, 2, 9))):
        recipe = replace(recipe_for(MODELS[name], threads, augment=augment), optimiser=optimiser)
        engine = native(recipe, 83)
        batches, state, losses = engine.batches(order(83), 1), engine.start(params_for(recipe.network)), []
        for first, last in pairwise(cuts):
            state, some = engine.run(state, batches, first, last)
            losses += some.tolist()
        found.append((bits(state), losses, bits(engine.gradient(state.params, batches, 8)[1])))
    assert all(one == found[0] for one in found)


def test_what_goes_in_is_not_changed() -> None:
    """A state is a value: the steps are taken on a copy."""
    recipe = replace(recipe_for(MODELS["mlp"]), optimiser=Optimiser(name="momentum"))
    engine = native(recipe)
    state = engine.start(params_for(recipe.model))
    before = bits(state)
    after, _ = engine.run(state, engine.batches(order(), 1), 0, 3)
    assert bits(state) == before != bits(after)
    assert jax.tree.structure(state) == jax.tree.structure(after)


OPTIMISERS = {
    "sgd": Optimiser(lr=0.1),
    "momentum": Optimiser(name="momentum", lr=0.05, momentum=0.8),
    "adam": Optimiser(name="adam", lr=0.01, b1=0.8, b2=0.99),
    "adamw": Optimiser(name="adamw", lr=0.01, weight_decay=0.1),
    "sgd, clipped": Optimiser(lr=0.3, clip=0.2),
    "adamw, clipped": Optimiser(name="adamw", lr=0.01, weight_decay=0.1, clip=0.5),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_ten_steps_are_those_of_the_jax_engine(name: str) -> None:
    curve, truth = curves(replace(recipe_for(MODELS["vit, odd widths"], 2), optimiser=OPTIMISERS[name]))
    np.testing.assert_allclose(curve, truth, rtol=2e-5)
    assert min(truth[5:]) < truth[0], "something is learned"


@pytest.mark.parametrize("kind", ["constant", "step", "exponential", "cosine", "warmup-cosine"])
def test_every_schedule_is_that_of_the_jax_engine(kind: Any) -> None:
    """Over two epochs of five steps: a rate changes between them, and within."""
    schedule = Schedule(kind=kind, final=0.1, warmup=0.3)
    curve, truth = curves(replace(recipe_for(MODELS["mlp"]), optimiser=Optimiser(lr=0.2, schedule=schedule)))
    np.testing.assert_allclose(curve, truth, rtol=2e-5)


def curves(recipe: Recipe) -> tuple[list[float], list[float]]:
    """The losses of two epochs of five steps: ours, and the jax engine's."""
    count, both = 5 * BATCH - 3, []
    for engine in (native(recipe, count), JaxEngine(recipe, samples_for(recipe.model, count), (1,))):
        state, losses = engine.start(params_for(recipe.network)), []
        for epoch in (1, 2):
            state, part = engine.run(state, engine.batches(order(count), epoch), 0, engine.steps)  # pyright: ignore[reportArgumentType]
            losses += part.tolist()
        both.append(losses)
    return both[0], both[1]


def test_thin_matrices_beside_the_weights() -> None:
    """LoRA, also of the matrix before which the mean is taken; ten steps, the weights themselves, and the scores."""
    model = MODELS["patch attention, odd widths"]
    tune = LowRank(rank=3, targets=("patch.w", "attn.w_q", "ff.w_down"), also=("head.*",))
    recipe = replace(recipe_for(model, 2), tune=tune, optimiser=Optimiser(name="adamw", lr=0.01, clip=0.5))
    ours, truth = curves(recipe)
    np.testing.assert_allclose(ours, truth, rtol=1e-4)
    params, samples = params_for(recipe.network), samples_for(model)
    mine, theirs = (engine.score(params, samples) for engine in (native(recipe), JaxEngine(recipe, samples, (1,))))
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)
    engine = native(recipe)
    state, _ = engine.run(engine.start(params), engine.batches(order(), 1), 0, 2)
    assert bits(state.params.base._replace(head=None)) == bits(params.base._replace(head=None))
    assert all(not np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (state.params.a, params.a)), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_the_jax_engine(name: str) -> None:
    """Of one image; of some, on one thread though there are two; of enough to share them out."""
    model = MODELS[name]
    images, params = samples_for(model, 67).images, params_for(model)
    truth = np.asarray(jax.jit(model.forward, compiler_options=QUICKLY)(params, images)[0])
    for count, threads in ((1, 1), (17, 2), (67, 3)):
        logits = native(recipe_for(model, threads)).predict(params, images[:count])
        assert np.abs(logits - truth[:count]).max() <= 1e-5 * np.abs(truth).max()


def test_a_value_that_is_not_finite_shows_in_the_loss() -> None:
    model = MODELS["vit, odd widths"]
    engine = native(recipe_for(model))
    leaves, structure = jax.tree.flatten(params_for(model))
    for bad in (np.nan, np.inf):
        spoilt = [leaf.copy() for leaf in leaves]
        spoilt[0].flat[3] = bad
        loss, _ = engine.gradient(jax.tree.unflatten(structure, spoilt), engine.batches(order(), 1), 0)
        assert np.isnan(loss)


def test_a_label_that_is_no_class_shows_in_the_loss() -> None:
    model = MODELS["mlp"]
    samples = samples_for(model)
    samples.labels[order()[0][4]] = 99
    engine = NativeEngine(recipe_for(model), samples, pytest.fail)
    losses = [engine.gradient(params_for(model), engine.batches(order(), 1), step)[0] for step in (0, 1)]
    assert np.isnan(losses).tolist() == [True, False]


def test_a_struct_that_c_has_otherwise_is_refused() -> None:
    class Short(ctypes.Structure):
        _fields_ = Job._fields_[:-1]

    with pytest.raises(EngineError, match=r"Short has \d+ bytes in Python and \d+ in C: fields differ"):
        must_mirror(Short, native(recipe_for(MODELS["mlp"])).program.library.gf_job_size())


def test_more_threads_than_there_can_be() -> None:
    many, one = (gradient_of(recipe_for(MODELS["mlp"], threads), 0) for threads in (5000, 1))
    assert (many[0], bits(many[1])) == (one[0], bits(one[1]))


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(model=ViT(images=GREY, dropout=0.1)), r"Dropout in models of texts only \(blocks\.0\.drop1\)"),
        (Recipe(optimiser=Optimiser(name="lion")), "the native engine has no optimiser lion"),
    ],
)
def test_what_is_not_covered_is_refused_by_name(recipe: Recipe, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        native(recipe)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("deit", r"no StandardiseChannels yet \(prepare\)"),
        ("teacher", r"no DistilledHead yet \(head\)"),
    ],
)
def test_one_line_says_which_layer_has_no_c(kind: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And jax trains it; a device is refused with the same words."""
    model = replace(OF_HUB[kind], images=COLOURS) if kind == "teacher" else OF_HUB[kind]
    recipe = Recipe(model=model, task=TASKS[model.tasks[0]]())
    heard: list[str] = []
    monkeypatch.setattr(engines, "jax_engine", lambda *given: "jax")
    assert engines.choose(recipe, None, heard.append) == "jax"
    (line,) = heard
    assert re.search(f"^engine jax: the native engine .*{missing}$", line)
    with pytest.raises(EngineError, match=missing):
        engines.choose(replace(recipe, engine=Engine(name="native")), None, heard.append)
    with pytest.raises(EngineError, match=f"there is no C of it for a device: .*{missing}"):
        covered(Run(Path("run"), recipe, None, ()))


@pytest.mark.parametrize("kind", ["llama", "roberta"])
def test_a_device_has_no_texts(kind: str) -> None:
    with pytest.raises(EngineError, match=r"there is no C of it for a device: .*no Embedding yet"):
        covered(Run(Path("run"), Recipe(model=OF_HUB[kind]), None, ()))


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3"])
def test_the_decoder_has_all_their_layers(kind: str) -> None:
    model = OF_HUB[kind]
    made = NativeDecoder(model, model.init(jax.random.key(0)))
    assert made.start([[1, 2, 3]], [3]).shape == (1, model.input.vocabulary)
