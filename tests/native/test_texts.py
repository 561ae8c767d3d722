"""Text models on the native engine, beside the jax engine: every task, gradients, ten steps, dropout, threads."""

from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from glassformer.errors import EngineError
from glassformer.layers import GELU, Attention, ReLU, Rotary, ScaledRotary, SiLU
from glassformer.layers.rope_scaling import LinearScaling
from glassformer.models import BERT, GPT, Llama, Network
from glassformer.models.bert import BERTFor
from glassformer.models.text import Text
from glassformer.names import named_leaves
from glassformer.native import build, plan
from glassformer.native.engine import NativeEngine
from glassformer.native.lower import plan_for
from glassformer.native.write import source
from glassformer.shapes import Static
from glassformer.train import engines
from glassformer.train.jax_engine import JaxEngine, loss_of_step
from glassformer.train.optimiser import Group, Optimiser, Schedule
from glassformer.train.recipe import Engine, Recipe, Training
from glassformer.train.score import compiled_tally
from glassformer.train.tasks import TASKS, Classify, Masked, NextToken, Span, Tag
from glassformer.train.tasks.answer import Answering, Rows
from glassformer.train.tasks.masked import Rows as MaskedRows
from glassformer.train.tasks.next_token import Stream
from glassformer.train.tasks.sequences import Sequences
from glassformer.train.tasks.task import Task
from glassformer.train.tune import Bias, Head, LowRank

from .test_models import bits, error

V, T, CLASSES = 37, 11, 5  # tokens of a sample; a model's context is longer
COUNT, BATCH = 23, 10  # the last batch has three samples
QUICKLY = {"xla_backend_optimization_level": 0}
TEXT = Text(vocabulary=V, context=13)

gpt = partial(GPT, text=replace(TEXT, context=T), width=12, hidden=20, heads=2, depth=2)
llama = partial(Llama, text=replace(TEXT, context=T), width=24, hidden=17, heads=6, key_heads=2, depth=2)
bert = BERT(text=TEXT, width=14, hidden=19, heads=2, depth=2)


class Case(NamedTuple):
    model: Network
    task: Task
    batch: int = BATCH


def bert_for(task: str, vocabulary: int = V, **settings: Any) -> BERTFor:
    encoder = replace(bert, text=replace(TEXT, vocabulary=vocabulary), **settings)
    return BERTFor(encoder, encoder.head_for(task, CLASSES))


LARGE_TABLE = {  # tables that are called large: 67 and 150 symbols are pieces of 64, and a part of one
    "gpt, large table": Case(gpt(text=Text(150, 71)), NextToken(), 4),
    "llama, large tables": Case(llama(text=Text(67, T), tied=False), NextToken()),
    "bert, masked, large table": Case(bert_for("masked", 67), Masked(share=0.3)),
}
CASES = {
    **LARGE_TABLE,
    "gpt": Case(gpt(), NextToken()),
    "gpt, long": Case(gpt(text=Text(V, 71), heads=3), NextToken(), 4),  # several tiles, and a part of one
    "gpt, rotary, untied": Case(gpt(rotary=Rotary(), tied=False, activation=GELU()), NextToken()),
    "gpt, answers": Case(gpt(activation=SiLU()), Answering()),
    "gpt, large weights": Case(gpt(width=36, hidden=1900, depth=1), NextToken(), 3),  # gradients cut by columns
    "llama": Case(llama(), NextToken()),
    "llama, its family": Case(
        llama(bias="qkv", head_norm=True, head_width=6, tied=False, rotary=ScaledRotary(scaling=LinearScaling(2.0))),
        NextToken(),
    ),
    "gpt, window": Case(gpt(text=Text(V, 71), window=6), NextToken(), 4),
    "mistral": Case(llama(window=4), NextToken()),
    "bert, window": Case(bert_for("tag", window=3), Tag()),
    "roberta": Case(bert_for("masked", first_position=2, segments=0), Masked(share=0.3)),
    "distilbert": Case(bert_for("classify", segments=0, pooler=ReLU()), Classify()),
    "bert, masked": Case(bert_for("masked"), Masked(share=0.3)),
    "bert, classify": Case(bert_for("classify"), Classify()),
    "bert, tag": Case(bert_for("tag"), Tag()),
    "bert, span": Case(bert_for("span"), Span()),
}
QUICK = ("gpt", "llama, its family", "roberta", "gpt, large table")
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


