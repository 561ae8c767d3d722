"""Commands that are disturbed at random moments, and go on: what comes of them is what comes of an undisturbed one.

    python -m tests.faults.kills --count 100 --seed 0 --jobs 2

kill        `kill -9`, once or several times in a row
full        no space is left from some moment on, or for files of some size
read-only   the folder may not be written to when the command goes on
slow        a disk that takes its time, and `kill -9`
two         two processes at once: new runs, two that resume, one beside a live one
"""

import argparse
import ctypes
import errno
import json
import os
import random
import resource
import shutil
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from .forked import Command, Ended, Fault, import_once
from .kinds import KINDS, OUT, acknowledged, content, differences, lost, write_inputs

CAPABILITIES = 0x20080522  # version 3 of the call


@dataclass
class Case:
    """One run that is disturbed: what happened, and what went wrong."""

    work: Path
    fault: str
    kind: str
    number: int
    times: int  # that it is killed
    reference: dict[str, Any]
    seconds: float  # that it usually takes
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.fault} {self.kind} {self.number}")
        self.command = KINDS[self.kind].command(self.number, self.work)
        self.new_folder()

    def new_folder(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.fault}-{self.kind}-", dir=self.work / "cases"))
        self.kept: list[dict[str, list[Any]]] = []

    def start(self, command: str, fault: Fault | None = None) -> Command:
        return Command(command.split(), self.folder, fault)

    def told(self, ended: Ended, *allowed: int) -> Ended:
        if ended.problem:
            self.problems.append(ended.problem)
        elif not ended.was_killed and ended.status not in allowed:
            self.problems.append(f"exit status {ended.status}: {ended.said[-500:]}")
        return ended

    def kill(self, fault: Fault | None = None) -> bool:
        """Begin, or go on, and be killed at a random moment; False: it was over before."""
        command = KINDS[self.kind].goes_on(self.folder, self.command)
        if command is None:
            return False
        running = self.start(command, fault)
        ended = running.wait(self.random.uniform(0, self.seconds)) or running.kill()
        self.told(ended, 0)
        if not ended.was_killed:
            if command == self.command:
                self.seconds = min(self.seconds, ended.seconds)
            return False
        self.counts["kills"] += 1
        self.kept.append(acknowledged(self.folder))
        return True

    def finish(self) -> None:
        """Go on, undisturbed, to the end, and compare."""
        command = KINDS[self.kind].goes_on(self.folder, self.command)
        if command is None:
            self.counts["was done"] += 1
        else:
            ended = self.told(self.start(command).end(), 0)
            over = (command == self.command and self.kind != "investigate") or "starts over" in ended.said
            self.counts["started over" if over else "resumed"] += 1
        if not self.problems:
            self.compare(OUT)

    def compare(self, name: str) -> None:
        found = content(self.folder / name)
        self.problems += differences(found, self.reference)
        after = acknowledged(self.folder)
        for before in self.kept:
            self.problems += lost(before, after)

    def result(self) -> dict[str, Any]:
        self.counts["cases"] += 1
        self.counts["differences"] += len(self.problems)
        if not self.problems:
            shutil.rmtree(self.folder)
        where = f"{self.fault} {self.kind} {self.number} in {self.folder}"
        problems = [f"{where}: {one}" for one in self.problems]
        return {"fault": self.fault, "kind": self.kind, "counts": self.counts, "problems": problems}


def kill(case: Case) -> None:
    while case.counts["kills"] < case.times:
        if not case.kill(often_saved if case.number % 3 == 0 else None):
            case.compare(OUT)  # it was over before: nothing may be wrong with it, and another one is killed
            shutil.rmtree(case.folder)
            case.new_folder()
    case.finish()


def often_saved() -> None:
    """States of every moment, not only of the ends of epochs."""
    from glassformer.train import loop

    loop.CHUNK_SECONDS = loop.SAVE_SECONDS = 0.0


def full(case: Case) -> None:
    calls, size = case.random.randint(1, 40), int(10 ** case.random.uniform(1, 5))
    by_size = case.number % 2

    def no_space() -> None:
        if by_size:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            return
        done, fsync = count(1), os.fsync

        def full_now(handle: int) -> None:
            if next(done) >= calls:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(handle)

        os.fsync = full_now

    ended = case.told(case.start(case.command, no_space).end(), 0, 1)
    case.counts["refused" if ended.status else "unhurt"] += 1
    case.kept.append(acknowledged(case.folder))
    case.finish()


