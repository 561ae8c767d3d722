"""Studies whose truth is known: how often do intervals cover it, how often is there a false alarm, what is found?

    python -m glassformer.lab.simulate --replications 10000 --out simulations.json

What is done is kept in the file, condition by condition: killed, it goes on where it was. The table is printed as
Markdown; it stands in docs/lab.md. A smaller version is a test (tests/lab/test_simulate.py).
"""

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from glassformer.files import write_whole
from glassformer.lab.looks import looks
from glassformer.lab.sample_size import LEVEL, usual_seeds
from glassformer.lab.scores import FOLDS
from glassformer.lab.shape import SKEWED
from glassformer.lab.statistics import holm, interval, same_p, sign_flip_p, skewness, student_p, true_skewness
from glassformer.lab.typical import CUT, middle_half

FACTORS = (6, 12, 28)
SIZE = 1.5  # standard deviations: the effect to be found
BLOCK = 500  # studies at once
COLLAPSING = 0.1
Rng = np.random.Generator
Shape = tuple[int, int, int]  # studies, factors, seeds


def symmetric(rng: Rng, shape: Shape) -> np.ndarray:
    return shared(rng.normal, rng.normal, shape)


def shared(arm: Callable[..., np.ndarray], base: Callable[..., np.ndarray], shape: Shape) -> np.ndarray:
    """Differences from one baseline, as in a study."""
    return arm(size=shape) - base(size=(shape[0], 1, shape[2]))


def skewed(rng: Rng, shape: Shape, by: float) -> np.ndarray:
    """Of a gamma distribution; each factor by itself, which makes false alarms as many as can be."""
    k = (2 / by) ** 2
    return (rng.gamma(k, size=shape) - k) / math.sqrt(k)


def unequal(rng: Rng, shape: Shape) -> np.ndarray:
    """Variances 1 and 4."""
    return shared(lambda size: 2 * rng.normal(size=size), rng.normal, shape)


def bounded(rng: Rng, shape: Shape) -> np.ndarray:
    """Arms near 96 % with a tail of worse seeds, against a baseline far from the ceiling."""
    arm = 100 * expit(3.5 + 0.8 * rng.normal(size=shape)) - CEILING
    return arm - 0.5 * rng.normal(size=(shape[0], 1, shape[2]))


CEILING = float(100 * expit(3.5 + 0.8 * np.random.default_rng(0).normal(size=4_000_000)).mean())


def collapsing(rng: Rng, shape: Shape) -> np.ndarray:
    """A tenth of the seeds of every cell, the baseline's too, fall from 90 to 10 %."""
    return shared(lambda size: fallen(rng, size), lambda size: fallen(rng, size), shape)


def arms_collapsing(rng: Rng, shape: Shape) -> np.ndarray:
    """Of the arms alone, each of which is better by as much as that costs in the mean."""
    return shared(lambda size: fallen(rng, size) + 80 * COLLAPSING, lambda size: 90 + rng.normal(size=size), shape)


def fallen(rng: Rng, size: tuple[int, ...]) -> np.ndarray:
    return np.where(rng.random(size) < COLLAPSING, 10.0, 90 + rng.normal(size=size))


CONDITIONS: dict[str, Callable[[Rng, Shape], np.ndarray]] = {
    "symmetric": symmetric,
    "skewness 1": lambda rng, shape: skewed(rng, shape, 1.0),
    "skewness 2": lambda rng, shape: skewed(rng, shape, 2.0),
    "variances 1:4": unequal,
    "bounded at 100 %": bounded,
    "a tenth of all seeds collapses": collapsing,
    "a tenth of the arms' seeds collapses": arms_collapsing,
}
BESIDE = "beside the mean, "
FAILS = {"a tenth of all seeds collapses", "a tenth of the arms' seeds collapses"}


