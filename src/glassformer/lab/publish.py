"""A study's report: what is incomplete says so first and replaces no better one; each report is a look that counts."""

import json
from dataclasses import replace
from pathlib import Path

from glassformer.errors import CheckpointError
from glassformer.lab.asked import seeds_done, under_way
from glassformer.lab.looks_log import LookedAt, add_look
from glassformer.lab.plan import FEWEST
from glassformer.lab.record import Results
from glassformer.lab.report import write_report
from glassformer.lab.study import Claim, Sentence, Study
from glassformer.lab.verdict import count

INCOMPLETE = "incomplete"  # the folder beside a better report


def publish(study: Study, results: Results) -> tuple[Study, dict[str, Path]]:
    """The study as it is reported, and where each file lies."""
    folder, runs = results.path.parent, sum(study.machines.values())
    if results.records and not runs:
        raise CheckpointError(
            f"{folder}: none of its {count(len(results.records), 'run')} belongs to a cell of its plan: the plan or "
            "the data was changed, or another release wrote them; nothing was written"
        )
    there, wanted = under_way(study.plan, results)
    if there < wanted:
        said = f"Incomplete: {there:,} of the {count(wanted, 'run')} that the plan asks for by now are there."
        counted = Claim("counted", (), {"there": float(there), "asked": float(wanted)}, "runs")
        sentences = (Sentence(said, -1, (counted,)), *study.sentences)  # before all others
        study = replace(study, answer=f"{said}\n\n{study.answer}" if study.answer else said, sentences=sentences)
    better = runs_reported(folder) > runs
    written = write_report(study, folder / INCOMPLETE if better else folder)
    seeds = seeds_done(study.plan, results)
    if study.plan.looks and not study.look.last:
        seeds = min(seeds, study.look.seeds)  # those that came since wait for the next look
    early = bool(study.plan.looks) and study.look.last and there < wanted
    if early or seeds >= FEWEST:
        add_look(folder, LookedAt(seeds, len(results.records), early=early, level=study.look.level))
    return study, written


def runs_reported(folder: Path) -> int:
    """By the report that is there; none: 0."""
    try:
        return sum(json.loads((folder / "results.json").read_text())["machines"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0
