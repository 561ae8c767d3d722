"""A plan as TOML: what a study folder keeps of a plan that was derived, or changed on the command line."""

from collections.abc import Mapping
from typing import Any

import tomlkit

from glassformer.lab.plan import PAIRS, Factor, Group, Plan
from glassformer.train.settings import to_plain, to_toml

TEMPLATE = """\
# One line that says what this investigation is about.
question = "Why is my accuracy low?"
target = 0.95                          # what would be good enough
seeds = 10                             # the same in every cell; fewer cannot decide, many factors need more
pairs = 3                              # the strongest so many are tried together, too

[baseline]
preset = "vit-pico"                    # `glassformer train --list`; or recipe = "runs/vit-pico-1/recipe.toml"
set = { data = "mnist-mini", "training.epochs" = 5 }

[factors."rate x3"]
subject = "learning rate"              # of one subject only the best is combined with others
hypothesis = "the learning rate is too small"
set = { "optimiser.lr" = 3e-3 }

[factors."two blocks"]
subject = "depth"
hypothesis = "one block is not enough"
set = { "model.depth" = 2 }

[factors."positions ±0.5"]
subject = "positions"
hypothesis = "positions should start at random, not as waves"
set = { "model.start" = { kind = "uniform", limit = 0.5 } }
"""


def plan_text(plan: Plan) -> str:
    """`parse` reads it back as the same plan."""
    head: dict[str, Any] = {"question": plan.question, "seeds": list(plan.seeds)}
    if plan.target is not None:
        head["target"] = plan.target
    if plan.pairs != PAIRS:
        head["pairs"] = plan.pairs
    if plan.needs_native:
        head["needs_native"] = True
    groups = {group.name: of_group(group) for group in plan.groups}
    factors = {factor.name: of_factor(factor) for factor in plan.factors}
    tables = {"baseline": {"settings": to_plain(plan.baseline)}, "groups": groups, "factors": factors}
    return to_toml({**head, **{name: table for name, table in tables.items() if table}})


def of_group(group: Group) -> dict[str, Any]:
    values = {"about": group.about, "measure": group.measure, "set": in_one_line(group.changes)}
    return {name: value for name, value in values.items() if value}


def of_factor(factor: Factor) -> dict[str, Any]:
    plain = Factor("", {})
    names = ("hypothesis", "subject", "group", "on", "comparator", "combine")
    values = {name: getattr(factor, name) for name in names if getattr(factor, name) != getattr(plain, name)}
    return {**values, "set": in_one_line(factor.changes)}


def in_one_line(settings: Mapping[str, Any]) -> Any:
    table = tomlkit.inline_table()
    table.update(
        {name: in_one_line(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
    )
    return table
