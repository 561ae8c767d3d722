"""Damaged files for every reader: each ends in a value or in a GlassformerError, within 10 s and 1 GB.

    python -m tests.fuzz.fuzz --count 1000000 --jobs 16 --seed 0 --state fuzz.json

Input number n is made from the seed and n alone. Processes take blocks of numbers; the state file says which are done,
and the same command goes on from there. What fails is made smaller and kept in corpus/, for test_corpus.py.
"""

import argparse
import hashlib
import json
import mmap
import os
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from glassformer.errors import GlassformerError

from .mutations import mutated
from .readers import READERS, seeds_of, write_seeds

CORPUS = Path(__file__).with_name("corpus")
BLOCK = 250  # inputs
HANG = 10.0  # seconds
GROWTH = 1 << 30  # bytes
LARGEST = 64 << 10  # bytes of a file in the corpus
SHRINK_SECONDS = 3.0
SHARES = [name for name, reader in READERS.items() for _ in range(reader.share)]


@dataclass
class Inputs:
    """Folders in which one file after another is put in its place, and read."""

    root: Path  # of right ones
    scratch: Path
    begins: Callable[[], None] = lambda: None  # told before each
    seeds: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    def make(self, seed: int, number: int, only: str = "") -> tuple[str, bytes]:
        """Which reader, and what it is given."""
        draw = Random((seed << 40) + number)
        name = only or draw.choice(SHARES)
        other = draw.choice(SHARES) if draw.random() < 0.01 else name  # files are swapped
        return name, mutated(draw, self.right(other), READERS[name].ways)

    def right(self, name: str) -> tuple[bytes, ...]:
        if name not in self.seeds:
            self.seeds[name] = seeds_of(self.root, name)
        return self.seeds[name]

    def read(self, name: str, content: bytes) -> str:
        """Where it went wrong: nothing for a value or a GlassformerError."""
        reader, folder = READERS[name], self.scratch / name
        if not folder.exists():
            shutil.copytree(self.root / reader.folder, folder)
        (folder / reader.file).write_bytes(content)
        self.begins()
        try:
            reader.read(folder)
        except GlassformerError:
            pass
        except Exception as error:
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "glassformer" in frame.filename]
            place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else ""
            return f"{type(error).__name__} in {place}: {error}"[:300]
        return ""


def kind_of(failure: str) -> str:
    return failure.partition(": ")[0]


def smaller(inputs: Inputs, name: str, content: bytes, failure: str) -> bytes:
    """The same failure with less, as far as a moment's search finds."""
    end = time.monotonic() + SHRINK_SECONDS
    size = len(content) // 2
    while size and time.monotonic() < end:
        for start in range(0, len(content), size):
            less = content[:start] + content[start + size :]
            if kind_of(inputs.read(name, less)) == kind_of(failure):
                content = less
                break
            if time.monotonic() > end:
                break
        else:
            size //= 2
    return content


def peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Worker:
    """A process that reads inputs, block after block; where it stands is seen from outside."""

    def __init__(self, root: Path, seed: int, only: str) -> None:
        self.root, self.seed, self.only = root, seed, only
        self.place = mmap.mmap(-1, 16)  # the number that is being read (-1: none), and since when
        self.place[:] = struct.pack("=qd", -1, 0.0)
        self.lines, pipe = os.pipe()
        self.jobs, self.wanted = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                self.work(pipe)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(pipe)
        os.close(self.jobs)
        self.block, self.left = -1, b""

    def work(self, pipe: int) -> None:
        os.close(self.wanted)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # some libraries print
        scratch = Path(tempfile.mkdtemp(dir=self.root))
        number, known = -1, set[str]()

        def begins() -> None:
            self.place[:] = struct.pack("=qd", number, time.monotonic())

        inputs = Inputs(self.root, scratch, begins)
        for name in [self.only] if self.only else READERS:
            inputs.read(name, inputs.right(name)[0])  # what is loaded once is no growth
        with open(pipe, "wb", buffering=0) as told, open(self.jobs, "rb") as jobs:  # noqa: PTH123
            told.write(b'{"ready": true}\n')
            while numbers := jobs.readline().split():
                first, end, *dead = map(int, numbers)
                counts: Counter[str] = Counter()
                for number in sorted({*range(first, end)} - {*dead}):
                    before = peak()
                    name, content = inputs.make(self.seed, number, self.only)
                    failure = inputs.read(name, content)
                    counts[name] += 1
                    if not failure and peak() - before > GROWTH:
                        failure = f"grew: by {peak() - before:,} bytes"
                    if failure and (kind := f"{name} {kind_of(failure)}") not in known:
                        known.add(kind)
                        if not failure.startswith("grew"):
                            content = smaller(inputs, name, content, failure)
                        found = {"reader": name, "number": number, "failure": failure, "kept": keep(name, content)}
                        told.write(json.dumps({"failed": found}).encode() + b"\n")
                    counts["failed"] += bool(failure)
                number = -1
                begins()
                told.write(json.dumps({"counts": counts}).encode() + b"\n")
        shutil.rmtree(scratch, ignore_errors=True)

    def give(self, block: int, *numbers: int) -> None:
        """The first input, the end, and those between that have ended a process before."""
        self.block = block
        os.write(self.wanted, " ".join(map(str, numbers)).encode() + b"\n")

    def hangs(self) -> int | None:
        """The number that it has been reading for too long."""
        number, since = struct.unpack("=qd", self.place[:])
        return number if number >= 0 and time.monotonic() - since > HANG else None

    def end(self) -> None:
        os.write(self.wanted, b"\n")  # to close it would not do: processes that were forked later have it, too
        os.close(self.wanted)
        os.waitpid(self.pid, 0)
        os.close(self.lines)


