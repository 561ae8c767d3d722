"""What a look at a growing study may use, once more: for recompute.py. NumPy and SciPy alone."""

import math
from typing import Any

from scipy import stats

from .recompute_numbers import LEVEL


def spent(share: float) -> float:
    """O'Brien and Fleming's, of Lan and DeMets."""
    return float(2 * stats.norm.sf(stats.norm.isf(LEVEL / 2) / math.sqrt(share)))


def check(checker: Any) -> None:
    """The level of this report: as planned, half for every report before it that used more than it was given."""
    look = checker.json["look"]
    at, seeds = checker.plan.get("looks"), look["seeds"]
    before = {one["seeds"]: one.get("level", LEVEL) for one in checker.looks if not one.get("early") and one["seeds"]}
    if isinstance(at, list):
        planned = dict(zip(at, [spent(n / at[-1]) for n in at], strict=True))
        planned = {n: planned[n] - max((planned[m] for m in at if m < n), default=0.0) for n in at}
        dearer = [n for n, used in before.items() if n < seeds and used > planned.get(n, 0.0) + 1e-9]
        level = min(planned.get(seeds, 0.0), LEVEL / 2 ** len(dearer))
        used = {n: max(before.get(n, 0.0), planned.get(n, 0.0)) for n in {*before, *planned} if n < seeds}
        checker.close("look", "spent", level + sum(used.values()), look["spent"])
    else:
        dearer = [n for n in before if n < (seeds or len(checker.seeds))]
        level = LEVEL / 2 ** len(dearer)
    checker.close("look", "level", level, look["level"])
    if dearer:
        said = (
            f"all reports of this study together have a false alarm in at most {100 * look['spent']:.3g} % of studies"
        )
        checker.same("look", "is told", any(said in one for one in checker.json["warnings"]), True)
