"""Run a plan: all cells with all seeds, side by side, every result safe on the disk as soon as it is there.

On a CPU many runs go on at once, one thread each, through joblib (with `cluster`, on a dask cluster). On a GPU cells of
equal shape and all their seeds are one program. What is in the folder already is not run again.
"""

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from glassformer.errors import EngineError, TrainingError
from glassformer.lab.analysis import analyse, comparisons, undecided
from glassformer.lab.cells import Cell, Comparison, cell
from glassformer.lab.check import check
from glassformer.lab.folder import begin
from glassformer.lab.gpu_study import GPUStudy
from glassformer.lab.one_run import train_one
from glassformer.lab.plan import Plan
from glassformer.lab.record import Record, Results
from glassformer.lab.schedule import Schedule, skipped
from glassformer.lab.study import Study
from glassformer.lab.worker import with_code, working_for
from glassformer.registry import loaded_code
from glassformer.train.loop import with_seed
from glassformer.train.recipe import Recipe
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
    check(plan)
    if begin(plan, folder):
        listener.notice(f"{folder}: goes on with what is there")
    results = Results(folder)
    schedule = Schedule(results, budget)
    schedule.undecided = lambda: undecided(plan, results)
    vmapped = jax.default_backend() != "cpu" and not cluster
    while True:
        cells = cells_of(plan, results)
        left = schedule.left(cells, plan.seeds)
        listener.stage(len(left) + len(results.records), len(results.records))
        before = len(results.records)
        with hearing_ctrl_c(schedule, listener):
            if vmapped:
                run_vmapped(plan, schedule, results, listener)
            else:
                run_in_processes(plan, cells, schedule, results, listener, jobs, cluster)
        if schedule.stopped:
            raise InterruptedStudyError(
                f"stopped; {len(results.records)} runs are kept in {folder}, and the same command goes on from there. "
                f"What they say by now: glassformer investigate {folder} --report"
            )
        if len(results.records) == before:
            break
    left_out = skipped(schedule, cells_of(plan, results), plan.seeds)
    return analyse(plan, results, [f"{title}: {count} seeds" for title, count in left_out.items()], command)


def cells_of(plan: Plan, results: Results) -> list[Cell]:
    """All that the plan asks for by now: what is combined depends on what was found."""
    unique: dict[str, Cell] = {one.key: one for one in [cell(plan, ())]}
    for comparison in comparisons(plan, results):
        for one in parts_of(plan, comparison):
            unique.setdefault(one.key, one)
    return list(unique.values())


def parts_of(plan: Plan, comparison: Comparison) -> list[Cell]:
    """Both sides; of a pair also each of the two alone."""
    alone = [cell(plan, (name,), comparison.group) for name in comparison.factors] if comparison.kind == "pair" else []
    return [comparison.without, comparison.with_, *alone]


def run_in_processes(
    plan: Plan, cells: list[Cell], schedule: Schedule, results: Results, listener: Listener, jobs: int, cluster: str
) -> None:
    from joblib import Parallel, delayed

    def work() -> Iterator[Any]:
        while (job := schedule.next(cells, plan.seeds)) is not None:
            recipe = with_seed(job.cell.recipe, job.seed)
            given = (loaded_code(), train_one, job.cell.key, to_plain(on_one_thread(recipe)))
            yield delayed(with_code)(*given) if cluster else delayed(working_for)(os.getpid(), with_code, *given)

    with backend(cluster) as workers:
        count = workers or jobs or -1
        parallel: Any = Parallel(n_jobs=count, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)  # pyright: ignore
        with killed_is_explained():
            for record in parallel(work()):
                keep(results, cells, plan, schedule, listener, [record], count if count > 0 else cores())


def run_vmapped(plan: Plan, schedule: Schedule, results: Results, listener: Listener) -> None:
    """Runs of one shape together, as many as fit."""

    def asked() -> list[Cell]:
        cells = cells_of(plan, results)
        listener.stage(len(cells) * len(plan.seeds), len(results.records))
        return cells

    study = GPUStudy(
        schedule,
        asked=asked,
        seeds=plan.seeds,
        keep=lambda cells, records: keep(results, cells, plan, schedule, listener, records, 1),
    )
    study.run()
    if study.programs:
        listener.notice(f"{len(study.programs)} programs; {study.waited:.0f} s of waiting until one was compiled")


def keep(
    results: Results,
    cells: list[Cell],
    plan: Plan,
    schedule: Schedule,
    listener: Listener,
    records: list[Record],
    at_once: int,
) -> None:
    results.add(records)
    left = schedule.left(cells, plan.seeds)
    counts = Counter(job.cell.key for job in left)
    costs = {job.cell.key: job.cell for job in left}
    seconds = sum(schedule.cost(costs[key]) * count for key, count in counts.items()) / at_once
    titles = {one.key: one.title for one in cells}
    for record in records:
        listener.finished(titles.get(record.key, record.key), record, seconds)


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