def samples_for(case: Case) -> Any:
    rng = np.random.default_rng(1)
    model: Any = case.model
    tokens = model.input.context if isinstance(case.task, NextToken) else T
    V = model.input.vocabulary
    ids = rng.integers(V, size=(COUNT, T)).astype(np.int32)
    keep = np.arange(T) < rng.integers(4, T + 1, size=(COUNT, 1))
    counts = keep & (rng.random((COUNT, T)) < 0.6)
    counts[:, 1] = True
    match case.task:
        case NextToken():
            return Stream(rng.integers(V, size=COUNT * tokens + 1).astype(np.int32), Static(tokens))
        case Masked():
            return MaskedRows(ids, keep, Static(3), Static(V))
        case Answering():
            return Rows(ids, rng.integers(V, size=(COUNT, T)).astype(np.int32), counts)
        case Tag():
            return Sequences(ids, keep, rng.integers(CLASSES, size=(COUNT, T)).astype(np.int32), counts)
        case Span():
            labels = rng.integers(4, size=(COUNT, 2)).astype(np.int32)
        case _:
            labels = rng.integers(CLASSES, size=COUNT).astype(np.int32)
    return Sequences(ids, keep, labels, np.ones_like(labels, bool))


@cache
def params_for(model: Network) -> Any:
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: rng.normal(0, 0.3, leaf.shape).astype(np.float32), shapes)


def recipe_for(case: Case, threads: int = 1, optimiser: Optimiser | None = None, **training: Any) -> Recipe:
    settings = Training(**{"batch": case.batch, "epochs": 2, **training})
    return Recipe(
        model=case.model,
        task=case.task,
        training=settings,
        engine=Engine(name="native", threads=threads),
        optimiser=optimiser or Optimiser(),
    )


def native(recipe: Recipe, samples: Any) -> NativeEngine:
    large = recipe.model in [case.model for case in LARGE_TABLE.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LARGE_TABLE", 1 if large else plan.LARGE_TABLE)
        return NativeEngine(recipe, samples, pytest.fail)


def order(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(3).permutation(count).astype(np.int32)]


def both_gradients(recipe: Recipe, samples: Any, step: int) -> tuple[Any, Any]:
    engine, referee = native(recipe, samples), JaxEngine(recipe, samples, (recipe.training.seed,))
    params = params_for(recipe.network)
    ours = engine.gradient(params, engine.batches(order(engine.count), 1), step)
    compiled = jax.jit(loss_of_step, static_argnums=0, compiler_options=QUICKLY)
    return ours, compiled(recipe, params, referee.batches(order(engine.count), 1), step)


def must_agree(ours: Any, truth: Any, but: tuple[str, ...] = ()) -> None:
    """Of what is frozen, C has no gradient."""
    assert ours[0] == pytest.approx(float(truth[0]), rel=1e-5)
    mine, theirs = (
        {name: leaf for name, leaf in named_leaves(one[1]).items() if name not in but} for one in (ours, truth)
    )
    assert error(mine, theirs) <= 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_the_jax_engine(name: str) -> None:
    """In the last step, which has fewer samples than a batch and than go through together."""
    samples = samples_for(CASES[name])
    steps = -(-CASES[name].task.count(samples) // CASES[name].batch)
    must_agree(*both_gradients(recipe_for(CASES[name], 2), samples, steps - 1))


ATTEND = Attention(dropout=0.25)
DROPPING = {
    "gpt": Case(gpt(dropout=0.3), NextToken()),
    "bert": Case(bert_for("classify", dropout=0.2), Classify()),
    "gpt, attention": Case(gpt(text=Text(V, 71), dropout=0.1, attend=ATTEND, window=40), NextToken(), 4),
    "bert, attention": Case(bert_for("tag", dropout=0.1, attend=ATTEND), Tag()),
}


@pytest.mark.parametrize("name", ["gpt, attention", *(pytest.param(n, marks=pytest.mark.slow) for n in DROPPING)])
def test_dropout_drops_what_the_jax_engine_drops(name: str) -> None:
    """With several batches in a step, each of which has keys of its own; the last step has one, and that is smaller."""
    case = DROPPING[name]
    for step in (0, 1):
        must_agree(*both_gradients(recipe_for(case, 2, accumulate=2), samples_for(case), step))


OPTIMISERS = {
    "sgd, clipped": Optimiser(lr=0.3, clip=0.2),
    "momentum": Optimiser(name="momentum", lr=0.05, momentum=0.8),
    "adam": Optimiser(name="adam", lr=0.01, b1=0.8, b2=0.99, schedule=Schedule(kind="warmup-cosine")),
    "adamw, matrices": Optimiser(name="adamw", lr=0.01, weight_decay=0.1, clip=0.5, decay="matrices"),
    "groups": Optimiser(name="adamw", lr=0.01, weight_decay=0.1, clip=0.5, groups=(Group("*norm*", 0.5),)),
    "frozen": Optimiser(name="adamw", lr=0.01, weight_decay=0.1, clip=0.5, freeze=("embed.*", "*.w_up", "*.b_o")),
}


def curves(recipe: Recipe, samples: Any) -> tuple[list[float], list[float], list[Any]]:
    """The losses of ten steps in two epochs, ours and the jax engine's; and both states."""
    found, states = [], []
    for engine in (native(recipe, samples), JaxEngine(recipe, samples, (recipe.training.seed,))):
        state, losses = engine.start(jax.tree.map(np.array, params_for(recipe.network))), []
        for epoch in (1, 2):
            batches: Any = engine.batches(order(engine.count), epoch)
            state, part = engine.run(state, batches, 0, engine.steps)
            losses += part.tolist()
        found.append(losses)
        states.append(state)
    return found[0], found[1], states


@pytest.mark.parametrize("name", OPTIMISERS)
def test_ten_steps_are_those_of_the_jax_engine(name: str) -> None:
    """With averaged weights; frozen ones stay to the bit."""
    case = CASES["gpt"]._replace(batch=5)
    recipe, samples = recipe_for(case, 2, OPTIMISERS[name], ema=0.8), samples_for(case)
    ours, truth, (state, true_state) = curves(recipe, samples)
    np.testing.assert_allclose(ours, truth, rtol=1e-4)
    assert len(ours) == 10
    assert jax.tree.structure(state) == jax.tree.structure(true_state)
    for mine, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(true_state), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-2, atol=2e-3)
    if name == "frozen":
        before = params_for(recipe.model)
        assert bits(state.params.embed) == bits(before.embed)
        assert bits(state.params.blocks[0].ff.w_up) == bits(before.blocks[0].ff.w_up)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "gpt"])