def tested(differences: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p after Holm, low, high of (studies, factors, seeds): what `effects` says, for many studies at once.

    Flips are tried where Student's p leaves anything open: the larger of both counts.
    """
    p = np.asarray(student_p(differences, skewness_of_families(differences)))
    open_ = p <= LEVEL
    p[open_] = np.maximum(p[open_], sign_flip_p(differences[open_]))
    low, high = interval(differences)
    return holm(p), low, high


def skewness_of_families(differences: np.ndarray) -> np.ndarray:
    return np.median(true_skewness(skewness(differences), differences.shape[-1]), -1, keepdims=True)


def surely_same(differences: np.ndarray, margin: float) -> np.ndarray:
    """Whether `effects` says "no effect", for many studies at once."""
    return holm(same_p(differences, margin, skewness_of_families(differences))) <= LEVEL


def sure(differences: np.ndarray) -> np.ndarray:
    p, low, high = tested(differences)
    return (p <= LEVEL) & ((low > 0) | (high < 0))


def warned(differences: np.ndarray, condition: str) -> np.ndarray:
    """Whether a study would warn: by its skewness, or because a run was seen to fail."""
    by_skewness = np.abs(skewness(differences)).mean(-1) > SKEWED
    return by_skewness | (np.abs(differences) > 40).any((-1, -2)) if condition in FAILS else by_skewness


def blocks(replications: int) -> Iterator[int]:
    for start in range(0, replications, BLOCK):
        yield min(BLOCK, replications - start)


def condition_row(name: str, factors: int, replications: int) -> dict[str, float]:
    """Shares of studies, and of intervals. The truth is that no factor changes the mean; then that one does."""
    seeds, draw = usual_seeds(factors), CONDITIONS[name]
    rng = np.random.default_rng([factors, *name.encode()])
    spread = float(draw(np.random.default_rng(1), (20_000, 2, seeds)).std())
    totals = np.zeros(6)
    for studies in blocks(replications):
        values = draw(rng, (studies, factors, seeds))
        p, low, high = tested(values)
        alarm = ((p <= LEVEL) & ((low > 0) | (high < 0))).any(-1)
        mind = warned(values, name)
        covers = (low <= 0) & (high >= 0)
        values[:, 0] += SIZE * spread
        found = sure(values)[:, 0]
        silent = alarm & ~mind
        totals += [
            covers.mean(-1).sum(),
            (covers.mean(-1) ** 2).sum(),
            alarm.sum(),
            silent.sum(),
            mind.sum(),
            found.sum(),
        ]
    covers, squares, alarm, silent, mind, found = totals / replications
    return {
        "seeds": seeds,
        "covers": covers,
        "covers_error": math.sqrt(max(squares - covers**2, 0.0) / replications),
        "alarms": alarm,
        "alarms_error": math.sqrt(alarm * (1 - alarm) / replications),
        "unwarned_alarms": silent,
        "warned": mind,
        "power": found,
        "power_error": math.sqrt(found * (1 - found) / replications),
    }


def beside_row(name: str, replications: int, factors: int = 12) -> dict[str, float]:
    """What stands beside the mean. "No effect" is false where all effects are as large as the margin, every other one
    down; where there is none, it should be found. The margin is as large as the effect to be found elsewhere.
    """
    seeds, draw = usual_seeds(factors), CONDITIONS[name]
    rng = np.random.default_rng([factors, *name.encode(), 2])
    known = np.sort(draw(np.random.default_rng(1), (100_000, 2, seeds)), axis=None)
    middle = known[int(CUT * known.size) : known.size - int(CUT * known.size)].mean()
    margin = SIZE * float(known.std())
    edge = margin * np.where(np.arange(factors) % 2, -1.0, 1.0)[:, None]
    totals = np.zeros(6)
    for studies in blocks(replications):
        values = draw(rng, (studies, factors, seeds))
        _, low, high = middle_half(values)
        covers = ((low <= middle) & (high >= middle)).mean(-1)
        alarm = surely_same(values + edge, margin).any(-1)
        mind, found = warned(values, name), surely_same(values, margin)
        silent = alarm & ~mind
        totals += [covers.sum(), (covers**2).sum(), alarm.sum(), silent.sum(), mind.sum(), found.mean(-1).sum()]
    covers, squares, alarm, silent, mind, found = totals / replications
    return {
        "seeds": seeds,
        "typical_covers": covers,
        "typical_covers_error": math.sqrt(max(squares - covers**2, 0.0) / replications),
        "alarms": alarm,
        "alarms_error": math.sqrt(alarm * (1 - alarm) / replications),
        "unwarned_alarms": silent,
        "warned": mind,
        "power": found,
    }


def looks_row(paid: bool, replications: int, factors: int = 12) -> dict[str, float]:
    """Looks at 10, 13 and 16 seeds. Unpaid: each as if it were the only one."""
    planned, alarms, found = looks([10, 13, 16]), 0, 0
    rng = np.random.default_rng([factors, paid])
    for studies in blocks(replications):
        values = symmetric(rng, (studies, factors, 16))
        real = values.copy()
        real[:, 0] += SIZE * math.sqrt(2)
        seen = np.zeros((2, studies), bool)
        for look in planned:
            level = look.level if paid else LEVEL
            for i, one in enumerate((values, real)):
                p, low, high = tested_at(one[..., : look.seeds], level)
                hit = (p <= level) & ((low > 0) | (high < 0))
                seen[i] |= hit.any(-1) if i == 0 else hit[:, 0]
        alarms += int(seen[0].sum())
        found += int(seen[1].sum())
    return rates_of(alarms, found, replications)


def tested_at(differences: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    p, _, _ = tested(differences)
    return p, *interval(differences, level)


def levels_row(crossed: bool, replications: int, levels: int = 4, seeds: int = 12) -> dict[str, float]:
    """An interaction that is none, of the best of equal levels of two subjects: on all seeds, or cross-fitted."""
    rng, alarms = np.random.default_rng([levels, seeds]), 0
    fold = np.arange(seeds) % FOLDS
    for studies in blocks(replications):
        subjects = rng.normal(size=(2, studies, levels, seeds))
        best = subjects.mean(-1).argmax(-1)
        chosen = np.take_along_axis(subjects, best[..., None, None], 2)[:, :, 0]
        both, base = rng.normal(size=(2, studies, seeds))
        values = both - chosen.sum(0) + base
        judging = np.ones((studies, seeds), bool)
        for i in range(FOLDS if crossed else 0):
            same = (subjects[..., fold != i].mean(-1).argmax(-1) == best).all(0)
            judging[:, fold == i] = same[:, None]
        for count in range(seeds // FOLDS, seeds + 1, seeds // FOLDS):
            rows = np.flatnonzero(judging.sum(-1) == count)
            if len(rows):
                alarms += int(sure(values[rows][judging[rows]].reshape(len(rows), 1, count)).sum())
    return rates_of(alarms, None, replications)


def tuned_row(fresh: bool, replications: int, factors: int = 12, points: int = 5) -> dict[str, float]:
    """Every arm at the best of five equal points: chosen on other seeds, or (not the baseline) on those compared."""
    seeds, tuning = usual_seeds(factors), 3
    rng, alarms = np.random.default_rng([factors, points, fresh]), 0
    for studies in blocks(replications):
        arms = rng.normal(size=(studies, factors + 1, points, tuning + seeds))
        judged = arms[..., :tuning] if fresh else arms[..., tuning:]
        best = judged.mean(-1).argmax(-1)
        best[:, 0] = best[:, 0] if fresh else 0
        chosen = np.take_along_axis(arms, best[..., None, None], 2)[:, :, 0, tuning:]
        alarms += int(sure(chosen[:, 1:] - chosen[:, :1]).any(-1).sum())
    return rates_of(alarms, None, replications)


def rates_of(alarms: int, found: int | None, replications: int) -> dict[str, float]:
    share = alarms / replications
    row = {"alarms": share, "alarms_error": math.sqrt(share * (1 - share) / replications)}
    return row | ({} if found is None else {"power": found / replications})


def tasks() -> dict[str, Callable[[int], dict[str, float]]]:
    """By name, what a row is made by."""

    def row(name: str, factors: int) -> Callable[[int], dict[str, float]]:
        return lambda replications: condition_row(name, factors, replications)

    def beside(name: str) -> Callable[[int], dict[str, float]]:
        return lambda replications: beside_row(name, replications)

    found = {f"{name}, {factors} factors": row(name, factors) for name in CONDITIONS for factors in FACTORS}
    return found | {
        "looks at 10, 13, 16 seeds, paid": lambda n: looks_row(True, n),
        "looks at 10, 13, 16 seeds, unpaid": lambda n: looks_row(False, n),
        "levels chosen from data, cross-fitted": lambda n: levels_row(True, n),
        "levels chosen from data, same seeds": lambda n: levels_row(False, n),
        "tuned arms, fresh seeds": lambda n: tuned_row(True, n),
        "tuned arms, same seeds": lambda n: tuned_row(False, n),
        **{f"{BESIDE}{name}": beside(name) for name in CONDITIONS},
    }


def simulate(replications: int, out: Path | None = None) -> dict[str, dict[str, float]]:
    """All rows; those that the file has with as many replications are not done again."""
    done: dict[str, Any] = json.loads(out.read_text()) if out and out.exists() else {}
    for name, task in tasks().items():
        if done.get(name, {}).get("replications") == replications:
            continue
        done[name] = task(replications) | {"replications": replications}
        print(f"{name}: {done[name]}", file=sys.stderr)
        if out:
            write_whole(out, json.dumps(done, indent=1) + "\n")
    return {name: done[name] for name in tasks()}


def table(rows: dict[str, dict[str, float]]) -> str:
    """As it stands in docs/lab.md: percent ± standard error of the simulation."""
    lines = [
        "| condition | seeds | covers, % | false alarms, % | … unwarned, % | warned, % | power, % |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, row in rows.items():
        if name.startswith(BESIDE):
            continue
        cells = [name, f"{row['seeds']:.0f}" if "seeds" in row else ""]
        cells += [with_error(row, "covers", 2), with_error(row, "alarms", 1)]
        cells += [f"{100 * row[key]:.1f}" if key in row else "" for key in ("unwarned_alarms", "warned", "power")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def table_beside(rows: dict[str, dict[str, float]]) -> str:
    """Of the interquartile mean and of "no effect"."""
    lines = [
        '| condition | interquartile mean covers, % | false "no effect", % | … unwarned, % | power, % |',
        "|---|--:|--:|--:|--:|",
    ]
    for name, row in rows.items():
        if name.startswith(BESIDE):
            cells = [name.removeprefix(BESIDE), with_error(row, "typical_covers", 2), with_error(row, "alarms", 1)]
            cells += [f"{100 * row[key]:.1f}" for key in ("unwarned_alarms", "power")]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_error(row: dict[str, float], key: str, places: int) -> str:
    return f"{100 * row[key]:.{places}f} ± {100 * row[f'{key}_error']:.{places}f}" if key in row else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--replications", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=None, help="what is done is kept here")
    given = parser.parse_args()
    done = simulate(given.replications, given.out)
    print(table(done), table_beside(done), sep="\n\n")
