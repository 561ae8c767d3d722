"""A study on a GPU: while one program trains, the next ones are compiled and the last one's runs are looked into.

Runs of one shape are a group, and one program. Groups are prepared by several threads (compilers work outside Python),
trained one after the other as they are ready, and written down by a thread of its own, which then asks the plan what
else is to be run: the next stage is compiled while groups that it does not wait for are trained.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax

from glassformer.data.dataset import Dataset
from glassformer.errors import GlassformerError
from glassformer.lab.asked import Job, Pair
from glassformer.lab.one_run import Outcome, loaded, looked_into, train_one
from glassformer.lab.plan import MAIN
from glassformer.lab.record import Record
from glassformer.lab.schedule import Schedule
from glassformer.lab.scoring import Scoring
from glassformer.lab.vmapped_runs import Runs, SharedEngine, on_cpu, shape_of
from glassformer.train.held_out import split
from glassformer.train.recipe import Recipe, with_seed
from glassformer.train.resolve import resolved

AT_ONCE = 192  # runs in one program
COMPILERS = 8  # programs that are compiled at once, at most

Keep = Callable[[list[Pair], list[Record]], None]


class Samples(NamedTuple):
    """What the runs of a group read: to train on, held out (or nothing), to test with."""

    train: Any
    held_out: Any
    test: Any


class Group(NamedTuple):
    """Runs of one shape, ready to be trained."""

    runs: Runs
    test: Any  # on the device
    shown: Any  # samples to look into the trained models with


class GPUStudy:
    def __init__(
        self, schedule: Schedule, asked: Callable[[], list[Pair]], keep: Keep, scoring: Scoring = Scoring()
    ) -> None:
        """`asked`: the runs that the plan asks for by now; `keep` takes records."""
        self.schedule, self.asked, self.keep, self.scoring = schedule, asked, keep, scoring
        self.engines: dict[Recipe, SharedEngine] = {}
        self.samples: dict[Any, Samples] = {}
        self.lock, self.making = threading.Lock(), threading.Lock()
        self.prepared: dict[Future[Group | None], list[Job]] = {}
        self.written: set[Future[None]] = set()
        self.programs: set[tuple[Recipe, int]] = set()
        self.waited = 0.0  # seconds, for compilers

    def run(self) -> None:
        with ThreadPoolExecutor(min(COMPILERS, os.cpu_count() or 1)) as self.compilers, ThreadPoolExecutor(1) as writer:
            self.writer = writer
            try:
                self.look_ahead()
                while not self.schedule.stopped and (group := self.next_group()) is not None:
                    self.train(*group)
                for write in self.written:
                    write.result()
            finally:  # of those that are stopped, what has begun is finished
                for pool in (self.compilers, writer):
                    pool.shutdown(cancel_futures=True)

    def look_ahead(self) -> None:
        """Prepare what the plan asks for. With a budget one group at a time: what comes next is decided by results."""
        asked = self.asked()
        while (first := self.schedule.next(asked)) is not None:
            jobs = [first, *more_like(first, self.schedule, asked)]
            with self.lock:
                self.prepared[self.compilers.submit(self.prepare, jobs)] = jobs
            if self.schedule.deadline is not None:
                return

    def next_group(self) -> tuple[Group | None, list[Job]] | None:
        """The first that is ready; of several, one that the next stage waits for. None: nothing is left."""
        start = time.monotonic()
        while True:
            self.written -= (over := {write for write in self.written if write.done()})
            for write in over:
                write.result()  # it raises what went wrong
            with self.lock:
                ready = [future for future in self.prepared if future.done()]
                if ready:
                    chosen = max(ready, key=lambda future: self.prepared[future][0].cell.group == MAIN)
                    jobs = self.prepared.pop(chosen)
                    self.waited += time.monotonic() - start
                    return chosen.result(), jobs
                under_way = [*self.prepared, *self.written]
            if not under_way:
                return None
            wait(under_way, return_when=FIRST_COMPLETED)

    def prepare(self, jobs: list[Job]) -> Group | None:
        """None: they cannot be trained together."""
        if not jobs[1:]:
            return None
        with contextlib.suppress(GlassformerError, jax.errors.JaxRuntimeError):
            data = loaded(jobs[0].cell.recipe)
            cells = {job.cell.key: job.cell for job in jobs}
            whole = {key: resolved(cell.recipe, data) for key, cell in cells.items()}
            recipes = [with_seed(whole[job.cell.key], job.seed) for job in jobs]
            here, there = self.samples_of(recipes[0], data)
            shared = self.engine_of(shape_of(recipes[0]), there.train, len(jobs))
            runs = Runs([job.cell.key for job in jobs], recipes, shared, there.held_out, self.scoring)
            scored = [samples for samples in there[1:] if samples is not None]
            for size in runs.sizes():
                self.programs.add((shared.recipe, size))
                shared.compile(size, scored)
            runs.start()
            return Group(runs, there.test, here.train if here.held_out is None else here.held_out)
        return None

    def samples_of(self, recipe: Recipe, data: Dataset) -> tuple[Samples, Samples]:
        """On the host, and on the device: there once for all groups."""
        here = Samples(*split(recipe, data), data.test)
        form = id(data), recipe.validation.share, recipe.training.subset, recipe.task
        with self.making:
            if form not in self.samples:
                self.samples[form] = jax.device_put(here)
            return here, self.samples[form]

    def engine_of(self, shape: Recipe, train: Any, runs: int) -> SharedEngine:
        with self.making:
            if shape not in self.engines:
                self.engines[shape] = SharedEngine(shape, train, runs)
            return self.engines[shape]

    def train(self, group: Group | None, jobs: list[Job]) -> None:
        """In one program; where that does not go, in turn, each with its own reason."""
        left = {job.place: job for job in jobs}
        if group is not None:
            with contextlib.suppress(GlassformerError, jax.errors.JaxRuntimeError):
                for ended in group.runs.finish(group.test):
                    self.write(ended, group.shown)
                    for outcome in ended:
                        del left[outcome.record.place]
        for job in left.values():
            self.write(
                [
                    Outcome(
                        train_one(job.cell.key, with_seed(job.cell.recipe, job.seed), self.scoring),
                        job.cell.recipe,
                        None,
                    )
                ]
            )
        if self.schedule.deadline is not None:
            wait(self.written)
            self.look_ahead()

    def write(self, outcomes: list[Outcome], shown: Any = None) -> None:
        self.written.add(self.writer.submit(self.put, outcomes, shown))

    def put(self, outcomes: list[Outcome], shown: Any) -> None:
        with on_cpu():
            records = [one.record if shown is None else looked_into(one, shown) for one in outcomes]
        self.keep(self.asked(), records)
        if self.schedule.deadline is None:
            self.look_ahead()


def more_like(first: Job, schedule: Schedule, asked: list[Pair]) -> Iterator[Job]:
    """Runs of the same shape that are left, as many as fit into a program."""
    left = schedule.left(asked)
    shapes = {key: shape_of(cell.recipe) for key, cell in {job.cell.key: job.cell for job in left}.items()}
    shape, count = shape_of(first.cell.recipe), 1
    for job in left:
        if count < AT_ONCE and shapes[job.cell.key] == shape:
            schedule.handed_out.add(job.place)
            count += 1
            yield job