def keep(name: str, content: bytes) -> str:
    if len(content) > LARGEST:
        return f"{len(content):,} bytes, too large to keep"
    CORPUS.mkdir(exist_ok=True)
    path = CORPUS / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}.bin"
    path.write_bytes(content)
    return path.name


@dataclass
class Fuzzing:
    """Blocks of inputs, handed to processes; what came of them."""

    root: Path
    seed: int
    count: int
    jobs: int
    only: str = ""
    state: Path | None = None
    done: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.counts.values()) - self.counts["failed"]

    def load(self) -> None:
        if self.state is not None and self.state.exists():
            plain = json.loads(self.state.read_text())
            if (plain["seed"], plain["only"]) != (self.seed, self.only):
                raise SystemExit(f"{self.state}: of seed {plain['seed']} and readers {plain['only'] or 'all'}")
            self.done, self.counts, self.failures = set(plain["done"]), Counter(plain["counts"]), plain["failures"]

    def save(self) -> None:
        if self.state is not None:
            plain = {
                "seed": self.seed,
                "only": self.only,
                "done": sorted(self.done),
                "counts": self.counts,
                "failures": self.failures,
            }
            part = self.state.with_suffix(".part")
            part.write_text(json.dumps(plain))
            part.replace(self.state)

    def run(self, progress: Callable[[str], None]) -> None:
        blocks = [b for b in reversed(range(-(-self.count // BLOCK))) if b not in self.done]
        workers = [Worker(self.root, self.seed, self.only) for _ in range(self.jobs)]
        begun, saved, total = time.monotonic(), time.monotonic(), self.total
        while workers:
            ready, _, _ = select.select([worker.lines for worker in workers], [], [], 0.5)
            for worker in [one for one in workers if one.lines in ready]:
                data = os.read(worker.lines, 1 << 16)
                *lines, worker.left = (worker.left + data).split(b"\n")
                if not data:
                    self.died(workers, worker, blocks)
                for line in lines:
                    self.heard(worker, json.loads(line), blocks, workers)
            for worker in [one for one in workers if one.hangs() is not None]:
                os.kill(worker.pid, signal.SIGKILL)  # it is then noticed as one that has died
            if time.monotonic() - saved > 5:
                saved, now = time.monotonic(), self.total
                self.save()
                speed = (now - total) / (saved - begun)
                progress(f"{now:,} of {self.count:,}, {speed:,.0f} a second, {len(self.failures)} failures")
        self.save()

    def heard(self, worker: Worker, plain: dict[str, Any], blocks: list[int], workers: list[Worker]) -> None:
        if "failed" in plain:
            self.failed(plain["failed"])
            return
        if "counts" in plain:
            self.counts.update(plain["counts"])
            self.done.add(worker.block)
        if not blocks:
            workers.remove(worker)
            worker.end()
            return
        first, end = blocks[-1] * BLOCK, min(self.count, (blocks[-1] + 1) * BLOCK)
        dead = [one["number"] for one in self.failures if one["failure"].startswith(("hung", "crashed"))]
        worker.give(blocks.pop(), first, end, *(number for number in dead if first <= number < end))

    def failed(self, found: dict[str, Any]) -> None:
        if found["number"] not in [
            one["number"] for one in self.failures
        ]:  # one that was stopped amid a block says it again
            self.failures.append(found)
            print(found, file=sys.stderr, flush=True)

    def died(self, workers: list[Worker], worker: Worker, blocks: list[int]) -> None:
        """Killed because it hung, or by itself: the input is kept, and another process reads the rest of its block."""
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        number, since = struct.unpack("=qd", worker.place[:])
        if number < 0:
            raise SystemExit(f"a process ended by itself, status {status}")
        name, content = Inputs(self.root, self.root).make(self.seed, number, self.only)
        took = time.monotonic() - since
        failure = f"hung: for {took:.0f} s" if status == -signal.SIGKILL else f"crashed: status {status}"
        found = {"reader": name, "number": number, "failure": failure, "kept": keep(name, content)}
        self.failed(found)
        self.counts.update([name, "failed"])
        blocks.append(worker.block)
        os.close(worker.lines)
        os.close(worker.wanted)
        workers[workers.index(worker)] = Worker(self.root, self.seed, self.only)


def in_a_process(work: Callable[[], None]) -> None:
    """JAX computes there, and this process can still be forked."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("the right inputs could not be written")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, help="a file that says how far it is; goes on from there")
    parser.add_argument("--reader", default="", help=f"this one alone: {', '.join(READERS)}")
    parser.add_argument("--json", action="store_true", help="last line of stdout is one JSON object")
    chosen = parser.parse_args()
    shared = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="glassformer-fuzz-", dir=shared if shared.is_dir() else None))
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what lies in memory is removed
    try:
        in_a_process(lambda: write_seeds(root))
        fuzzing = Fuzzing(root, chosen.seed, chosen.count, chosen.jobs, chosen.reader, chosen.state)
        fuzzing.load()
        fuzzing.run(lambda line: print(line, file=sys.stderr, flush=True))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    failed = fuzzing.counts.pop("failed", 0)
    for name, count in sorted(fuzzing.counts.items()):
        print(f"{name:24}{count:10,}")
    for failure in fuzzing.failures:
        print(f"{failure['reader']} {failure['number']}: {failure['failure']} ({failure['kept']})")
    print(f"{fuzzing.total:,} inputs, {failed:,} failed, {time.monotonic() - begun:.0f} s")
    if chosen.json:
        print(json.dumps({"counts": fuzzing.counts, "failures": fuzzing.failures}))
    return int(bool(fuzzing.failures))


if __name__ == "__main__":
    sys.exit(main())
