"""A plan as TOML: what a study folder keeps of a plan that was derived, or changed on the command line."""

import json
from collections.abc import Mapping
from typing import Any

from glassformer.lab.plan import PAIRS, Factor, Group, Plan
from glassformer.train.settings import to_plain

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
    lines = [f"{name} = {inline(value)}" for name, value in head.items()]
    lines += ["", "[baseline]", f"settings = {inline(to_plain(plan.baseline))}"]
    for group in plan.groups:
        lines += ["", f"[groups.{quoted(group.name)}]", *of_group(group)]
    for factor in plan.factors:
        lines += ["", f"[factors.{quoted(factor.name)}]", *of_factor(factor)]
    return "\n".join(lines) + "\n"


def of_group(group: Group) -> list[str]:
    values = {"about": group.about, "measure": group.measure, "set": dict(group.changes)}
    return [f"{name} = {inline(value)}" for name, value in values.items() if value]


def of_factor(factor: Factor) -> list[str]:
    plain = Factor("", {})
    names = ("hypothesis", "subject", "group", "on", "comparator", "combine")
    values = {name: getattr(factor, name) for name in names if getattr(factor, name) != getattr(plain, name)}
    return [f"{name} = {inline(value)}" for name, value in {**values, "set": dict(factor.changes)}.items()]


def inline(value: Any) -> str:
    """As TOML writes it in one line."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{quoted(name)} = {inline(one)}" for name, one in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    return json.dumps(value, ensure_ascii=False)


def quoted(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else json.dumps(name)
