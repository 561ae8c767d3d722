"""A grid whose best value is its first or its last is widened: the optimum may lie beyond it.

It is decided on the first three seeds, before anything else is run, and goes on from there, for three rounds at most:
each adds the next two values beyond the edge, in the steps of the grid. Runs of those seeds count like any others.
"""

import math
from dataclasses import replace
from pathlib import Path

from glassformer.lab.asked import Job, Pair
from glassformer.lab.cells import Cell, cell
from glassformer.lab.folder import PLAN, plan_of
from glassformer.lab.plan import FEWEST, Plan, setting_of
from glassformer.lab.plan_parts import Sweep, factors_of, sweep_of
from glassformer.lab.plan_text import plan_text
from glassformer.lab.record import Results
from glassformer.lab.scores import raw

ROUNDS = 3
MORE = 2  # values a round


def pilot(plan: Plan) -> list[Pair]:
    """What is run before it is decided: every value of the sweeps that may be widened, with three seeds."""
    sweeps = [sweep for sweep in plan.sweeps if sweep.widen]
    cells = {one.key: one for sweep in sweeps for one in cells_of(plan, sweep)}
    return [(Job(one, seed),) for seed in plan.seeds[:FEWEST] for one in cells.values()]


def cells_of(plan: Plan, sweep: Sweep) -> list[Cell]:
    return [cell(plan, (name,) if name else (), sweep.group) for name in sweep.factors]


def widened(plan: Plan, results: Results, first: Plan) -> tuple[Plan, str]:
    """The plan with more values, and what was added; the plan itself where no best value is at an edge.

    `first`: as it was asked for, which says how many rounds there have been.
    """
    for sweep, before in zip(plan.sweeps, first.sweeps, strict=True):
        added = beyond(plan, results, sweep)
        if not sweep.widen or not added or len(sweep.values) >= len(before.values) + ROUNDS * MORE:
            continue
        plan = with_values(plan, sweep, (*sweep.values, *added))
        shown = " and ".join(f"{value:g}" for value in added)
        return plan, f"{sweep.name}: the best value is at the edge of the grid; {shown} are tried, too"
    return plan, ""


def beyond(plan: Plan, results: Results, sweep: Sweep) -> list[float]:
    """The next values on the side of the best one; none where it is inside."""
    scores = [mean_of(plan, results, one) for one in cells_of(plan, sweep)]
    best = scores.index(max(scores))  # where all failed, the first: smaller ones are tried
    if 0 < best < len(scores) - 1 or len(scores) < 2:
        return []
    edge, next_ = (sweep.values[i] for i in ((0, 1) if best == 0 else (-1, -2)))
    if edge <= 0 or next_ <= 0:
        return []
    whole = all(type(value) is int for value in sweep.values)
    values = [float(f"{edge * (edge / next_) ** i:.2g}") for i in range(1, MORE + 1)]
    found = [max(1, round(value)) for value in values] if whole else values
    return sorted({value for value in found if value not in sweep.values})


def mean_of(plan: Plan, results: Results, one: Cell) -> float:
    """On the pilot's seeds, more is better; a run that failed counts as the worst."""
    measure = plan.group(one.group).measure
    records = [results.of(one.key).get(seed) for seed in plan.seeds[:FEWEST]]
    values = [raw(record, plan.metric, measure) if record else None for record in records]
    good = [value for value in values if value is not None]
    return plan.metric.sign * sum(good) / len(good) if len(good) == len(values) else -math.inf


def with_values(plan: Plan, sweep: Sweep, values: tuple[float, ...]) -> Plan:
    base = setting_of(plan.baseline, sweep.setting)
    rest = {"hypothesis": sweep.hypothesis, "group": sweep.group, "combine": sweep.combine, "widen": sweep.widen}
    new = sweep_of(sweep.name, sweep.setting, values, base, **rest)
    others = [factor for factor in plan.factors if factor.name not in sweep.factors]
    sweeps = tuple(new if one.name == sweep.name else one for one in plan.sweeps)
    made = replace(plan, factors=(*others, *factors_of(new)), sweeps=sweeps)
    return replace(made, text=plan_text(made))


def as_widened_before(plan: Plan, folder: Path) -> Plan:
    """With the values that the study in the folder has found necessary already."""
    if not any(sweep.widen for sweep in plan.sweeps) or not (folder / PLAN).exists():
        return plan
    there = {sweep.name: sweep for sweep in plan_of(folder).sweeps}
    for sweep in plan.sweeps:
        before = there.get(sweep.name)
        if sweep.widen and before and before.setting == sweep.setting and set(before.values) > set(sweep.values):
            plan = with_values(plan, sweep, before.values)
    return plan
