"""Run a plan: all cells with all seeds, side by side, every result safe on the disk as soon as it is there.

On a CPU many runs go on at once, one thread each, through joblib (with `cluster`, on a dask cluster). On a GPU cells of
equal shape and all their seeds are one program. What is in the folder already is not run again.
"""

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from glassformer.errors import EngineError, TrainingError
from glassformer.lab.analysis import analyse, undecided
from glassformer.lab.asked import Pair, asked, look_of, take_over
from glassformer.lab.check import check
from glassformer.lab.folder import begin, old_keys, remember_chance, with_arms
from glassformer.lab.gpu_study import GPUStudy
from glassformer.lab.one_run import loaded, train_one
from glassformer.lab.outcome import Chance, chance
from glassformer.lab.plan import Plan
from glassformer.lab.record import FILE, Record, Results
from glassformer.lab.schedule import Schedule, skipped
from glassformer.lab.scoring import scoring_of
from glassformer.lab.study import Study
from glassformer.lab.widen import as_widened_before, pilot, widened
from glassformer.lab.worker import with_code, working_for
from glassformer.registry import loaded_code
from glassformer.train.held_out import split
from glassformer.train.recipe import Recipe, with_seed
from glassformer.train.resolve import resolved
from glassformer.train.settings import to_plain

ANSWER_WITHIN = 20  # seconds until a cluster's scheduler must have answered
WORKERS_WITHIN = 60  # and its first worker must have come


class InterruptedStudyError(TrainingError):
    """Somebody asked it to stop; everything that was finished is on the disk."""


class Listener:
    """Told how a study goes. This one keeps quiet; the command line draws a bar."""

    def notice(self, text: str) -> None: ...
    def stage(self, total: int, done: int) -> None: ...
    def finished(self, title: str, record: Record, seconds_left: float) -> None: ...


def investigate(
    plan: Plan,
    folder: Path,
    *,
    jobs: int = 0,
    cluster: str = "",
    budget: float | None = None,
    listener: Listener | None = None,
    command: str = "",
) -> Study:
    """Run what is not there yet, and say what it means.

    jobs      runs at once on a CPU; 0: one for each core
    cluster   address of a dask scheduler, "tcp://host:8786"
    budget    seconds; what they do not suffice for is skipped, and said
    """
    listener = listener or Listener()
    known, first = begun_before(plan, folder), plan
    plan = with_arms(as_widened_before(plan, folder), folder)
    check(plan)
    if begin(plan, folder):
        listener.notice(f"{folder}: goes on with what is there")
    remember_chance(folder, chances(plan))
    results = Results(folder)
    if known:
        take_over(plan, results)
    schedule = Schedule(results, budget)
    schedule.undecided = lambda: undecided(plan, results)
    at_work = Work(plan, schedule, results, listener, jobs, cluster)
    at_work.widen(first, folder)
    plan = at_work.plan
    while at_work.go_on(lambda: asked(plan, results)):
        pass
    left_out = skipped(schedule, asked(plan, results))
    said = [f"{title}: {count} seeds" for title, count in left_out.items()]
    return analyse(plan, results, said, command, look_of(plan, results, time_is_up=bool(said)))


def begun_before(plan: Plan, folder: Path) -> bool:
    """By an earlier release, with data of one's own: its records are found by the path of the data."""
    return (folder / FILE).exists() and old_keys(plan, folder)


def chances(plan: Plan) -> dict[str, Chance]:
    """What guessing scores on the study's data."""
    data = loaded(plan.baseline)
    recipe = resolved(plan.baseline, data)
    _, held_out = split(recipe, data)
    parts = {"validation": held_out, "test": data.test}
    return {name: chance(recipe.task, samples) for name, samples in parts.items() if samples is not None}


