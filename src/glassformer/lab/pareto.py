"""What accuracy costs: every cell by its parameters, its multiply-adds and its time, and which of them are dominated.

dominated   another cell costs no more and is surely better: paired Student t test over the seeds that both have, p at
            most 0.05 after Holm over all pairs of which one costs no more than the other
front       not dominated, and no cell that costs no more has a better mean
undecided   the rest: one that costs no more has a better mean, but not surely

Multiply-adds are those of the forward pass of one sample. Time is that of training one run, without compiling where the
records say how long that took; cells of different machines or engines are not compared by it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from glassformer.lab.run_rows import scores_by_seed
from glassformer.lab.sample_size import LEVEL
from glassformer.lab.statistics import holm
from glassformer.lab.study import Study, Summary
from glassformer.models.model import Network

Cost = Literal["parameters", "multiply-adds", "seconds"]
Standing = Literal["front", "undecided", "dominated"]
FEWEST = 3  # seeds of a pair


@dataclass(frozen=True)
class Point:
    summary: Summary
    cost: float
    dominated_by: str  # title of the cell that is surely better, the best of them; nothing: there is none
    standing: Standing


@dataclass(frozen=True)
class Front:
    """The cells of one group by one cost, cheapest first."""

    cost: Cost
    group: str
    about: str  # how the cost was counted
    points: tuple[Point, ...]
    pairs: int  # that were tested


def fronts(study: Study) -> list[Front]:
    """Of the groups and costs in which cells differ."""
    found = []
    for group in dict.fromkeys(one.cell.group for one in study.cells):
        cells = [
            one for one in study.cells if one.cell.group == group and math.isfinite(one.mean) and len(one.scores) > 1
        ]
        found += [
            one for cost in ("parameters", "multiply-adds", "seconds") if (one := front(study, group, cells, cost))
        ]
    return found


def front(study: Study, group: str, cells: Sequence[Summary], cost: Cost) -> Front | None:
    """None where nothing differs in it, or it is not known of all."""
    if cost == "seconds" and len({(record.machine, record.engine) for one in cells for record in one.records}) > 1:
        return None
    costs = [cost_of(one, cost) for one in cells]
    known = [(price, one) for price, one in zip(costs, cells, strict=True) if price]
    if len(known) < len(cells) or len({price for price, _ in known}) < 2:
        return None
    known.sort(key=lambda one: one[0])
    by, pairs = dominating(study, known)
    sign = study.plan.metric.sign
    points = []
    for i, (price, one) in enumerate(known):
        better = any(other <= price and sign * rival.mean > sign * one.mean for other, rival in known)
        standing: Standing = "dominated" if i in by else "undecided" if better else "front"
        points.append(Point(one, price, by.get(i, ""), standing))
    return Front(cost, group, about(cost, cells), tuple(points), pairs)


def about(cost: Cost, cells: Sequence[Summary]) -> str:
    if cost != "seconds":
        return {"parameters": "parameters", "multiply-adds": "multiply-adds of one sample, forward"}[cost]
    apart = any(record.compile_seconds for one in cells for record in one.records)
    return f"seconds of a run, {'without compiling' if apart else 'compiling contained'}"


def cost_of(summary: Summary, cost: Cost) -> float | None:
    well = [record for record in summary.records if not record.failed] or list(summary.records)
    if cost == "parameters":
        return float(well[0].parameters) or None
    if cost == "multiply-adds":
        return float(well[0].multiply_adds or counted(summary.cell.recipe.model, well[0].parameters)) or None
    return float(np.mean([record.seconds - record.compile_seconds for record in well])) or None


@lru_cache(maxsize=256)
def counted(model: Network, parameters: int) -> int:
    """Of the model as the recipe has it; 0 where it has other parameters than were trained: data gave it its sizes."""
    import jax

    from glassformer.layers.contract import param_shapes
    from glassformer.models.summary import multiply_adds

    try:
        shapes = param_shapes(model)
        traced = jax.make_jaxpr(model.forward)(shapes, model.example(1))
    except Exception:
        return 0  # a model of one's own may need its data to be traced at all
    same = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes)) == parameters
    return sum(amount for _, amount in multiply_adds(traced.jaxpr)) if same else 0


def dominating(study: Study, known: Sequence[tuple[float, Summary]]) -> tuple[dict[int, str], int]:
    """By place, the best of those that dominate it; and how many pairs were tested."""
    sign = study.plan.metric.sign
    seeds = study.plan.seeds
    scores = np.full((len(known), len(seeds)), np.nan)
    for i, (_, one) in enumerate(known):
        by_seed = scores_by_seed(one)
        scores[i] = [sign * by_seed.get(seed, math.nan) for seed in seeds]
    prices = np.array([price for price, _ in known])
    costs_more, no_more = np.nonzero((prices[None, :] <= prices[:, None]) & ~np.eye(len(known), dtype=bool))
    differences = scores[no_more] - scores[costs_more]
    enough = np.isfinite(differences).sum(axis=1) >= FEWEST
    costs_more, no_more, differences = costs_more[enough], no_more[enough], differences[enough]
    mean, p = paired_t(differences)
    best: dict[int, int] = {}
    for i, j in zip(*(side[(holm(p) <= LEVEL) & (mean > 0)] for side in (costs_more, no_more)), strict=True):
        if i not in best or sign * known[j][1].mean > sign * known[best[i]][1].mean:
            best[int(i)] = int(j)
    return {i: known[j][1].cell.title for i, j in best.items()}, len(p)


def paired_t(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of rows, and two-sided p; what is not known is left out. Of a row that is all alike 0, of zeros 1.

    >>> mean, p = paired_t(np.array([[1.0, 2.0, 3.0, np.nan], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]))
    >>> mean.tolist(), p.round(4).tolist()
    ([2.0, 0.0, 1.0], [0.0742, 1.0, 0.0])
    """
    from scipy.stats import t

    n = np.isfinite(differences).sum(axis=1)
    mean, spread = np.nanmean(differences, axis=1), np.nanstd(differences, axis=1, ddof=1)
    alike = spread <= 1e-12 * np.maximum(np.abs(mean), 1e-12)
    p = 2 * t.sf(np.abs(mean) * np.sqrt(n) / np.where(alike, 1.0, spread), n - 1)
    return mean, np.where(alike, np.where(mean == 0, 1.0, 0.0), p)
