"""A plan as TOML: what a study folder keeps of a plan that was derived, or changed on the command line."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import tomlkit

from glassformer.lab.metric import metric_named
from glassformer.lab.plan import PAIRS, TUNE_SEEDS, Factor, Group, Plan, usual_metric
from glassformer.lab.plan_parts import Sweep
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
    head |= of_arms(plan)
    swept = {name for sweep in plan.sweeps for name in sweep.factors}
    tables = {
        "baseline": {"settings": to_plain(plan.baseline)},
        "groups": {group.name: of_group(group) for group in plan.groups},
        "factors": {factor.name: of_factor(factor) for factor in plan.factors if factor.name not in swept},
        "sweeps": {sweep.name: of_sweep(sweep) for sweep in plan.sweeps},
    }
    return to_toml({**head, **{name: table for name, table in tables.items() if table}})


def of_arms(plan: Plan) -> dict[str, Any]:
    """What is compared, and how arms are made fair; what is as usual is left out."""
    found: dict[str, Any] = {}
    if plan.metric.name != usual_metric(plan.baseline).name:
        found["metric"] = plan.metric.name
    if plan.metric.margin != metric_named(plan.metric.name).margin:
        found["margin"] = plan.metric.margin
    if plan.tune:
        found["tune"] = in_one_line(plan.tune)
    if plan.tune_seeds != TUNE_SEEDS:
        found["tune_seeds"] = list(plan.tune_seeds)
    if plan.match:
        found["match"] = plan.match
    if plan.looks:
        found["looks"] = list(plan.looks)
    if plan.futility:
        found["futility"] = plan.futility
    return found


def of_group(group: Group) -> dict[str, Any]:
    values = {"about": group.about, "measure": group.measure, "set": in_one_line(group.changes), "match": group.match}
    return {name: value for name, value in {**values, "tune": in_one_line(group.tune)}.items() if value}


def of_factor(factor: Factor) -> dict[str, Any]:
    return {**other_than(Factor("", {}), factor, "name", "changes", "tune"), **of_grids(factor)}


def of_grids(factor: Factor) -> dict[str, Any]:
    return {"set": in_one_line(factor.changes), **({"tune": in_one_line(factor.tune)} if factor.tune else {})}


def of_sweep(sweep: Sweep) -> dict[str, Any]:
    plain = Sweep("", "", (), ())
    rest = other_than(plain, sweep, "name", "setting", "values", "factors")
    return {"setting": sweep.setting, "values": list(sweep.values), **rest}


def other_than(plain: Any, one: Any, *known: str) -> dict[str, Any]:
    """What is not as usual."""
    names = [field.name for field in fields(one) if field.name not in known]
    return {name: getattr(one, name) for name in names if getattr(one, name) != getattr(plain, name)}


def in_one_line(settings: Mapping[str, Any]) -> Any:
    table = tomlkit.inline_table()
    table.update(
        {
            name: in_one_line(value)
            if isinstance(value, Mapping)
            else list(value)
            if isinstance(value, tuple)
            else value
            for name, value in settings.items()
        }
    )
    return table