def test_ten_steps_of_every_task(name: str) -> None:
    case = CASES[name]._replace(batch=5)
    optimiser = Optimiser(name="adamw", lr=0.003, weight_decay=0.1, clip=1.0)
    ours, truth, _ = curves(recipe_for(case, 2, optimiser), samples_for(case))
    np.testing.assert_allclose(ours, truth, rtol=1e-4)


@pytest.mark.parametrize(
    "name",
    ["gpt", *(pytest.param(one, marks=pytest.mark.slow) for one in ("gpt, large weights", "llama, large tables"))],
)
def test_any_number_of_threads_gives_the_same_bits_and_a_run_may_be_cut_anywhere(name: str) -> None:
    case = CASES[name]._replace(batch=5)
    optimiser, samples, found = Optimiser(name="adamw", lr=0.01, clip=0.5), samples_for(case), []
    for threads, cuts in ((1, (0, 5)), (2, (0, 2, 5)), (3, (0, 5)), (5, (0, 4, 5))):
        engine = native(recipe_for(case, threads, optimiser, ema=0.9), samples)
        batches, state, losses = engine.batches(order(engine.count), 1), engine.start(params_for(case.model)), []
        for first, last in pairwise(cuts):
            state, some = engine.run(state, batches, first, last)
            losses += some.tolist()
        found.append((bits(state), losses))
    assert all(one == found[0] for one in found)


TUNED = {
    "head": ("bert, tag", Head()),
    "bias": ("bert, tag", Bias(also=("head.*",))),
    "lora": ("llama, large tables", LowRank(rank=3, targets=("*.w_q", "*.w_down"), also=("head.*",))),
    "lora, its base too": ("gpt", LowRank(rank=2, targets=("*.w_v", "*.w_up"), also=("blocks.0.*",))),
}


