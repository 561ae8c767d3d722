"""Which run comes next: where it decides most for its time.

1. every cell gets three seeds, cheap cells first: without them there is no interval
2. then cells whose comparison is undecided, those first that cost the least
3. then everything that the plan asks for, seed by seed

Without a budget all of it is run, and the order does not matter to the result.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from glassformer.lab.cells import Cell
from glassformer.lab.plan import FEWEST
from glassformer.lab.record import Results


class Job(NamedTuple):
    cell: Cell
    seed: int

    @property
    def place(self) -> tuple[str, int]:
        return self.cell.key, self.seed


class Schedule:
    """Hands out runs, one at a time; a run is handed out once."""

    def __init__(
        self,
        results: Results,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.results, self.clock = results, clock
        self.deadline = None if seconds is None else clock() + seconds
        self.handed_out: set[tuple[str, int]] = set()
        self.stopped = False  # somebody asked for it: nothing more is handed out
        self.undecided: Callable[[], set[str]] = set  # keys of cells whose comparison is open

    def left(self, cells: Iterable[Cell], seeds: Iterable[int]) -> list[Job]:
        seeds = list(seeds)
        unique = {cell.key: cell for cell in cells}
        jobs = [Job(cell, seed) for seed in seeds for cell in unique.values()]
        return [job for job in jobs if job.place not in self.results and job.place not in self.handed_out]

    def next(self, cells: list[Cell], seeds: Iterable[int]) -> Job | None:
        """The next run, or None: all are done or under way, here or elsewhere, or there is no time for any."""
        self.results.refresh()
        jobs = [] if self.stopped else self.left(cells, seeds)
        if jobs and self.deadline is not None:
            jobs = self.most_urgent(jobs, self.deadline - self.clock())
        if not jobs:
            return None
        self.handed_out.add(jobs[0].place)
        return jobs[0]

    def most_urgent(self, jobs: list[Job], rest: float) -> list[Job]:
        """Those that there is time for, in the order of their urgency."""
        begun = Counter(key for key, _ in self.handed_out | set(self.results.records))
        costs = {job.cell.key: self.cost(job.cell) for job in jobs}
        affordable = [job for job in jobs if costs[job.cell.key] <= rest]
        undecided = self.undecided() if any(begun[job.cell.key] >= FEWEST for job in affordable) else set()

        def urgency(job: Job) -> tuple[int, float, int]:
            key = job.cell.key
            tier = 0 if begun[key] < FEWEST else 1 if key in undecided else 2
            return tier, costs[key], job.seed

        return sorted(affordable, key=urgency)

    def cost(self, cell: Cell) -> float:
        """Seconds, by what its seeds have taken; before that by what a step of a parameter has taken elsewhere."""
        own = [record.seconds for record in self.results.of(cell.key).values()]
        if own:
            return sum(own) / len(own)
        known = [record for record in self.results.records.values() if record.steps and record.parameters]
        if not known:
            return 0.0
        rates = sorted(record.seconds / (record.steps * record.parameters) for record in known)
        epochs = cell.recipe.training.epochs
        longest = max(record.steps / max(len(record.loss), 1) for record in known)
        return rates[len(rates) // 2] * epochs * longest * min(record.parameters for record in known)


def skipped(schedule: Schedule, cells: Iterable[Cell], seeds: Iterable[int]) -> Mapping[str, int]:
    """By the title of the cell: how many of its seeds were not run."""
    found: dict[str, int] = {}
    for job in schedule.left(cells, seeds):
        found[job.cell.title] = found.get(job.cell.title, 0) + 1
    return found
