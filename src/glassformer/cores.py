"""How many cores this process may use: those it is bound to, and what its container's quota of CPU time comes to."""

import os
from math import ceil, inf
from pathlib import Path

from glassformer.cgroups import MOUNTED, OWN, groups_of, text

MOST_THREADS = 256  # phases.h


def cores() -> int:
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, ceil(min(bound, quota(), MOST_THREADS)))


def quota(own: Path = OWN, mounted: Path = MOUNTED) -> float:
    """Cores' worth of CPU time that its groups grant; without a limit, infinity."""
    return min((granted_by(group) for group in groups_of("cpu", own, mounted)), default=inf)


def granted_by(group: Path) -> float:
    """cpu.max of version 2, "quota period"; cpu.cfs_quota_us and cpu.cfs_period_us of version 1."""
    found = text(group / "cpu.max") or text(group / "cpu.cfs_quota_us") + " " + text(group / "cpu.cfs_period_us")
    numbers = [int(word) for word in found.split() if word.isdecimal()]  # "max" and -1 are no limit
    return numbers[0] / numbers[1] if len(numbers) == 2 and min(numbers) > 0 else inf
