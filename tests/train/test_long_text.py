"""Text that is longer than memory should hold, by the commands: tokenised and trained from, killed, damaged.

Of 20 MB; how much memory a process took is compared with what a tenth of the text takes.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..data.long_text import write_long_text

pytestmark = pytest.mark.slow
MB = 1 << 20
HELD = re.compile(r"VmHWM:\s+(\d+) kB")
# A new process, which tells the most memory it ever held. (What `wait` tells includes the process that started it.)
CHILD = """
import atexit, sys
from pathlib import Path
from glassformer.cli import main
atexit.register(lambda: sys.stderr.write(Path("/proc/self/status").read_text()))
main()
"""


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell how much memory a process held")
    words = [sys.executable, "-c", CHILD, *map(str, arguments), "--json"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result_of(process: subprocess.Popen[str]) -> tuple[dict[str, object], int]:
    """What it printed, and the bytes it held."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1]), held(err)


def held(status: str) -> int:
    found = HELD.search(status)
    assert found is not None
    return 1024 * int(found[1])


def tokenise(text: Path, out: Path) -> subprocess.Popen[str]:
    return started("data", "tokenise", text, "--out", out, "--symbols", "2000", "--workers", "1")


def train(tokens: Path, out: Path) -> subprocess.Popen[str]:
    sizes = "width=16", "hidden=32", "heads=2", "depth=1", "text.context=32"
    steps = "training.steps=100", "training.score_every=100", "validation.share=0.01"
    changes = [*(f"model.{size}" for size in sizes), *steps]
    return started("train", "gpt-nano", "--data", tokens, "--out", out, *(f"--set={change}" for change in changes))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("long")
    return write_long_text(folder / "short.txt", 2), write_long_text(folder / "long.txt", 20)


def test_memory_does_not_grow_with_the_text(texts: tuple[Path, Path], tmp_path: Path) -> None:
    short, long = texts
    made, little = result_of(tokenise(short, tmp_path / "short"))
    assert made["unknown"] == 0
    killed = tokenise(long, tmp_path / "long")
    while not (tmp_path / "long" / "00000.npy").exists():
        assert killed.poll() is None
        time.sleep(0.01)
    much = held(Path(f"/proc/{killed.pid}/status").read_text())
    killed.kill()
    killed.communicate()
    assert much - little < 250 * MB  # a shard is made of 16 MB of text
    made, much = result_of(tokenise(long, tmp_path / "long"))
    assert much - little < 250 * MB
    assert made["shards"] == 2

    result, little = result_of(train(tmp_path / "short", tmp_path / "run-short"))
    assert result["engine"] == "jax"
    _, much = result_of(train(tmp_path / "long", tmp_path / "run-long"))
    assert much - little < 150 * MB

    shard = tmp_path / "long" / "00001.npy"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    refused = train(tmp_path / "long", tmp_path / "run-damaged")
    _, err = refused.communicate()
    assert refused.returncode == 1
    assert f"glassformer: {shard}: damaged: its checksum is" in err
    assert "delete it and make it again" in err
