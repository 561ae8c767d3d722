"""How many cores this process may use: those it is bound to, and what its container's quota of CPU time comes to."""

import os
from math import ceil
from pathlib import Path

MOST_THREADS = 256  # phases.h
CGROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def cores() -> int:
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, ceil(min(bound, quota(), MOST_THREADS)))


def quota(groups: Path = CGROUPS, own: Path = OWN) -> float:
    """Cores' worth of CPU time that the control groups of this process grant it; without limit: infinity."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:  # not Linux
        return float("inf")
    granted = [float("inf")]
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / controllers if controllers else groups
        folder = root / path.lstrip("/")
        # a container may see its own group as the root, and not the path that the host has for it
        for group in {root, folder, *(one for one in folder.parents if one.is_relative_to(root))}:
            granted.append(granted_by(group))
    return min(granted)


def granted_by(group: Path) -> float:
    """cpu.max of version 2, "quota period"; cpu.cfs_quota_us and cpu.cfs_period_us of version 1."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((group / name).read_text() for name in names).split()
            if int(quota) > 0 and int(period) > 0:
                return int(quota) / int(period)
        except (OSError, ValueError):  # no such file, or no limit: "max"
            continue
    return float("inf")
