"""How much memory can still be taken: of the machine, and of the container that its limits (cgroups) make of it."""

import os
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import GlassformerError

GROUPS, MOUNTED = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def must_fit(needed: int, what: str, advice: str, error: type[GlassformerError]) -> None:
    """Refuse to take more memory than there is, before it is taken."""
    there = available()
    if there is not None and needed > there:
        raise error(f"{what} takes {size(needed)} of memory, and {size(there)} are free; {advice}")


def available() -> int | None:
    """Bytes that can be taken without swapping; None where the system does not say."""
    return min((bytes for bytes in (of_machine(), *of_container()) if bytes is not None), default=None)


def of_machine() -> int | None:
    if (free := numbers(Path("/proc/meminfo")).get("MemAvailable:")) is not None:
        return 1024 * free
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def of_container(groups: Path = GROUPS, mounted: Path = MOUNTED) -> Iterator[int]:
    """What each group that this process is in, and each above it, leaves. Cached files give way, so they are free."""
    for line in text(groups).splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            top, limit, used, cached = mounted, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit, used = mounted / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached = "total_inactive_file"
        else:
            continue
        folder = top / path.lstrip("/")
        for group in (folder, *folder.parents):  # in a container the path may be the host's: its top is still there
            if group.is_relative_to(top) and text(group / limit).strip().isdecimal():
                taken = int(text(group / used).strip() or 0) - numbers(group / "memory.stat").get(cached, 0)
                yield max(0, int(text(group / limit)) - taken)


def numbers(path: Path) -> dict[str, int]:
    """`MemAvailable:  123 kB` by its first word."""
    words = [line.split() for line in text(path).splitlines()]
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdecimal()}


def text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def size(bytes: int) -> str:
    return f"{bytes / (1 << 30):,.1f} GiB" if bytes >= 1 << 29 else f"{bytes / (1 << 20):,.1f} MiB"