def read_only(case: Case) -> None:
    if case.number % 2:
        case.kill()
    command = KINDS[case.kind].goes_on(case.folder, case.command)
    if command is not None:
        folders = [case.folder, *(path for path in case.folder.rglob("*") if path.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        ended = case.told(case.start(command, without_privileges).end(), 1)
        case.counts["refused" if ended.status else "unhurt"] += 1
        for folder in folders:
            folder.chmod(0o777)
    case.finish()


def without_privileges() -> None:
    """Root may write to everything, unless it gives up its capabilities."""
    if os.geteuid() == 0:
        header = struct.pack("=Ii", CAPABILITIES, 0)
        ctypes.CDLL(None).capset(header, bytes(24))


def slow(case: Case) -> None:
    case.kill(slow_disk)
    case.kill(slow_disk)
    case.finish()


def slow_disk() -> None:
    fsync = os.fsync

    def slowly(handle: int) -> None:
        time.sleep(random.uniform(0, 0.02))
        fsync(handle)

    os.fsync = slowly


def two(case: Case) -> None:
    """Both at once; then, where neither was told to wait, the same again to the end."""
    trains = case.kind in ("train-native", "train-jax", "seeds")
    if trains and case.number % 3 == 0:
        two_new_runs(case)
        return
    if case.number % 3 == 1:
        case.kill()
    commands = [KINDS[case.kind].goes_on(case.folder, case.command) or case.command] * 2
    first = case.start(commands[0], slow_disk)
    if case.number % 3 == 2:
        time.sleep(case.random.uniform(0, case.seconds))
        commands[1] = KINDS[case.kind].goes_on(case.folder, case.command) or case.command
    ended = [first, case.start(commands[1], slow_disk)]
    for command in ended:
        outcome = case.told(command.end(), 0, 1)
        case.counts["refused" if outcome.status else "to the end"] += 1
    case.finish()


def two_new_runs(case: Case) -> None:
    """Without --out: each has a folder of its own."""
    command = case.command.replace(f" --out {OUT}", "")
    for running in [case.start(command, slow_disk), case.start(command, slow_disk)]:
        case.told(running.end(), 0)
        case.counts["to the end"] += 1
    made = sorted((case.folder / "runs").iterdir())
    if len(made) != 2:
        case.problems.append(f"two runs, and {len(made)} folders: {made}")
    for one in made:
        one.rename(case.folder / OUT)
        for metrics in (case.folder / OUT).rglob("metrics.json"):
            metrics.write_text(metrics.read_text().replace(f'"runs/{one.name}', f'"{OUT}'))
        case.compare(OUT)
        (case.folder / OUT).rename(one)


FAULTS: dict[str, Callable[[Case], None]] = {
    "kill": kill,
    "full": full,
    "read-only": read_only,
    "slow": slow,
    "two": two,
}


def in_processes(jobs: int, tasks: list[Any], work: Callable[[Any], Any]) -> Iterator[Any]:
    """What comes of every task, as it comes; each process takes every n-th."""
    pipe_out, pipe_in = os.pipe()
    pids = []
    for worker in range(min(jobs, len(tasks))):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for task in tasks[worker::jobs]:
                    line = json.dumps(work(task)).encode() + b"\n"
                    while line:
                        line = line[os.write(pipe_in, line) :]
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        pids.append(pid)
    os.close(pipe_in)
    with os.fdopen(pipe_out, "rb") as lines:
        for line in lines:
            yield json.loads(line)
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    if any(statuses):
        raise SystemExit("a process of the driver failed")


def in_one_process(work: Callable[[], None]) -> None:
    for _ in in_processes(1, [None], lambda _: work()):
        pass


def reference_of(work: Path, command: str) -> tuple[str, str, float]:
    """An undisturbed run, and how long it takes."""
    folder = Path(tempfile.mkdtemp(prefix="whole-", dir=work / "whole"))
    ended = Command(command.split(), folder).end()
    if ended.status or ended.problem:
        raise SystemExit(f"{command}: {ended.problem}\n{ended.said}")
    return command, str(folder / OUT), ended.seconds


def cases_of(fault: str, kind: str, amount: int, seed: int) -> Iterator[tuple[str, str, int, int]]:
    """So many kills, some of them of one run; of other faults, so many runs."""
    draw, number = random.Random(f"{seed} {fault} {kind}"), 1000 * seed
    while amount > 0:
        times = min(amount, draw.choice((1, 1, 2, 3))) if fault == "kill" else 1
        yield fault, kind, number, times
        number, amount = number + 1, amount - times


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=5, help="of each fault for each kind of command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--faults", default="kill", help=f"of {','.join(FAULTS)}, or all")
    parser.add_argument("--kinds-otherwise", default="", help="of commands, for other faults than kill")
    parser.add_argument("--jobs", type=int, default=2, help="commands at once")
    parser.add_argument("--json", action="store_true", help="last line of stdout is one JSON object")
    chosen = parser.parse_args()
    faults = list(FAULTS) if chosen.faults == "all" else chosen.faults.split(",")
    kinds, begun = chosen.kinds.split(","), time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="glassformer-faults-"))
    for name in ("cases", "whole"):
        (work / name).mkdir()
    import_once(work)
    in_one_process(lambda: write_inputs(work))
    otherwise = chosen.kinds_otherwise.split(",") if chosen.kinds_otherwise else kinds
    pairs = [(fault, kind) for fault in faults for kind in (kinds if fault == "kill" else otherwise)]
    tasks = [task for pair in pairs for task in cases_of(*pair, chosen.count, chosen.seed)]
    random.Random(chosen.seed).shuffle(tasks)  # quick ones and slow ones in every process
    commands = sorted({KINDS[kind].command(number, work) for _, kind, number, _ in tasks})
    whole = {
        command: (content(Path(folder)), seconds)
        for command, folder, seconds in in_processes(chosen.jobs, commands, lambda one: reference_of(work, one))
    }

    def disturbed(task: tuple[str, str, int, int]) -> dict[str, Any]:
        fault, kind, number, times = task
        case = Case(work, fault, kind, number, times, *whole[KINDS[kind].command(number, work)])
        FAULTS[fault](case)
        return case.result()

    counts: dict[str, Counter[str]] = {f"{fault} {kind}": Counter() for fault, kind in pairs}
    problems: list[str] = []
    for outcome in in_processes(chosen.jobs, tasks, disturbed):
        counts[f"{outcome['fault']} {outcome['kind']}"].update(outcome["counts"])
        problems += outcome["problems"]
        for problem in outcome["problems"]:
            print(problem, file=sys.stderr)
    for name, found in counts.items():
        print(f"{name:24}", ", ".join(f"{what} {amount}" for what, amount in sorted(found.items())))
    print(f"{len(problems)} problems, {time.monotonic() - begun:.0f} s" + (f"; see {work}" if problems else ""))
    if chosen.json:
        print(json.dumps({"counts": counts, "problems": problems, "seconds": time.monotonic() - begun}))
    if not problems:
        shutil.rmtree(work)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
