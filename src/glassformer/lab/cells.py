"""Cells: a recipe without its seed. A comparison is two cells, with and without something, seed by seed.

add       baseline + on + factor          against  baseline + on
top       first choice + factor           against  first choice: what helps only where the strongest are in place
best      first choice + what helps on top of it (all chosen on validation, one of each subject)
remove    best - one of its factors       against  best, turned round: what the factor is worth where all others are
pair      baseline + a + b                interaction = (ab - a) - (b - baseline)

Cells with the same recipe are one cell, whatever they are called: computed once, and used everywhere.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal

from glassformer.errors import SettingError
from glassformer.lab.data_identity import identity, identity_of_run
from glassformer.lab.plan import MAIN, Plan
from glassformer.train.augment import Augment
from glassformer.train.recipe import Recipe
from glassformer.train.settings import to_plain

Kind = Literal["add", "top", "remove", "pair"]
# Settings that came later, at what was done before them: a cell keeps its key, and its results.
ADDED = (
    ("optimiser", "decay", "all"),
    ("optimiser", "groups", []),
    ("optimiser", "freeze", []),
    ("training", "accumulate", 1),
    ("training", "ema", 0.0),
    ("training", "steps", 0),
    ("training", "score_every", 1000),
    ("engine", "precision", "float32"),
    ("training", "augment", to_plain(Augment())),
    *((part, "multiple", 1) for part in ("model.text", "model.bert.text")),
    *(
        (model, name, default)
        for model in ("model", "model.bert")
        for name, default in (
            ("attend", {"kind": "plain", "dropout": 0.0}),
            ("global_tokens", 0),
            ("checkpoint", False),
            ("first_position", 0),
            ("pooler", {"kind": "tanh"}),
        )
    ),
    ("model", "distillation", "none"),
    ("model.head", "activation", {"kind": "tanh"}),
)


@dataclass(frozen=True)
class Cell:
    factors: tuple[str, ...]  # in the plan's order
    group: str
    recipe: Recipe
    data: str = ""  # by its content, where that is known without looking

    @property
    def title(self) -> str:
        return " + ".join(self.factors) or "baseline"

    @cached_property
    def key(self) -> str:
        """The same for the same training, on any machine."""
        return key_of(self.recipe, self.data)


@dataclass(frozen=True)
class Comparison:
    kind: Kind
    factors: tuple[str, ...]  # what is compared: one, of a pair two
    group: str
    without: Cell
    with_: Cell


def key_of(recipe: Recipe, data: str = "") -> str:
    """Of what decides the numbers. Which engine computes them, on how many threads, does not; nor where data lies."""
    return hashed(replace(recipe, data=data or identity(recipe.data), start=identity_of_run(recipe.start)))


def key_by_path(recipe: Recipe) -> str:
    """As earlier releases made it: of data of one's own, its path."""
    return hashed(recipe)


def hashed(recipe: Recipe) -> str:
    plain = to_plain(replace(recipe, training=replace(recipe.training, seed=0)))
    plain["engine"] = {"rng": recipe.engine.rng, "precision": recipe.engine.precision}
    if plain["tune"] == {"kind": "full"}:
        del plain["tune"]
    for part, name, default in ADDED:
        settings = reduce(lambda inner, word: inner.get(word, {}), part.split("."), plain)
        if settings.get(name) == default:
            del settings[name]
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()[:16]


def cell(plan: Plan, factors: Iterable[str], group: str = MAIN) -> Cell:
    names, made = plan.in_order(factors), plan.cells
    if (names, group) not in made:
        recipe = plan.recipe(names, group)
        known = plan.identity if recipe.data == plan.baseline.data else ""
        made[names, group] = Cell(names, group, recipe, known)
    return made[names, group]


def additions(plan: Plan) -> list[Comparison]:
    """Every factor against its reference. A factor that changes nothing there is refused."""
    found = []
    for factor in plan.factors:
        without, with_ = (cell(plan, names, factor.group) for names in (factor.on, (*factor.on, factor.name)))
        if without.key == with_.key:
            raise SettingError(
                f"{plan.name}: factor {factor.name!r} changes nothing: {dict(factor.changes)} is what "
                f"{without.title!r} has already; change it to another value, or leave it out"
            )
        found.append(Comparison("add", (factor.name,), factor.group, without, with_))
    return found


def on_top(plan: Plan, first: Cell) -> list[Comparison]:
    """Every factor of a subject that the first choice leaves free, added to it."""
    taken = {plan.subject_of(plan.by_name[name]) for name in first.factors}
    free = [one for one in plan.ranked if one.combine and not one.on and plan.subject_of(one) not in taken]
    found = [Comparison("top", (one.name,), MAIN, first, cell(plan, (*first.factors, one.name))) for one in free]
    return [one for one in found if one.with_.key != first.key]


def removals(plan: Plan, best: Cell) -> list[Comparison]:
    """What each factor is worth where all the others are. `with_` is the best."""
    found = []
    for name in best.factors:
        without = cell(plan, (one for one in best.factors if one != name), best.group)
        found.append(Comparison("remove", (name,), best.group, without, best))
    return found


def pairs(plan: Plan, strongest: list[str]) -> list[Comparison]:
    """Every two of the strongest, together; `without` is the baseline."""
    base = cell(plan, ())
    names = [(a, b) for i, a in enumerate(strongest) for b in strongest[i + 1 :]]
    return [Comparison("pair", two, MAIN, base, cell(plan, two)) for two in names]
