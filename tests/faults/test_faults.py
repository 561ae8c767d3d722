"""Killed, out of space, read-only, slow, two at once: whatever happens to a command, what it goes on to is the same.

All of them, a hundred times: make faults.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .kills import FAULTS
from .kinds import KINDS

ROOT = Path(__file__).parents[2]


def disturb(count: int, *options: str) -> dict[str, Any]:
    """In a process of its own: this one has threads, and is not forked any more."""
    command = [sys.executable, "-m", "tests.faults.kills", "--faults", "all", "--count", str(count), "--json", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])["counts"]


def test_each_fault_once() -> None:
    """Of one kind of command."""
    counts = disturb(1, "--kinds", "train-native", "--kinds-otherwise", "train-native")
    assert counts["kill train-native"]["kills"] == 1
    assert counts["full train-native"]["refused"] == 1
    assert counts["read-only train-native"]["refused"] == 1
    assert counts["slow train-native"]["cases"] == 1
    assert counts["two train-native"]["to the end"] == 2


@pytest.mark.slow
def test_each_fault_five_times() -> None:
    kinds = ("train-native", "investigate", "import")
    counts = disturb(5, "--seed", "1", "--kinds-otherwise", ",".join(kinds))
    assert all(counts[f"kill {kind}"]["kills"] == 5 for kind in KINDS)
    assert all(counts[f"{fault} {kind}"]["cases"] == 5 for fault in FAULTS if fault != "kill" for kind in kinds)
