"""The classic cases: runs trained badly on purpose, each to be diagnosed rightly in under ten minutes on two cores.

    python scripts/classic_cases.py                       # all of them, on an idle machine
    python scripts/classic_cases.py small-rate text-rate --budget 3m
    python scripts/classic_cases.py --list
    python scripts/classic_cases.py --table               # of the results that are kept, as it stands in docs/lab.md

A case is a recipe, and what `glassformer diagnose` must find: a factor that surely helps, and is what is wrong.
Results are kept in studies/classic-cases.json, case by case.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.lab.plan import changed
from glassformer.train.presets import preset
from glassformer.train.run_folder import RunFolder

SURE = ("explains", "contributes")
LIMIT = 600  # seconds
KEPT = Path(__file__).parents[1] / "studies" / "classic-cases.json"


@dataclass(frozen=True)
class Case:
    about: str
    preset: str
    changes: dict[str, Any]
    finds: Callable[[list[str]], bool]  # of the factors that surely help, strongest first
    expected: str


def rate_of(factor: str) -> float | None:
    """
    >>> rate_of("rate 0.003"), rate_of("AdamW")
    (0.003, None)
    """
    return float(factor.removeprefix("rate ")) if factor.startswith("rate ") else None


def a_rate(low: float, high: float) -> Callable[[list[str]], bool]:
    """The best of the rates that help lies between, and nothing else helps more."""

    def finds(helping: list[str]) -> bool:
        return bool(helping) and (rate := rate_of(helping[0])) is not None and low <= rate <= high

    return finds


def both(helping: list[str]) -> bool:
    rates = [rate for one in helping if (rate := rate_of(one)) is not None]
    return any(rate >= 0.01 for rate in rates) and any("positions" in one for one in helping)


CASES = {
    "small-rate": Case(
        "vit-nano at a rate of 1e-5 for two epochs",
        "vit-nano",
        {"optimiser.lr": 1e-5, "training.epochs": 2},
        a_rate(2e-4, 0.05),
        "a rate from 2e-4 to 0.05",
    ),
    "diverges": Case(
        "vit-nano at a rate of 1, where it diverges",
        "vit-nano",
        {"optimiser.lr": 1.0, "training.epochs": 2},
        a_rate(1e-4, 0.1),
        "a rate from 1e-4 to 0.1",
    ),
    "zero-positions": Case(
        "patch attention with positions that start at zero, plain steps at 0.001",
        "attention-pool",
        {"optimiser.lr": 0.001, "model.start": "zero", "training.epochs": 5},
        both,
        "a rate of 0.01 or more, and other positions",
    ),
    "text-rate": Case(
        "gpt-nano at ten times its rate",
        "gpt-nano",
        {"optimiser.lr": 0.04},
        a_rate(5e-4, 0.015),
        "a rate from 5e-4 to 0.015",
    ),
    "few-labels": Case(
        "bert-nano that learns 26 languages from 300 labels",
        "bert-nano",
        {"task": "classify", "data": "places", "training.subset": 300, "training.epochs": 20},
        lambda helping: helping[:1] == ["four times the data"],
        "four times the data, before everything else",
    ),
}


def diagnosed(name: str, folder: Path, budget: str, jobs: int) -> dict[str, Any]:
    case = CASES[name]
    run = folder / name
    RunFolder(run).create(changed(preset(case.preset), case.changes, name))
    start = time.monotonic()
    words = ["diagnose", run.name, "--budget", budget, "--jobs", str(jobs), "--json"]
    result = subprocess.run(
        [sys.executable, "-m", "glassformer", *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    seconds = time.monotonic() - start
    found = json.loads(result.stdout.splitlines()[-1])
    helping = helping_in(found)
    right = case.finds(helping)
    return {
        "case": name,
        "right": right,
        "in time": seconds < LIMIT,
        "seconds": round(seconds),
        "runs": sum(found["machines"].values()),
        "expected": case.expected,
        "helping": helping,
        "answer": found["answer"],
    }


def helping_in(found: dict[str, Any]) -> list[str]:
    """Factors that surely help, added alone or on top of the first choice, strongest first."""
    sure = [one for one in found["findings"] if one["kind"] in ("add", "top") and one["word"] in SURE]
    by_kind = sorted(sure, key=lambda one: (one["kind"] != "add", -(one["effect"] or {"mean": 0.0})["mean"]))
    return [one["factors"][0] for one in by_kind]


def table(results: dict[str, Any]) -> str:
    """As it stands in docs/lab.md; of several rates that help, the best."""
    lines = ["| what is wrong | what surely helps, strongest first | runs | minutes |", "|---|---|--:|--:|"]
    for name, one in results.items():
        rates = [factor for factor in one["helping"] if rate_of(factor) is not None][1:]
        helping = dict.fromkeys(factor for factor in one["helping"] if factor not in rates)
        lines.append(f"| {CASES[name].about} | {', '.join(helping)} | {one['runs']} | {one['seconds'] / 60:.1f} |")
    return "\n".join(lines)


def kept(new: dict[str, Any] | None = None) -> dict[str, Any]:
    """By case, in their order, with a new one."""
    there = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    there |= {new["case"]: new} if new else {}
    return {name: there[name] for name in CASES if name in there}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--budget", default="8m")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="keep runs and studies here")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(f"{name:16} {case.about}" for name, case in CASES.items()))
        return 0
    if chosen.table:
        print(table(kept()))
        return 0
    if unknown := set(chosen.cases) - set(CASES):
        parser.error(f"no case is called {', '.join(sorted(unknown))}; known: {', '.join(CASES)}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.out or Path(temporary)
        results = []
        for name in chosen.cases or CASES:
            results.append(diagnosed(name, folder, chosen.budget, chosen.jobs))
            print(json.dumps(results[-1], ensure_ascii=False), flush=True)
            KEPT.write_text(json.dumps(kept(results[-1]), ensure_ascii=False, indent=1) + "\n")
    print(table(kept()))
    return 0 if all(one["right"] and one["in time"] for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
