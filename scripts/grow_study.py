"""Grow a study where only the libraries of the lab are there, no command line: on a borrowed GPU, say.

    PYTHONPATH=src python scripts/grow_study.py attention-accuracy-tuned studies/attention-accuracy --budget 1400

The same as `glassformer investigate STUDY --plan PLAN`. Killed at any moment, the same command goes on.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

from glassformer.lab.plan import load_plan
from glassformer.lab.publish import publish
from glassformer.lab.record import Record, Results
from glassformer.lab.run import Listener, investigate

EVERY = 10.0  # seconds between two lines


class Lines(Listener):
    """Progress as lines on stderr."""

    def __init__(self) -> None:
        self.start, self.said, self.done, self.total = time.monotonic(), 0.0, 0, 0

    def notice(self, text: str) -> None:
        print(f"{time.monotonic() - self.start:6.0f} s  {text}", file=sys.stderr, flush=True)

    def stage(self, total: int, done: int) -> None:
        self.total, self.done = total, done

    def finished(self, title: str, record: Record, seconds_left: float) -> None:
        self.done += 1
        if record.failed:
            self.notice(f"{title}, seed {record.seed}: {record.failed}")
        elif time.monotonic() - self.said > EVERY:
            self.said = time.monotonic()
            self.notice(f"{self.done} of {self.total} runs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", help="a built-in plan, or a file")
    parser.add_argument("study", type=Path, help="its folder")
    parser.add_argument("--budget", type=float, help="seconds")
    chosen = parser.parse_args()
    plan = replace(load_plan(chosen.plan), name=chosen.study.absolute().name)
    command = f"glassformer investigate {chosen.study} --plan {chosen.plan}"
    before = len(Results(chosen.study).records)
    study = investigate(plan, chosen.study, budget=chosen.budget, listener=Lines(), command=command)
    results = Results(chosen.study)
    study, written = publish(study, results)
    print(study.answer)
    print(f"\n{before:,} runs were there, {len(results.records) - before:,} are new; wrote {written['report.html']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
