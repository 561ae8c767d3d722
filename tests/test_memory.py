"""How much memory there is."""

from pathlib import Path

import pytest

from glassformer import memory
from glassformer.errors import DataError

GIB = 1 << 30


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


def test_a_container_of_the_second_version(tmp_path: Path) -> None:
    write(tmp_path, groups="0::/pod/box\n")
    root = tmp_path / "cgroup"
    write(root / "pod", memory__max=f"{4 * GIB}\n", memory__current=f"{3 * GIB}\n")
    write(root / "pod" / "box", memory__max="max\n", memory__current=f"{GIB}\n")
    assert [*memory.of_container(tmp_path / "groups", root)] == [GIB]
    write(root / "pod", memory__stat=f"anon 5\ninactive_file {GIB}\n")  # files that are cached give way
    assert [*memory.of_container(tmp_path / "groups", root)] == [2 * GIB]


def test_a_container_of_the_first_version(tmp_path: Path) -> None:
    """Inside it the path is that of the host, and not there; the limit is at the top."""
    write(tmp_path, groups="5:cpu,cpuacct:/x\n4:memory:/docker/0123\n0::/\n")
    write(
        tmp_path / "cgroup" / "memory",
        memory__limit_in_bytes=f"{2 * GIB}\n",
        memory__usage_in_bytes=f"{3 * GIB}\n",
        memory__stat=f"inactive_file 7\ntotal_inactive_file {GIB // 2}\n",
    )
    assert [*memory.of_container(tmp_path / "groups", tmp_path / "cgroup")] == [0]
    write(tmp_path / "cgroup" / "memory", memory__usage_in_bytes=f"{GIB}\n")
    assert [*memory.of_container(tmp_path / "groups", tmp_path / "cgroup")] == [3 * GIB // 2]


def test_no_container(tmp_path: Path) -> None:
    assert [*memory.of_container(tmp_path / "none", tmp_path)] == []


def test_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "of_machine", lambda: 8 * GIB)
    monkeypatch.setattr(memory, "of_container", lambda: iter([9 * GIB, 2 * GIB]))
    assert memory.available() == 2 * GIB
    memory.must_fit(2 * GIB, "x", "y", DataError)
    with pytest.raises(DataError, match=r"^the data takes 2\.5 GiB of memory, and 2\.0 GiB are free; take less$"):
        memory.must_fit(5 * GIB // 2, "the data", "take less", DataError)


def test_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "of_machine", lambda: None)
    monkeypatch.setattr(memory, "of_container", lambda: iter(()))
    memory.must_fit(1 << 80, "x", "y", DataError)
