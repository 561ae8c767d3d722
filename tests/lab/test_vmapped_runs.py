"""Many runs as one program find what each finds alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from glassformer.errors import FileError
from glassformer.lab import gpu_study
from glassformer.lab.asked import cells_of
from glassformer.lab.one_run import Outcome, loaded, looked_into, train_one
from glassformer.lab.plan import load_plan
from glassformer.lab.record import Record, Results
from glassformer.lab.run import investigate
from glassformer.lab.vmapped_runs import Runs, SharedEngine, shape_of
from glassformer.layers.positions import Sinusoidal, Uniform, Zero
from glassformer.models import MLP, PatchAttention, ViT
from glassformer.models.images import Images
from glassformer.train.loop import split
from glassformer.train.optimiser import Optimiser, Schedule
from glassformer.train.recipe import Engine, Recipe, Training, Validation
from glassformer.train.resolve import resolved
from glassformer.train.rng import compiled_init

from ..train.small import small_data, write_npz
from .small import FACTORS, numbers_of, small_plan

POOL = Recipe(model=PatchAttention(width=6, hidden=10), optimiser=Optimiser(lr=0.2), engine=Engine(name="jax"))
FAST = "an MLP"
CASES = {
    "sgd": POOL,
    "nothing held out": replace(POOL, validation=Validation(share=0.0)),
    "momentum": replace(
        POOL,
        optimiser=Optimiser(name="momentum", lr=0.05, momentum=0.8, clip=0.5, schedule=Schedule("step", factor=0.3)),
    ),
    "adamw": Recipe(
        model=ViT(width=6, hidden=10, heads=2, dropout=0.2),
        training=Training(shift=1, label_smoothing=0.1),
        optimiser=Optimiser(name="adamw", lr=0.02, weight_decay=0.3, schedule=Schedule("warmup-cosine", final=0.1)),
        engine=Engine(name="jax"),
    ),
    FAST: Recipe(
        model=MLP(hidden=(7,)),
        training=Training(shift=1),
        optimiser=Optimiser(name="momentum", lr=0.05, schedule=Schedule("cosine")),
        engine=Engine(name="jax"),
    ),
    "xorshift": replace(POOL, engine=Engine(name="jax", rng="xorshift")),
}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(write_npz(tmp_path / "small.npz", small_data()))


def variants(recipe: Recipe, data: str, **changes: Sequence[Any]) -> list[Recipe]:
    """One for each value, all of one shape: seeds and rates as given, starts of positions."""
    made = []
    for seed, rate, start in zip(changes["seed"], changes["rate"], changes["start"], strict=True):
        training = replace(recipe.training, epochs=3, batch=10, seed=seed)
        optimiser = replace(recipe.optimiser, lr=rate * recipe.optimiser.lr)
        model: Any = recipe.model if isinstance(recipe.model, MLP) else replace(recipe.model, start=start)  # pyright: ignore
        made.append(replace(recipe, data=data, training=training, optimiser=optimiser, model=model))
    return [resolved(one, loaded(one)) for one in made]


def both(recipes: list[Recipe]) -> list[tuple[Record, Record]]:
    """Each together with the others, and alone."""
    keys = [f"cell {i}" for i in range(len(recipes))]
    data = loaded(recipes[0])
    train, held_out = split(recipes[0], data)
    runs = Runs(keys, recipes, SharedEngine(shape_of(recipes[0]), train, len(keys)), held_out)
    runs.start()
    shown = train if held_out is None else held_out
    records = {one.record.key: looked_into(one, shown) for ended in runs.finish(data.test) for one in ended}
    return [(records[key], train_one(key, recipe)) for key, recipe in zip(keys, recipes, strict=True)]


def must_agree(together: Record, alone: Record) -> None:
    exact = ("key", "seed", "failed", "steps", "parameters", "engine", "machine")
    assert {name: getattr(together, name) for name in exact} == {name: getattr(alone, name) for name in exact}
    assert together.loss == pytest.approx(alone.loss, rel=1e-4)
    assert together.validation == pytest.approx(alone.validation)
    assert together.test == pytest.approx(alone.test)
    assert together.inside.keys() == alone.inside.keys()
    for name, value in alone.inside.items():
        assert together.inside[name] == pytest.approx(value, rel=0.02, abs=1e-4), name


@pytest.mark.parametrize(
    "case", [FAST, *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case != FAST)]
)
def test_a_run_among_others_is_what_it_is_alone(case: str, data: str) -> None:
    recipes = variants(CASES[case], data, seed=[1, 2], rate=[1.0, 3.0], start=[Sinusoidal(), Zero()])
    found = both(recipes)
    for together, alone in found:
        must_agree(together, alone)
    assert found[0][0].loss != found[1][0].loss


@pytest.mark.slow
def test_a_run_that_diverges_is_recorded_and_the_others_do_not_notice(data: str) -> None:
    recipes = variants(POOL, data, seed=[1, 1, 2], rate=[1.0, 1e25, 1.0], start=[Uniform()] * 3)
    found = both(recipes)
    for together, alone in found:
        must_agree(together, alone)
    assert [bool(together.failed) for together, _ in found] == [False, True, False]
    broken = found[1][0]
    assert broken.test is None
    assert broken.inside == {}
    assert len(broken.loss) == len(broken.validation) == int(broken.failed[-1]) - 1


def test_weights_that_are_not_finite_count_before_any_loss_shows_it(data: str) -> None:
    """Every epoch is one step, after which the first weights are infinite; the loss was still a number."""
    recipe = replace(POOL, model=MLP(hidden=(7,), images=Images(std=1e-3)), optimiser=Optimiser(lr=3e38))
    recipes = variants(recipe, data, seed=[1, 1], rate=[1.0, 1e-45], start=[Uniform()] * 2)
    recipes = [replace(one, training=replace(one.training, batch=103)) for one in recipes]
    (broken, alone), (sound, _) = both(recipes)
    assert (broken.failed, broken.loss) == (alone.failed, alone.loss) == ("not finite in epoch 1", ())
    assert sound.failed == ""


MLPS = Recipe(model=MLP(hidden=(7,)), optimiser=Optimiser(lr=0.05), engine=Engine(name="jax"))
ADAMW = Optimiser(name="adamw", lr=0.01, weight_decay=0.1, clip=0.5)
NUMBERS = {
    "sgd": [
        Optimiser(lr=0.05),
        Optimiser(lr=0.2, schedule=Schedule("step", factor=0.3)),
        Optimiser(name="momentum", lr=0.05, momentum=0.5),
        Optimiser(name="momentum", lr=0.02, momentum=0.9, schedule=Schedule("warmup-cosine", final=0.1)),
    ],
    "adam": [
        ADAMW,
        replace(ADAMW, weight_decay=0.4, b1=0.8, clip=0.1, schedule=Schedule("exponential")),
        replace(ADAMW, name="adam", weight_decay=0.0, b2=0.9),
    ],
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_each_run_of_a_program_has_numbers_of_its_own(kind: str, data: str) -> None:
    """Two of them go on for longer, in a program of their own size."""
    recipes = [replace(MLPS, data=data, optimiser=optimiser) for optimiser in NUMBERS[kind]]
    epochs = [2, 5, 1, 4]
    recipes = [
        replace(one, training=Training(epochs=many, batch=10, label_smoothing=0.1 * many, seed=many))
        for one, many in zip(recipes, epochs, strict=False)
    ]
    assert len({shape_of(one) for one in recipes}) == 1
    found = both([resolved(one, loaded(one)) for one in recipes])
    for (together, alone), many in zip(found, epochs, strict=False):
        must_agree(together, alone)
        assert len(together.loss) == many
        assert together.loss == pytest.approx(alone.loss, rel=1e-6 if kind == "sgd" else 1e-5)  # Adam divides by roots
    assert len({together.loss[0] for together, _ in found}) == len(recipes)


def test_programs_are_compiled_before_they_are_needed(data: str) -> None:
    """Of all sizes; while runs are trained nothing is compiled."""
    recipes = [replace(MLPS, data=data, training=Training(epochs=many, batch=10)) for many in (1, 1, 1, 3, 3)]
    recipes = [resolved(one, loaded(one)) for one in recipes]
    given = loaded(recipes[0])
    train, held_out = jax.device_put(split(recipes[0], given))
    engine = SharedEngine(shape_of(recipes[0]), train, len(recipes))
    runs = Runs(["a", "b", "c", "d", "e"], recipes, engine, held_out)
    assert runs.sizes() == [5, 2]
    test = jax.device_put(given.test)
    for size in runs.sizes():
        engine.compile(size, [held_out, test])
    runs.start()
    compiled: list[str] = []

    def hear(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(hear)
    try:
        assert [len(ended) for ended in runs.finish(test)] == [3, 2]
    finally:
        jax.monitoring.unregister_event_duration_listener(hear)
    assert compiled == []


def test_what_one_program_can_train() -> None:
    shape = shape_of(POOL)
    same = [
        replace(POOL, training=replace(POOL.training, seed=9)),
        replace(POOL, training=replace(POOL.training, epochs=9)),
        replace(POOL, optimiser=replace(POOL.optimiser, lr=0.7)),
        replace(POOL, optimiser=replace(POOL.optimiser, name="momentum")),
        replace(POOL, optimiser=replace(POOL.optimiser, schedule=Schedule("cosine"))),
        replace(POOL, model=PatchAttention(width=6, hidden=10, start=Sinusoidal())),
    ]
    other = [
        replace(POOL, training=replace(POOL.training, batch=9)),
        replace(POOL, training=replace(POOL.training, label_smoothing=0.1)),
        replace(POOL, optimiser=replace(POOL.optimiser, name="adamw")),
        replace(POOL, optimiser=replace(POOL.optimiser, clip=1.0)),
        replace(POOL, model=PatchAttention(width=8, hidden=10)),
        replace(POOL, validation=Validation(share=0.2)),
    ]
    assert all(shape_of(one) == shape for one in same)
    assert all(shape_of(one) != shape for one in other)
    lions = [replace(POOL, optimiser=Optimiser(name="lion", lr=rate)) for rate in (0.1, 0.2)]
    assert shape_of(lions[0]) != shape_of(lions[1])  # nobody knows how another optimiser uses its rate


def test_how_many_programs_a_study_takes() -> None:
    """Of 696 runs. Where rates and starts of positions alone were shared, it took more."""
    study = Path(__file__).parents[2] / "studies" / "attention-accuracy"
    cells = cells_of(load_plan("attention-accuracy"), Results(study))
    assert len(cells) == 58
    assert len({shape_of(cell.recipe) for cell in cells}) == 31


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """As far as the study can tell. Of how many runs each program was compiled for.

    What is compiled meanwhile is compiled as for a GPU, and rounds otherwise: nobody else must find it.
    """
    sizes: list[int] = []
    compile_ = SharedEngine.compile

    def counted(engine: SharedEngine, runs: int, scored: Any) -> None:
        sizes.append(runs)
        compile_(engine, runs, scored)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(SharedEngine, "compile", counted)
    compiled_init.cache_clear()
    yield sizes
    compiled_init.cache_clear()


def made_up(key: str, recipe: Recipe, *_: object) -> Record:
    return Record(key, recipe.training.seed, loss=(1.0,), validation=(0.5,), test=0.5, steps=1, parameters=1)


@pytest.mark.slow
def test_a_study_on_a_gpu_finds_what_it_finds_in_processes(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(tmp_path, FACTORS, engine="jax")
    study = investigate(plan, tmp_path / "gpu")
    assert sorted(on_a_gpu) == [7, 7, 14]  # two rates; the other batch, and then both together
    monkeypatch.undo()
    compiled_init.cache_clear()
    expected = investigate(plan, tmp_path / "cpu", jobs=1)
    mine, theirs = numbers_of(tmp_path / "gpu"), numbers_of(tmp_path / "cpu")
    assert mine.keys() == theirs.keys()
    for place, numbers in theirs.items():
        assert mine[place]["loss"] == pytest.approx(numbers["loss"], rel=1e-4)
        assert mine[place]["validation"] == numbers["validation"]
        assert mine[place]["test"] == numbers["test"]
        assert mine[place]["inside"] == numbers["inside"]
    assert study.answer == expected.answer


RATE = '[factors.fast]\nset = { "optimiser.lr" = 0.02 }'


def made_up_outcomes(runs: Runs, test: Any) -> Iterator[list[Outcome]]:
    pairs = zip(runs.keys, runs.recipes, strict=True)
    yield [Outcome(replace(made_up(key, recipe), failed="made up"), recipe, None) for key, recipe in pairs]


@pytest.mark.parametrize("budget", [None, 3600.0])
def test_a_program_holds_so_many_runs_and_the_rest_come_after(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch, budget: float | None
) -> None:
    monkeypatch.setattr(gpu_study, "AT_ONCE", 4)
    monkeypatch.setattr(Runs, "finish", made_up_outcomes)
    monkeypatch.setattr(SharedEngine, "compile", lambda engine, runs, scored: on_a_gpu.append(runs))
    investigate(small_plan(tmp_path, RATE, head="seeds = 3"), tmp_path / "study", budget=budget)
    assert sorted(on_a_gpu) == [2, 4]
    assert len(numbers_of(tmp_path / "study")) == 6


@pytest.mark.parametrize("fails", ["compile", "finish"])
def test_where_they_do_not_go_together_each_is_run_alone(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def too_large(*_: object) -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(SharedEngine, "compile", lambda engine, runs, scored: None)
    monkeypatch.setattr(SharedEngine if fails == "compile" else Runs, fails, too_large)
    monkeypatch.setattr(gpu_study, "train_one", made_up)
    investigate(small_plan(tmp_path, RATE, head="seeds = 3"), tmp_path / "study")
    found = numbers_of(tmp_path / "study")
    assert len(found) == 6
    assert not any(record["failed"] for record in found.values())


def test_what_goes_wrong_while_it_is_written_ends_the_study(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise FileError("no space")

    monkeypatch.setattr(SharedEngine, "compile", lambda engine, runs, scored: None)
    monkeypatch.setattr(Runs, "finish", made_up_outcomes)
    monkeypatch.setattr(Results, "add", full)
    with pytest.raises(FileError, match="no space"):
        investigate(small_plan(tmp_path, RATE, head="seeds = 3"), tmp_path / "study")


TUNED = """
tune = { "optimiser.lr" = [0.01, 0.02] }
tune_seeds = 2
seeds = 3
looks = [3]
"""


def scored_outcomes(runs: Runs, test: Any) -> Iterator[list[Outcome]]:
    """The larger rate is better."""
    for key, recipe in zip(runs.keys, runs.recipes, strict=True):
        score = 0.5 + 10 * recipe.optimiser.lr
        yield [Outcome(replace(made_up(key, recipe), validation=(score,), outcome="ok"), recipe, None)]


def test_arms_are_tuned_on_a_gpu_and_a_grid_is_one_program(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runs, "finish", scored_outcomes)
    monkeypatch.setattr(gpu_study, "looked_into", lambda outcome, shown: outcome.record)
    monkeypatch.setattr(SharedEngine, "compile", lambda engine, runs, scored: on_a_gpu.append(runs))
    plan = small_plan(tmp_path, '[factors.batch]\nset = { "training.batch" = 5 }', head=TUNED, engine="jax")
    study = investigate(plan, tmp_path / "study")
    assert sorted(on_a_gpu) == [3, 3, 4, 4]  # two arms: two rates with two seeds, then three seeds
    assert {one.cell.recipe.optimiser.lr for one in study.cells} == {0.02}
    assert len(numbers_of(tmp_path / "study")) == 2 * 2 * 2 + 2 * 3
