"""Cells: which recipes a plan asks for, and which of them are one and the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import SettingError
from glassformer.lab.asked import cells_of
from glassformer.lab.cells import additions, cell, key_by_path, key_of, on_top, pairs, removals
from glassformer.lab.data_identity import identity
from glassformer.lab.record import Results
from glassformer.models import MLP
from glassformer.train.loop import with_seed
from glassformer.train.recipe import Recipe
from glassformer.train.settings import with_change

from ..train.small import small_data, write_npz
from .small import small_plan

FACTORS = """
[factors.fast]
subject = "rate"
set = { "optimiser.lr" = 0.3 }

[factors.faster]
subject = "rate"
set = { "optimiser.lr" = 0.9 }

[factors."fast again"]
subject = "rate"
set = { "optimiser.lr" = 0.3 }

[factors.batch]
set = { "training.batch" = 5 }

[factors."batch, fast"]
on = ["fast"]
set = { "training.batch" = 5 }

[factors.wide]
combine = false
set = { "model.hidden" = [9] }
"""


def test_a_key_is_what_decides_the_numbers_and_nothing_else(tmp_path: Path) -> None:
    recipe = small_plan(tmp_path).baseline
    key = key_of(recipe)
    assert key_of(with_seed(recipe, 77)) == key
    for name, value in (("engine.name", "jax"), ("engine.threads", 3)):
        assert key_of(with_change(recipe, name, value, name)) == key
    changes = {
        "training.epochs": 3, "training.batch": 11, "optimiser.lr": 0.02, "model.hidden": [6], "engine.rng": "xorshift",
        "data": "mnist-mini", "validation.share": 0.2, "optimiser.schedule.kind": "cosine", "training.subset": 50,
    }  # fmt: skip
    keys = {key_of(with_change(recipe, name, value, name)) for name, value in changes.items()}
    assert len(keys) == len(changes)
    assert key not in keys


def test_a_key_stays_the_same_from_release_to_release() -> None:
    """Results on the disk are found by it: a new setting of recipes must not orphan them unnoticed."""
    assert key_of(Recipe(model=MLP(hidden=(7,)))) == "d97dd718085afbc8"


def test_each_factor_against_its_reference(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, FACTORS)
    found = {one.factors[0]: one for one in additions(plan)}
    assert list(found) == [factor.name for factor in plan.factors]
    assert found["batch"].without.title == "baseline"
    assert found["batch"].with_.recipe == replace(plan.baseline, training=replace(plan.baseline.training, batch=5))
    assert found["batch, fast"].without.factors == ("fast",)
    assert found["batch, fast"].with_.recipe.optimiser.lr == 0.3
    assert found["batch, fast"].with_.recipe.training.batch == 5


def test_the_same_recipe_is_one_cell_whatever_it_is_called(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, FACTORS)
    assert cell(plan, ["fast"]).key == cell(plan, ["fast again"]).key
    assert cell(plan, ["fast", "batch"]).key == cell(plan, ["fast", "batch, fast"]).key
    asked = cells_of(plan, Results(tmp_path / "nothing"))
    assert [one.title for one in asked] == ["baseline", "fast", "faster", "batch", "fast + batch, fast", "wide"]


def test_a_factor_without_effect_in_its_group_is_refused_there(tmp_path: Path) -> None:
    """It may well have one elsewhere."""
    group = '[groups.g]\nset = { "training.batch" = 5 }\n'
    plan = small_plan(tmp_path, group + '[factors.batch]\ngroup = "g"\nset = { "training.batch" = 5 }')
    with pytest.raises(SettingError, match=r"factor 'batch' changes nothing: \{'training.batch': 5\}"):
        additions(plan)


def test_on_top_of_the_first_choice_comes_what_its_subjects_leave_free(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, FACTORS)
    found = on_top(plan, cell(plan, ["fast"]))
    assert [one.factors for one in found] == [
        ("batch",)
    ]  # neither rates, nor what is on something, nor what is not combined
    assert found[0].without.factors == ("fast",)
    assert found[0].with_.factors == ("fast", "batch")
    assert on_top(plan, cell(plan, ["fast", "batch"])) == []


def test_removals_turn_round_what_pairs_put_together(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, FACTORS)
    best = cell(plan, ["batch", "fast"])
    assert best.title == "fast + batch"  # in the plan's order
    assert {one.factors: one.without.factors for one in removals(plan, best)} == {
        ("fast",): ("batch",),
        ("batch",): ("fast",),
    }
    assert all(one.with_ is best for one in removals(plan, best))
    crossed = pairs(plan, ["fast", "batch", "wide"])
    assert [one.factors for one in crossed] == [("fast", "batch"), ("fast", "wide"), ("batch", "wide")]
    assert all(one.without.title == "baseline" for one in crossed)


def test_precision_decides_the_numbers() -> None:
    recipe = Recipe(model=MLP())
    narrow = with_change(recipe, "engine.precision", "bf16", "")
    assert key_of(recipe) != key_of(narrow)
    assert key_of(recipe) == key_of(with_change(recipe, "engine.mesh", "data=2", ""))


def test_data_of_ones_own_is_what_is_in_it_wherever_it_lies(tmp_path: Path) -> None:
    recipe = small_plan(tmp_path).baseline
    moved = tmp_path / "another name.npz"
    moved.write_bytes(Path(recipe.data).read_bytes())
    assert key_of(replace(recipe, data=str(moved))) == key_of(recipe)
    assert key_by_path(replace(recipe, data=str(moved))) != key_by_path(recipe)
    write_npz(moved, small_data(count=104))
    assert key_of(replace(recipe, data=str(moved))) != key_of(recipe)
    known = replace(recipe, data="mnist-mini")
    assert key_of(known) == key_by_path(known)


def test_a_folder_of_data_is_its_files_and_their_names(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "zero").mkdir(parents=True)
        (tmp_path / place / "zero" / "1.png").write_bytes(b"one")
        (tmp_path / place / f".{place}").write_bytes(place.encode())  # hidden: an editor's, a desktop's
    assert identity(str(tmp_path / "a")) == identity(str(tmp_path / "b"))
    (tmp_path / "b" / "zero" / "1.png").rename(tmp_path / "b" / "zero" / "2.png")
    assert identity(str(tmp_path / "a")) != identity(str(tmp_path / "b"))
    assert identity(str(tmp_path / "none")) == str(tmp_path / "none")
