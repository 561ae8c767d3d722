"""What a plan asks for by now: runs that are compared with each other, seed by seed, up to the next look.

What is combined depends on what was found, an arm's settings on its tuning runs, and at a look hopeless arms stop: so
this is asked again whenever runs are over, and answered from the records alone: any process finds the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from glassformer.lab.analysis import comparisons
from glassformer.lab.arms import is_open, settle, tuning_cells
from glassformer.lab.cells import Cell, Comparison, additions, cell, key_by_path
from glassformer.lab.folder import old_keys, save_arms
from glassformer.lab.looks import ONLY, Look, after_dearer, after_early, look_now, looks, unplanned
from glassformer.lab.looks_log import LookedAt, Stopped, add_look, chance_to_help, read_looks
from glassformer.lab.plan import Plan
from glassformer.lab.record import Results
from glassformer.lab.scores import paired


class Job(NamedTuple):
    cell: Cell
    seed: int

    @property
    def place(self) -> tuple[str, int]:
        return self.cell.key, self.seed


Pair = tuple[Job, ...]  # both sides of a comparison with one seed: only together do they say anything


def asked(plan: Plan, results: Results) -> list[Pair]:
    """All of it, what is there already too. Arms are settled and looks are taken on the way."""
    while True:
        sides = [(cell(plan, ()),), *(parts_of(plan, one) for one in comparisons(plan, results))]
        arms = [(one.factors, one.group) for two in sides for one in two]
        if not settle(plan, results, arms):
            break
        save_arms(plan, results.path.parent)
    open_ = {(one.factors, one.group): None for two in sides for one in two if is_open(plan, (one.factors, one.group))}
    cells = {one.key: one for arm in open_ for one in tuning_cells(plan, arm)}
    tuning: list[Pair] = [(Job(one, seed),) for seed in plan.tune_seeds for one in cells.values()]
    sides = [two for two in sides if not any((one.factors, one.group) in open_ for one in two)]
    for count in plan.looks or (len(plan.seeds),):
        if count in results.looked and count < len(plan.seeds):
            continue  # what was added since gets all of its seeds
        found = [*tuning, *paired_jobs(plan, results, sides, count)]
        if any(job.place not in results for pair in found for job in pair):
            return found
        if count < len(plan.seeds):
            take_look(plan, results, count)
    return paired_jobs(plan, results, sides, len(plan.seeds))


def cells_of(plan: Plan, results: Results) -> list[Cell]:
    """All that the plan asks for by now, each once."""
    return list({job.cell.key: job.cell for pair in asked(plan, results) for job in pair}.values())


def paired_jobs(plan: Plan, results: Results, sides: Sequence[Sequence[Cell]], count: int) -> list[Pair]:
    """Seed by seed, so that whatever is there when time is up can be compared."""
    found = []
    for seed in plan.seeds[:count]:
        for two in sides:
            jobs = tuple({one.key: Job(one, seed) for one in two}.values())
            if all(seed in results.expected(job.cell.key, plan.seeds) for job in jobs):
                found.append(jobs)
    return found


def parts_of(plan: Plan, comparison: Comparison) -> tuple[Cell, ...]:
    """Both sides; of a pair also each of the two alone."""
    alone = [cell(plan, (name,), comparison.group) for name in comparison.factors] if comparison.kind == "pair" else []
    return comparison.without, comparison.with_, *alone


def take_look(plan: Plan, results: Results, count: int) -> None:
    """Note it, with the arms that stop."""
    folder = results.path.parent
    stopped = tuple(hopeless(plan, results, count)) if plan.futility else ()
    level = next(look.level for look in looks(plan.looks) if look.seeds == count)
    add_look(folder, LookedAt(count, len(results.records), stopped, level=level))
    results.looks = read_looks(folder)


def hopeless(plan: Plan, results: Results, count: int) -> Iterable[Stopped]:
    """Arms of the plan, which no other is compared with, that would hardly help at the end."""
    added = [one for one in additions(plan) if one.with_.key not in results.stopped]
    needed = {one.without.key for one in added}
    for one in added:
        new, differences = results.of(one.with_.key), paired(plan, results, one).differences
        gains = [differences[seed] for seed in plan.seeds[:count] if seed in differences]
        failed = all(new[seed].outcome in ("nan", "memory", "failed") for seed in plan.seeds[:count])
        probability = 0.0 if failed else chance_to_help(gains, len(plan.seeds), len(added))
        if one.with_.key not in needed and probability < plan.futility:
            reason = f"it would surely help at the end with probability {probability:.2g}"
            yield Stopped(one.with_.key, one.with_.title, count, reason)


def under_way(plan: Plan, results: Results) -> tuple[int, int]:
    """Runs that are there, and runs that the plan asks for by now."""
    places = {job.place for pair in asked(plan, results) for job in pair}
    return sum(place in results for place in places), len(places)


def seeds_done(plan: Plan, results: Results) -> int:
    """The first so many seeds have all that the plan names. What is combined of it is asked for when they are over."""
    there: dict[int, bool] = {}
    jobs = [job for pair in asked(plan, results) for job in pair]
    named = {side.key for one in additions(plan) for side in (one.without, one.with_)}
    for job in jobs:
        there[job.seed] = there.get(job.seed, True) and (job.place in results or job.cell.key not in named)
    done = 0
    while done < len(plan.seeds) and there.get(plan.seeds[done], False):
        done += 1
    return done


def look_of(plan: Plan, results: Results, time_is_up: bool = False) -> Look:
    """What this look may use: as the plan says; where it names none, half of what the one before it had.

    When time is up it is the last look, whatever is missing. A study that goes on after that pays for it.
    """
    done = seeds_done(plan, results)
    if plan.looks:
        early = [look.runs for look in results.looks if look.early]
        time_is_up = time_is_up or len(results.records) in early
        look = looks(plan.looks)[-1] if time_is_up else look_now(done, plan.looks)
        look = after_dearer(look, plan.looks, {one.seeds: one.level for one in results.looks if not one.early})
        return after_early(look, sum(runs < len(results.records) for runs in early)) if look.last else look
    earlier = [seeds for seeds in results.looked if seeds < done]
    return unplanned(earlier, done) if earlier else ONLY


def take_over(plan: Plan, results: Results) -> None:
    """Records under keys of a path are added under those of the content, which is what lies at that path now."""
    while True:
        cells = {job.cell.key: job.cell for pair in asked(plan, results) for job in pair}
        old = {key: results.of(key_by_path(cell.recipe)) for key, cell in cells.items() if not results.of(key)}
        new = [replace(record, key=key) for key, records in old.items() for record in records.values()]
        if not new:
            return
        results.add(new)


def open_study(plan: Plan, folder: Path) -> Results:
    """The records of a study, with its arms settled as they were."""
    results = Results(folder)
    if old_keys(plan, folder):
        take_over(plan, results)
    asked(plan, results)
    return results
