"""Fair arms: before arms are compared, each is tuned with the same effort, and matched to its group's baseline.

tune     every point of the grid with every tuning seed, for every arm, the baseline too: the best mean on validation
         is the arm's. Tuning seeds are never compared on, so what was chosen by luck does not count.
match    "steps": as many updates; "compute": as many multiply-adds, both by the number of epochs; "parameters": as
         many, by how wide the feed-forward layer is. What was adjusted is said.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from glassformer.errors import SettingError
from glassformer.lab.cells import Cell
from glassformer.lab.multiply_adds import multiply_adds
from glassformer.lab.one_run import loaded
from glassformer.lab.plan import Arm, Plan, changed, setting_of
from glassformer.lab.record import Results
from glassformer.lab.scores import raw
from glassformer.lab.study import Point, Tuned
from glassformer.lab.verdict import count
from glassformer.layers.contract import param_shapes
from glassformer.train.held_out import split
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import resolved

Name = tuple[tuple[str, ...], str]  # of an arm: its factors, its group


def is_open(plan: Plan, arm: Name) -> bool:
    """Whether something is to be settled before it can be compared."""
    group = plan.group(arm[1])
    return bool(group.tune or group.match) and arm not in plan.arms


def tuning_cells(plan: Plan, arm: Name) -> list[Cell]:
    """One for each point of its grid."""
    names, group = arm
    found = []
    for point in plan.grid(names, group):
        recipe = changed(plan.unsettled(names, group), point, plan.name)
        found.append(Cell(names, group, changed(recipe, matched(plan, recipe, group)[0], plan.name), plan.identity))
    return found


def settle(plan: Plan, results: Results, arms: Iterable[Name]) -> bool:
    """What can be, by now. Whether anything was."""
    before = len(plan.arms)
    for arm in dict.fromkeys(arms):
        if is_open(plan, arm) and (found := settled(plan, results, arm)) is not None:
            plan.arms[arm] = found
            plan.cells.pop(arm, None)
    return len(plan.arms) > before


def settled(plan: Plan, results: Results, arm: Name) -> Arm | None:
    """None: not all of its tuning runs are there."""
    names, group = arm
    points = plan.grid(names, group)
    if not points:
        changes, about = matched(plan, plan.unsettled(names, group), group)
        return Arm(changes, about)
    cells = tuning_cells(plan, arm)
    if not all((cell.key, seed) in results for cell in cells for seed in plan.tune_seeds):
        return None
    scores = [mean_of(plan, results, cell) for cell in cells]
    best = int(np.argmax(scores))
    changes, about = matched(plan, changed(plan.unsettled(names, group), points[best], plan.name), group)
    chosen = ", ".join(f"{setting} = {value}" for setting, value in points[best].items())
    said = f"{chosen}: best of {count(len(points), 'point')} on validation, {count(len(plan.tune_seeds), 'seed')}"
    return Arm({**points[best], **changes}, "; ".join(filter(None, [said, edge(plan, arm, points[best]), about])))


def tuned(plan: Plan, results: Results) -> tuple[Tuned, ...]:
    """Arms that were settled by runs, with what was tried for each."""
    found = []
    for arm, settled_as in plan.arms.items():
        points, cells = plan.grid(*arm), tuning_cells(plan, arm)
        means = [mean_of(plan, results, cell) for cell in cells]
        if points and max(means) > -math.inf:
            best = int(np.argmax(means))
            tried = [
                Point(point, one.key, by_seed(plan, results, one)) for point, one in zip(points, cells, strict=True)
            ]
            found.append(Tuned(*arm, tuple(tried), best, tuple(at_edge(plan, arm, points[best])), settled_as.about))
    return tuple(found)


def by_seed(plan: Plan, results: Results, cell: Cell) -> dict[int, float]:
    """As it is shown; of runs that gave a number."""
    known = {seed: record for seed, record in results.of(cell.key).items() if seed in plan.tune_seeds}
    values = {seed: raw(record, plan.metric, "validation") for seed, record in known.items()}
    return {seed: plan.metric.shown(value) for seed, value in values.items() if value is not None}


def edge(plan: Plan, arm: Name, best: dict[str, Any]) -> str:
    """Said where the best value of a number is the first or the last: beyond it there may be a better one."""
    found = at_edge(plan, arm, best)
    return f"{' and '.join(found)} at the edge of its grid" if found else ""


def at_edge(plan: Plan, arm: Name, best: dict[str, Any]) -> list[str]:
    points, found = plan.grid(*arm), []
    for setting, value in best.items():
        values = [point[setting] for point in points]
        if all(type(one) in (int, float) for one in values) and len(set(values)) > 1:
            found += [setting] if value in (min(values), max(values)) else []
    return found


def mean_of(plan: Plan, results: Results, cell: Cell) -> float:
    """Over tuning seeds, on validation, turned so that more is better. A run that failed is the worst there is."""
    values = by_seed(plan, results, cell)
    return (
        plan.metric.sign * float(np.mean(list(values.values()))) if len(values) == len(plan.tune_seeds) else -math.inf
    )


def matched(plan: Plan, recipe: Recipe, group: str) -> tuple[dict[str, Any], str]:
    """What makes the recipe as large, or as long, as its group's baseline; and in words."""
    match, base = plan.group(group).match, plan.unsettled((), group)
    if not match:
        return {}, ""
    if match == "parameters":
        return same_parameters(plan, recipe, base)
    setting, cost = cost_of(recipe, match)
    _, wanted = cost_of(base, match)
    now = setting_of(recipe, setting)
    new = max(1, round(wanted / (cost / now)))
    what = {"steps": "updates", "compute": "multiply-adds"}[match]
    share = cost / now * new / wanted
    about = f"{setting} = {new} instead of {now}: {share:.2f} times the {what} of the baseline"
    return ({setting: new}, about) if new != now else ({}, "")


def cost_of(recipe: Recipe, match: str) -> tuple[str, float]:
    """What the length of training is set by, and what all of it costs."""
    data = loaded(recipe)
    whole = resolved(recipe, data)
    train, _ = split(whole, data)
    training, in_epoch = whole.training, whole.training.of_an_epoch(whole.task.count(train))
    in_steps = bool(recipe.training.steps)
    if match == "steps":
        updates = -(-in_epoch // training.samples_of_update) * training.epochs
        return ("training.steps", training.steps) if in_steps else ("training.epochs", updates)
    samples = training.steps * training.samples_of_update if in_steps else in_epoch * training.epochs
    each = multiply_adds(whole, data.test)
    return "training.steps" if in_steps else "training.epochs", float(each) * samples


def same_parameters(plan: Plan, recipe: Recipe, base: Recipe) -> tuple[dict[str, Any], str]:
    setting = "model.hidden"
    now = setting_of(recipe, setting)
    if type(now) is not int:
        raise SettingError(
            f"{plan.name}: match = 'parameters' adjusts {setting}, and this model has no such number; take 'compute'"
        )

    def size(hidden: int) -> int:
        return parameters(changed(recipe, {setting: hidden}, plan.name))

    wanted, low, high = parameters(base), 1, max(now, 1)
    while size(high) < wanted:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) < wanted else (low, middle)
    new = min((low, high), key=lambda hidden: abs(size(hidden) - wanted))
    about = f"{setting} = {new} instead of {now}: {size(new):,} parameters, the baseline has {wanted:,}"
    return ({setting: new}, about) if new != now else ({}, "")


def parameters(recipe: Recipe) -> int:
    import jax

    return sum(leaf.size for leaf in jax.tree.leaves(param_shapes(resolved(recipe, loaded(recipe)).network)))