@pytest.mark.parametrize(
    "name", ["lora", *(pytest.param(one, marks=pytest.mark.slow) for one in TUNED if one != "lora")]
)
def test_tuning_a_part(name: str) -> None:
    case, tune = CASES[TUNED[name][0]]._replace(batch=5), TUNED[name][1]
    optimiser = Optimiser(name="adamw", lr=0.01, weight_decay=0.1, clip=0.5)
    recipe, samples = replace(recipe_for(case, 2, optimiser, ema=0.8), tune=tune), samples_for(case)
    ours, truth, (state, true_state) = curves(recipe, samples)
    np.testing.assert_allclose(ours, truth, rtol=1e-4)
    assert jax.tree.structure(state) == jax.tree.structure(true_state)
    must_agree(*both_gradients(replace(recipe, tune=tune), samples, 0), but=recipe.learning.freeze)
    before, after = (tune.base(params) for params in (params_for(recipe.network), state.params))
    embed = [getattr(params, "bert", params).embed for params in (before, after)]
    assert bits(embed[0]) == bits(embed[1])
    scores = (
        engine.score(state.params, samples) for engine in (native(recipe, samples), JaxEngine(recipe, samples, (1,)))
    )
    np.testing.assert_allclose(*scores, rtol=1e-5)


def test_scores_are_those_of_the_jax_engine() -> None:
    case = CASES["gpt"]
    recipe, samples, params = recipe_for(case), samples_for(case), params_for(case.model)
    truth = JaxEngine(recipe, samples, (1,)).score(params, samples)
    np.testing.assert_allclose(native(recipe, samples).score(params, samples), truth, rtol=1e-5)
    compiled = compiled_tally.cache_info().misses
    native(recipe_for(case, optimiser=Optimiser(lr=0.5)), samples).score(params, samples)
    assert compiled_tally.cache_info().misses == compiled  # once, however many runs a process trains


def test_an_id_outside_the_table_shows_in_the_loss() -> None:
    case = CASES["gpt"]
    samples = samples_for(case)
    samples.ids[7] = V
    engine = native(recipe_for(case), samples)
    losses = [engine.gradient(params_for(case.model), engine.batches(order(engine.count), 1), i)[0] for i in range(3)]
    assert np.isnan(losses).any()


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        (gpt(window=4, global_tokens=1), {}, r"no attention with global tokens yet \(blocks\.0\.attn\)"),
        (
            gpt(),
            {"tune": LowRank(targets=("embed.emb",))},
            r"LoRA of matrices that are multiplied with, and embed\.emb is",
        ),
        (gpt(), {"training": Training(steps=3, batch=2)}, r"trains epochs of data in memory \(training\.steps\)"),
        (bert_for("contrast"), {"task": TASKS["contrast"]()}, r"no MaskedMeanPool yet \(head\.pool\)"),
    ],
    ids=["global tokens", "lora", "stream", "contrast"],
)
def test_one_line_says_what_has_no_c(
    model: Any, change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And jax trains it."""
    recipe = replace(Recipe(model=model, task=TASKS[model.tasks[0]]()), **change)
    heard: list[str] = []
    monkeypatch.setattr(engines, "jax_engine", lambda *given: "jax")
    assert engines.choose(recipe, None, heard.append) == "jax"
    (line,) = heard
    assert line.startswith("engine jax: the native engine ")
    with pytest.raises(EngineError, match=message):
        engines.choose(replace(recipe, engine=Engine(name="native")), None, heard.append)


def test_more_numbers_than_c_can_count() -> None:
    wide = GPT(text=Text(1 << 20, 8), width=2048, hidden=8, heads=8, depth=1)
    with pytest.raises(EngineError, match=r"models of up to 2\^31 numbers, and 2,164,332,552 weights came"):
        source(plan_for(wide, 1))
    long = GPT(text=Text(9, 2_000_000), width=64, hidden=256, heads=1, depth=4)
    with pytest.raises(EngineError, match="10,906,000,000 activations of the samples that go through together came"):
        source(plan_for(long, 1))


def test_padding_with_shorter_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a padded mask are as long as the processor's vectors make them: scalar C, of several samples."""
    monkeypatch.setattr(build, "processor_flag", lambda: "-DGF_SCALAR")
    case, samples = CASES["bert, masked"], samples_for(CASES["bert, masked"])
    must_agree(*both_gradients(recipe_for(case, 2), samples, 0))
