"""A study as it stands: what was found about every factor, in numbers and in words. The report draws it."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from glassformer.lab.cells import Cell, Comparison
from glassformer.lab.plan import Plan
from glassformer.lab.record import Record

Verdict = Literal[
    "explains",
    "contributes",
    "not distinguishable",
    "hurts",
    "diverges",
    "not decided",
    "more than the sum",  # of pairs, in place of the first two
    "less than the sum",  # of pairs, in place of "hurts": two that overlap may both be good
]


@dataclass(frozen=True)
class Effect:
    """Of paired differences, one for each seed, in percentage points of accuracy."""

    differences: tuple[float, ...]
    mean: float
    low: float  # 95 % interval
    high: float
    size: float  # mean over standard deviation of the differences (Cohen's d_z); infinite where they are all equal
    p: float  # exact sign-flip permutation, two-sided
    p_holm: float  # corrected over the family


@dataclass(frozen=True)
class Finding:
    """One comparison, decided."""

    comparison: Comparison
    effect: Effect | None  # None: fewer than three seeds have both sides
    word: Verdict
    evidence: str  # one sentence: "+38.6 points [36.1, 41.0], 10 of 10 seeds up, p = 0.004 after Holm"
    failures: int = 0  # seeds whose run with the factor failed
    to_target: tuple[float | None, float | None] = (
        None,
        None,
    )  # median epochs to the target, without and with; None: never


@dataclass(frozen=True)
class Rank:
    factor: str
    best: int  # 1 is the strongest; the interval of ranks that the data allow
    worst: int
    point: int  # by the mean alone


@dataclass(frozen=True)
class Summary:
    """Of one cell: what its seeds reached."""

    cell: Cell
    records: tuple[Record, ...]  # by seed; failed ones among them
    scores: np.ndarray  # percent, of those that went well, in the group's measure
    mean: float
    spread: float  # standard deviation, n - 1
    low: float  # 95 % interval of the mean
    high: float


@dataclass(frozen=True)
class Study:
    plan: Plan
    baseline: Summary
    cells: tuple[Summary, ...]  # every one that has any record, the baseline first
    findings: tuple[Finding, ...]  # in the order of the plan: add, then pairs, then remove
    ranks: tuple[Rank, ...]  # of the ranked factors that were decided, strongest first
    best: Summary | None
    answer: str  # a sentence, a paragraph with numbers, and what stands beside the question
    notes: tuple[str, ...] = ()  # what a reader must know: too few seeds, what failed, what was skipped and why
    seconds: float = 0.0  # of computing, over all runs
    machines: dict[str, int] = field(default_factory=dict)  # runs by machine
    command: str = ""  # that repeats it