class Work:
    """Runs what is asked for, here or elsewhere."""

    def __init__(
        self, plan: Plan, schedule: Schedule, results: Results, listener: Listener, jobs: int, cluster: str
    ) -> None:
        self.plan, self.schedule, self.results, self.listener = plan, schedule, results, listener
        self.jobs, self.cluster = jobs, cluster
        self.vmapped = jax.default_backend() != "cpu" and not cluster

    def widen(self, first: Plan, folder: Path) -> None:
        """Sweeps whose best value is at their edge get more values, and the study's plan says so."""
        while any(sweep.widen for sweep in self.plan.sweeps):
            pairs = pilot(self.plan)
            self.go_on(lambda pairs=pairs: pairs)
            self.plan, said = widened(self.plan, self.results, first)
            if not said or self.schedule.missing(pairs):
                return
            self.listener.notice(said)
            check(self.plan)
            begin(self.plan, folder)

    def go_on(self, ask: Callable[[], list[Pair]]) -> bool:
        """Run what is missing; whether anything was run: then more may be asked for."""
        before = len(self.results.records)
        pairs = ask()
        left = self.schedule.left(pairs)
        self.listener.stage(len(left) + before, before)
        with hearing_ctrl_c(self.schedule, self.listener):
            if self.vmapped:
                self.run_vmapped(ask)
            else:
                self.run_in_processes(pairs)
        if self.schedule.stopped:
            folder = self.results.path.parent
            raise InterruptedStudyError(
                f"stopped; {len(self.results.records)} runs are kept in {folder}, and the same command goes on from "
                f"there. What they say by now: glassformer investigate {folder} --report"
            )
        return len(self.results.records) > before

    def run_in_processes(self, pairs: list[Pair]) -> None:
        from joblib import Parallel, delayed

        def work() -> Iterator[Any]:
            while (job := self.schedule.next(pairs)) is not None:
                recipe = with_seed(job.cell.recipe, job.seed)
                given = (loaded_code(), train_one, job.cell.key, to_plain(on_one_thread(recipe)), scoring_of(self.plan))
                yield (
                    delayed(with_code)(*given) if self.cluster else delayed(working_for)(os.getpid(), with_code, *given)
                )

        with backend(self.cluster) as workers:
            count = workers or self.jobs or -1
            parallel: Any = Parallel(n_jobs=count, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)  # pyright: ignore
            with killed_is_explained():
                for record in parallel(work()):
                    self.keep(pairs, [record], count if count > 0 else cores())

    def run_vmapped(self, ask: Callable[[], list[Pair]]) -> None:
        """Runs of one shape together, as many as fit."""

        def asked_now() -> list[Pair]:
            pairs, there = ask(), len(self.results.records)
            self.listener.stage(len(self.schedule.missing(pairs)) + there, there)
            return pairs

        study = GPUStudy(
            self.schedule,
            asked=asked_now,
            keep=lambda pairs, records: self.keep(pairs, records, 1),
            scoring=scoring_of(self.plan),
        )
        study.run()
        if study.programs:
            self.listener.notice(
                f"{len(study.programs)} programs; {study.waited:.0f} s of waiting until one was compiled"
            )

    def keep(self, pairs: list[Pair], records: list[Record], at_once: int) -> None:
        self.results.add(records)
        left = self.schedule.missing(pairs)
        counts = Counter(job.cell.key for job in left)
        cells = {job.cell.key: job.cell for job in left}
        seconds = sum(self.schedule.cost(cells[key]) * count for key, count in counts.items()) / at_once
        titles = {job.cell.key: job.cell.title for pair in pairs for job in pair}
        for record in records:
            self.listener.finished(titles.get(record.key, record.key), record, seconds)


def on_one_thread(recipe: Recipe) -> Recipe:
    return replace(recipe, engine=replace(recipe.engine, threads=1))


@contextlib.contextmanager
def hearing_ctrl_c(schedule: Schedule, listener: Listener) -> Iterator[None]:
    """The first time, what is under way is finished and kept; the second time it is not."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be heard
        yield
        return

    def hear(number: int, frame: Any) -> None:
        if schedule.stopped:
            raise KeyboardInterrupt
        schedule.stopped = True
        listener.notice("stops when the runs under way are done; Ctrl-C again stops at once")

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def killed_is_explained() -> Iterator[None]:
    """A process that vanishes (the system kills those that take too much memory) cannot say which run it was in."""
    try:
        yield
    except BrokenProcessPool:
        raise EngineError(
            "a process that trained was killed, most likely because the memory was full; what is finished is kept. "
            "Start the same command again with fewer runs at once: --jobs 1"
        ) from None


@contextlib.contextmanager
def backend(cluster: str) -> Iterator[int]:
    """How many runs go on at once there; 0: on this machine, as asked."""
    if not cluster:
        yield 0
        return
    try:
        from distributed import Client
        from joblib import parallel_config
    except ImportError:
        raise EngineError("--cluster needs dask; pip install 'glassformer[cluster]'") from None
    try:
        client = Client(cluster, timeout=ANSWER_WITHIN)
    except (OSError, ValueError) as error:
        raise EngineError(
            f"--cluster: no dask scheduler answers at {cluster}: {error}; start one: dask scheduler, and then "
            "--cluster tcp://its-host:8786"
        ) from None
    try:
        client.wait_for_workers(1, timeout=WORKERS_WITHIN)
    except TimeoutError:
        client.close()
        raise EngineError(
            f"--cluster: the scheduler at {cluster} has no worker after {WORKERS_WITHIN} s; start some: "
            f"dask worker {cluster} --nthreads 1"
        ) from None
    with client, parallel_config(backend="dask"):
        threads: Any = client.nthreads()  # by worker
        yield max(sum(threads.values()), 1)


def cores() -> int:
    from joblib import cpu_count

    return cpu_count()
