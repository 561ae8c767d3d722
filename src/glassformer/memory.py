"""How much memory can still be taken: of the machine, and of the container."""

import os
from collections.abc import Iterator
from pathlib import Path

from glassformer.cgroups import MOUNTED, OWN, groups_of, text
from glassformer.errors import GlassformerError


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


def of_container(own: Path = OWN, mounted: Path = MOUNTED) -> Iterator[int]:
    """What each of its groups leaves. Cached files give way, so they are free."""
    for group in groups_of("memory", own, mounted):
        limit = text(group / "memory.max") or text(group / "memory.limit_in_bytes")
        if limit.strip().isdecimal():
            used = text(group / "memory.current") or text(group / "memory.usage_in_bytes")
            found = numbers(group / "memory.stat")
            cached = found.get("total_inactive_file", found.get("inactive_file", 0))
            yield max(0, int(limit) - int(used.strip() or 0) + cached)


def numbers(path: Path) -> dict[str, int]:
    """`MemAvailable:  123 kB` by its first word."""
    words = [line.split() for line in text(path).splitlines()]
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdecimal()}


def size(bytes: int) -> str:
    return f"{bytes / (1 << 30):,.1f} GiB" if bytes >= 1 << 29 else f"{bytes / (1 << 20):,.1f} MiB"
