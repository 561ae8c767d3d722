"""How many cores this process may use, where a container has a quota of CPU time."""

import os
from math import inf
from pathlib import Path

import pytest

from glassformer import cores as module
from glassformer.cores import cores, quota

V1, V2 = "4:memory:/a\n3:cpu,cpuacct:/docker/b\n", "0::/user/b\n"


def made(folder: Path, own: str, files: dict[str, str]) -> float:
    (folder / "own").write_text(own)
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return quota(folder / "own", folder / "cgroup")


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (V2, {"user/b/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"user/b/cpu.max": "max 100000\n", "user/cpu.max": "300000 100000\n"}, 3.0),  # the one above
        (V2, {"cpu.max": "50000 100000\n"}, 0.5),  # a container sees its own group as the root
        (V2, {"user/b/cpu.max": "max 100000\n"}, inf),
        (V2, {"user/b/cpu.max": "nonsense\n"}, inf),
        (V2, {}, inf),
        ("", {}, inf),
        (
            V1,
            {
                "cpu,cpuacct/docker/b/cpu.cfs_quota_us": "200000\n",
                "cpu,cpuacct/docker/b/cpu.cfs_period_us": "100000\n",
            },
            2.0,
        ),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, inf),
    ],
)
def test_quotas(own: str, files: dict[str, str], expected: float, tmp_path: Path) -> None:
    assert made(tmp_path, own, files) == expected


def test_not_linux(tmp_path: Path) -> None:
    assert quota(tmp_path / "none", tmp_path) == inf


@pytest.mark.parametrize(("granted", "expected"), [(0.2, 1), (1.5, 2), (2.0, 2), (inf, 8)])
def test_the_fewest_count(granted: float, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(module, "quota", lambda: granted)
    assert cores() == expected
