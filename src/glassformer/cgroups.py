"""The control groups (cgroups) of this process: what its container may use. Elsewhere than on Linux, none."""

from collections.abc import Iterator
from pathlib import Path

OWN, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def groups_of(controller: str, own: Path = OWN, mounted: Path = MOUNTED) -> Iterator[Path]:
    """Folders with limits on `cpu` or `memory`, of either version: of its own group, then of those above it.

    In a container the path may be the host's, and not there: the top of it always is.
    """
    for line in text(own).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        for top in dict.fromkeys((mounted / controllers, mounted / controller)) if controllers else (mounted,):
            folder = top / path.lstrip("/")
            yield from (group for group in (folder, *folder.parents) if group.is_relative_to(top))


def text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
