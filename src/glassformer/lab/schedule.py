"""Which run comes next: where it decides most for its time. Both sides of a comparison are run with one seed before
another seed is begun: a run without its partner says nothing.

1. every comparison gets three seeds, cheap ones first: without them there is no interval
2. then those that are undecided, the cheapest first
3. then everything that the plan asks for, seed by seed

Without a budget all of it is run, seed by seed.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from glassformer.lab.asked import Job, Pair
from glassformer.lab.cells import Cell
from glassformer.lab.plan import FEWEST
from glassformer.lab.record import Results


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
        self.partners: list[Job] = []  # of runs that were handed out
        self.stopped = False  # somebody asked for it: nothing more is handed out
        self.undecided: Callable[[], set[str]] = set  # keys of cells whose comparison is open

    def missing(self, asked: Iterable[Pair]) -> list[Job]:
        """All that have no result yet, those under way too."""
        jobs = {job.place: job for pair in asked for job in pair}
        return [job for place, job in jobs.items() if place not in self.results]

    def left(self, asked: Iterable[Pair]) -> list[Job]:
        return [job for job in self.missing(asked) if job.place not in self.handed_out]

    def next(self, asked: Sequence[Pair]) -> Job | None:
        """The next run, or None: all are done or under way, here or elsewhere, or there is no time for any."""
        self.results.refresh()
        if self.stopped:
            return None
        jobs = [job for job in self.partners if job.place not in self.results and job.place not in self.handed_out]
        if not jobs and self.deadline is None:
            jobs = self.left(asked)[:1]
        elif not jobs:
            jobs = self.most_urgent(asked, self.deadline - self.clock() if self.deadline else 0)
        if not jobs:
            return None
        first, *self.partners = jobs
        self.handed_out.add(first.place)
        return first

    def most_urgent(self, asked: Sequence[Pair], rest: float) -> list[Job]:
        """What is left of the pair that decides most, of those that there is time for."""
        taken = self.handed_out | set(self.results.records)
        costs: dict[str, float] = {}
        begun: dict[tuple[str, ...], int] = {}
        open_: list[tuple[Pair, list[Job]]] = []
        for pair in asked:
            left = [job for job in pair if job.place not in taken]
            begun[keys_of(pair)] = begun.get(keys_of(pair), 0) + (not left)
            open_ += [(pair, left)] if left else []
        for _, left in open_:
            costs |= {job.cell.key: self.cost(job.cell) for job in left if job.cell.key not in costs}
        undecided = self.undecided() if any(count >= FEWEST for count in begun.values()) else set()

        def cost(left: list[Job]) -> float:
            return sum(costs[job.cell.key] for job in left)

        def urgency(item: tuple[Pair, list[Job]]) -> tuple[int, float]:
            pair, left = item
            few, open_here = begun[keys_of(pair)] < FEWEST, set(keys_of(pair)) <= undecided
            return 0 if few else 1 if open_here else 2, cost(left)

        affordable = [item for item in open_ if cost(item[1]) <= rest]
        return min(affordable, key=urgency)[1] if affordable else []

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


def keys_of(pair: Pair) -> tuple[str, ...]:
    return tuple(job.cell.key for job in pair)


def skipped(schedule: Schedule, asked: Iterable[Pair]) -> Mapping[str, int]:
    """By the title of the cell: how many of its seeds were not run."""
    found: dict[str, int] = {}
    for job in schedule.left(asked):
        found[job.cell.title] = found.get(job.cell.title, 0) + 1
    return found
