"""Looking in between is paid for: each look at a growing study has its own level, and all of them together 5 %.

    looks = [10, 15, 20]      in the plan: the study is looked at when every cell has so many seeds

spent(t)   the level used up when the share t of the seeds is there:  2 - 2 Φ(z(1 - α/2) / sqrt(t))   O'Brien-Fleming
                                                                  or  α log(1 + (e - 1) t)            Pocock
level_k    spent(t_k) - spent(t_{k-1}): what the look may use. Holm's correction is done within a look, at its level

Lan and DeMets (1983) would let later looks use a little more, because looks at the same seeds go together; that takes
differences which are normal. The plain sum does not: a false alarm at any look has at most the chance that the levels
add up to, for every test that is exact at one look, as sign flips are. What it costs: the last of two
looks (10 and 20 seeds) is held to 0.044 where the joint distribution of normal differences would allow 0.048, the last
of three (10, 15, 20) to 0.026 instead of 0.041.

Why not e-values (bets on the next sign, which may be stopped at any time): simulated with the best bet in hindsight, an
effect of 1.5 standard deviations among 12 factors takes 14 seeds instead of 12. Looks are few here, and known before.

A study that had no looks in its plan, and grows after its report: its 5 % were spent. Each look more then has half the
level of the one before: 2.5 %, 1.25 %, …; whatever the reader saw first, all false alarms together stay below 10 %,
and the report says to which bound (`Look.spent`). So does one that ran out of time, was reported on, and went on; and
one whose looks were planned only after a report (`after_dearer`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from glassformer.errors import SettingError
from glassformer.lab.sample_size import LEVEL

Spending = Literal["obrien-fleming", "pocock"]
CLOSE = 1e-9  # levels that differ by less are the same


@dataclass(frozen=True)
class Look:
    """One look, and what it may use."""

    number: int  # 1 is the first
    seeds: int  # that every cell has
    level: float  # of the whole family, two-sided: what p after Holm is held against
    spent: float  # by this look and all before it
    last: bool = True
    planned: bool = True

    @property
    def decides(self) -> bool:
        return self.level > 0


def level_used(look: Look) -> float:
    """What intervals and ranks of a report are held to; of one that decides nothing, the usual."""
    return look.level if look.decides else LEVEL


ONLY = Look(1, 0, LEVEL, LEVEL)  # a study that is looked at once


def spent(share: float, level: float = LEVEL, kind: Spending = "obrien-fleming") -> float:
    """Used up by the time that this share of the seeds is there.

    >>> [round(spent(share), 4) for share in (1 / 3, 2 / 3, 1.0)]
    [0.0007, 0.0164, 0.05]
    >>> [round(spent(share, kind="pocock"), 4) for share in (1 / 3, 2 / 3, 1.0)]
    [0.0226, 0.0382, 0.05]
    """
    from scipy.stats import norm

    if share <= 0:
        return 0.0
    share = min(share, 1.0)
    if kind == "pocock":
        return level * math.log(1 + (math.e - 1) * share)
    return float(2 * norm.sf(norm.isf(level / 2) / math.sqrt(share)))


def looks(at: Sequence[int], kind: Spending = "obrien-fleming", level: float = LEVEL) -> tuple[Look, ...]:
    """Of a plan: the seeds at each look, the last one when all are there.

    >>> [round(look.level, 4) for look in looks([10, 15, 20])]
    [0.0056, 0.0181, 0.0264]
    """
    must_rise(at)
    used = [spent(seeds / at[-1], level, kind) for seeds in at]
    before = [0.0, *used[:-1]]
    return tuple(
        Look(number, seeds, now - then, now, last=seeds == at[-1])
        for number, (seeds, now, then) in enumerate(zip(at, used, before, strict=True), 1)
    )


def look_now(seeds: int, at: Sequence[int], kind: Spending = "obrien-fleming", level: float = LEVEL) -> Look:
    """The look that counts when every cell has so many seeds. Before the first one nothing is decided: its level is 0.

    Between two looks the earlier one counts, with its own seeds: those that came later wait for the next.

    >>> look_now(12, [10, 20]).seeds, look_now(25, [10, 20]).seeds, look_now(9, [10, 20]).decides
    (10, 20, False)
    """
    planned = looks(at, kind, level)
    reached = [look for look in planned if look.seeds <= seeds]
    return reached[-1] if reached else Look(0, seeds, 0.0, 0.0, last=False)


def unplanned(earlier: Sequence[int], seeds: int, level: float = LEVEL) -> Look:
    """A look at a study that was reported on with `earlier` numbers of seeds, and had none of them in its plan.

    >>> look = unplanned([12], 20)
    >>> look.number, look.level, look.spent
    (2, 0.025, 0.07500000000000001)
    """
    number = 1 + len([one for one in earlier if one < seeds])
    levels = [level / 2**i for i in range(number)]
    return Look(number, seeds, levels[-1], sum(levels), planned=number == 1)


def after_dearer(look: Look, at: Sequence[int], used: Mapping[int, float], level: float = LEVEL) -> Look:
    """A planned look after reports that used more than the plan gives them: its looks were planned later.

    `used`: by the number of seeds that was reported on. A plan cannot take back what a reader has seen: each such
    report halves the level, as if no look had been planned.

    >>> look = after_dearer(looks([12, 20])[-1], [12, 20], {12: 0.05})
    >>> look.level, round(look.spent, 4), look.planned
    (0.025, 0.075, False)
    >>> after_dearer(looks([12, 20])[-1], [12, 20], {12: looks([12, 20])[0].level}).planned
    True
    """
    planned = {one.seeds: one.level for one in looks(at, level=level)}
    before = {seeds: one for seeds, one in used.items() if seeds < look.seeds}
    dearer = [one for seeds, one in before.items() if one > planned.get(seeds, 0.0) + CLOSE]
    if not dearer or not look.decides:
        return look
    mine = min(look.level, level / 2 ** len(dearer))
    spent_before = {seeds: max(before.get(seeds, 0.0), planned.get(seeds, 0.0)) for seeds in {*before, *planned}}
    spent_all = mine + sum(one for seeds, one in spent_before.items() if seeds < look.seeds)
    return replace(look, number=1 + sum(one > 0 for one in before.values()), level=mine, spent=spent_all, planned=False)


def after_early(look: Look, times: int) -> Look:
    """The last look, where so many were taken for it before all runs were there: half the level for each.

    >>> look = after_early(looks([6, 12])[-1], 1)
    >>> round(look.level, 4), round(look.spent, 4), look.planned
    (0.0222, 0.0722, False)
    """
    levels = [look.level / 2**i for i in range(times + 1)]
    return replace(look, level=levels[-1], spent=look.spent + sum(levels[1:]), planned=look.planned and not times)


def evenly(count: int, seeds: int, fewest: int) -> tuple[int, ...]:
    """So many looks up to so many seeds, none before `fewest` seeds, with which nothing could be decided.

    >>> evenly(3, 20, 10), evenly(1, 12, 10), evenly(5, 12, 10)
    ((10, 15, 20), (12,), (10, 11, 12))
    """
    if count < 1:
        raise SettingError(f"looks is {count}, expected 1 or more")
    first = min(fewest, seeds)
    if count == 1 or first == seeds:
        return (seeds,)
    steps = [round(first + i * (seeds - first) / (count - 1)) for i in range(count)]
    return tuple(sorted(set(steps)))


def corrected(p: float, look: Look, level: float = LEVEL) -> float:
    """A p (after Holm) of this look, made comparable with the level of the whole study.

    >>> corrected(0.0028, looks([10, 15, 20])[0]) < 0.05 < corrected(0.01, looks([10, 15, 20])[0])
    True
    """
    return min(1.0, p * level / look.level) if look.decides else 1.0


def must_rise(at: Sequence[int]) -> None:
    if not at or any(one < 1 for one in at) or any(b <= a for a, b in pairwise(at)):
        raise SettingError(f"looks at {list(at)} seeds came, expected numbers of seeds that rise: looks = [10, 15, 20]")
