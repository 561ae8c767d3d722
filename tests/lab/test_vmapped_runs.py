"""Many runs as one program find what each finds alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from glassformer.lab import run, vmapped_runs
from glassformer.lab.one_run import loaded, train_one
from glassformer.lab.record import Record
from glassformer.lab.run import investigate
from glassformer.lab.vmapped_runs import shape_of, train_vmapped
from glassformer.layers.positions import Sinusoidal, Uniform, Zero
from glassformer.models import MLP, PatchAttention, ViT
from glassformer.models.images import Images
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
    together = train_vmapped(keys, recipes, loaded(recipes[0]))
    return list(zip(together, map(train_one, keys, recipes), strict=True))


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


def test_what_one_program_can_train(data: str) -> None:
    shape = shape_of(POOL)
    same = [
        replace(POOL, training=replace(POOL.training, seed=9)),
        replace(POOL, optimiser=replace(POOL.optimiser, lr=0.7)),
        replace(POOL, model=PatchAttention(width=6, hidden=10, start=Sinusoidal())),
    ]
    other = [
        replace(POOL, training=replace(POOL.training, batch=9)),
        replace(POOL, training=replace(POOL.training, epochs=9)),
        replace(POOL, optimiser=replace(POOL.optimiser, name="momentum")),
        replace(POOL, optimiser=replace(POOL.optimiser, schedule=Schedule("cosine"))),
        replace(POOL, model=PatchAttention(width=8, hidden=10)),
        replace(POOL, validation=Validation(share=0.2)),
    ]
    assert all(shape_of(one) == shape for one in same)
    assert all(shape_of(one) != shape for one in other)
    lions = [replace(POOL, optimiser=Optimiser(name="lion", lr=rate)) for rate in (0.1, 0.2)]
    assert shape_of(lions[0]) != shape_of(lions[1])  # nobody knows how another optimiser uses its rate
    assert data


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """As far as the study can tell. How many runs each program had.

    What is compiled meanwhile is compiled as for a GPU, and rounds otherwise: nobody else must find it.
    """
    sizes: list[int] = []

    def counted(keys: Any, recipes: Any, data: Any) -> list[Record]:
        sizes.append(len(keys))
        return vmapped_runs.train_vmapped(keys, recipes, data)

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(run, "train_vmapped", counted)
    compiled_init.cache_clear()
    yield sizes
    compiled_init.cache_clear()


def made_up(key: str, recipe: Recipe) -> Record:
    return Record(key, recipe.training.seed, loss=(1.0,), validation=(0.5,), test=0.5, steps=1, parameters=1)


@pytest.mark.slow
def test_a_study_on_a_gpu_finds_what_it_finds_in_processes(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(tmp_path, FACTORS, engine="jax")
    study = investigate(plan, tmp_path / "gpu")
    assert on_a_gpu == [14, 7, 7]  # two rates, then the other batch, then both together
    monkeypatch.undo()
    compiled_init.cache_clear()
    expected = investigate(plan, tmp_path / "cpu", jobs=1)
    mine, theirs = numbers_of(tmp_path / "gpu"), numbers_of(tmp_path / "cpu")
    assert mine.keys() == theirs.keys()
    for place, numbers in theirs.items():
        assert mine[place]["loss"] == pytest.approx(numbers["loss"], rel=1e-4)
        assert mine[place]["validation"] == numbers["validation"]
        assert mine[place]["test"] == numbers["test"]
    assert study.answer == expected.answer


RATE = '[factors.fast]\nset = { "optimiser.lr" = 0.02 }'


def test_a_program_holds_so_many_runs_and_the_rest_come_after(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "AT_ONCE", 4)
    monkeypatch.setattr(vmapped_runs, "train_vmapped", lambda keys, recipes, _: list(map(made_up, keys, recipes)))
    investigate(small_plan(tmp_path, RATE, head="seeds = 3"), tmp_path / "study")
    assert on_a_gpu == [4, 2]
    assert len(numbers_of(tmp_path / "study")) == 6


def test_where_they_do_not_go_together_each_is_run_alone(
    tmp_path: Path, on_a_gpu: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object) -> None:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")

    monkeypatch.setattr(vmapped_runs, "train_vmapped", too_large)
    monkeypatch.setattr(run, "train_one", made_up)
    investigate(small_plan(tmp_path, RATE, head="seeds = 3"), tmp_path / "study")
    found = numbers_of(tmp_path / "study")
    assert len(found) == 6
    assert not any(record["failed"] for record in found.values())
    assert on_a_gpu == [6]
