"""A study as it stands: what was found about every factor, in numbers and in words. The report draws it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from glassformer.lab.cells import Cell, Comparison
from glassformer.lab.looks import ONLY, Look
from glassformer.lab.plan import Plan
from glassformer.lab.record import Record

Verdict = Literal[
    "explains",
    "contributes",
    "no effect",  # surely smaller than the margin
    "hurts",
    "diverges",
    "not decided",
    "more than the sum",  # of pairs, in place of the first two
    "less than the sum",  # of pairs, in place of "hurts": two that overlap may both be good
]


class Estimate(NamedTuple):
    """With its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Effect:
    """Of paired differences, one for each seed, in the metric's unit and turned so that up is better."""

    differences: tuple[float, ...]
    mean: float
    low: float  # 95 % interval
    high: float
    size: float  # mean over standard deviation of the differences (Cohen's d_z); infinite where they are all equal
    p: float  # two-sided, held to sign flips and to the skewness of the family
    p_holm: float  # corrected over the family
    p_flip: float = math.nan  # exact sign flips alone
    p_same: float = math.nan  # that it is within ± margin (TOST), corrected over the family
    skewness: float = math.nan
    typical: Estimate | None = None  # interquartile mean
    improves: Estimate | None = None  # probability that a seed does better with it


@dataclass(frozen=True)
class Failures:
    """How many seeds gave no usable model, with the factor and without; seeds that have both."""

    with_: int
    without: int
    of: int
    rate: Estimate  # with it
    rate_without: Estimate
    p: float  # McNemar's, exact
    p_holm: float


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
    share: Estimate | None = None  # of the gap from its group's baseline
    failing: Failures | None = None  # None: no run failed on either side
    margin: float = 1.0  # what "no effect" is smaller than
    unit: str = "points"
    left_out: tuple[int, ...] = ()  # seeds that had a part in choosing what is compared


@dataclass(frozen=True)
class Rank:
    factor: str
    best: int  # 1 is the strongest; the interval of ranks that the data allow
    worst: int
    point: int  # by the mean alone
    tied: tuple[str, ...] = ()  # factors from which the corrected pairwise test does not tell it


@dataclass(frozen=True)
class Claim:
    """What a sentence says of some factors, the rule that it follows from, and the numbers that decide."""

    kind: str  # a rule of claims.py
    factors: tuple[str, ...]
    numbers: dict[str, float | None]
    where: str = "add"  # kind of comparison; "cell": of one cell
    group: str = ""


@dataclass(frozen=True)
class Sentence:
    text: str
    paragraph: int  # 0: in short, 1: the answer, 2: what stands beside the question
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Summary:
    """Of one cell: what its seeds reached."""

    cell: Cell
    records: tuple[Record, ...]  # by seed; failed ones among them
    scores: np.ndarray  # shown, in the group's measure, one a record; of a failed run what it counts as
    mean: float
    spread: float  # standard deviation, n - 1
    low: float  # 95 % interval of the mean
    high: float
    failing: Estimate | None = None  # share of runs without a usable model; None: none failed


class Point(NamedTuple):
    """Of an arm's grid: what its tuning runs reached."""

    changes: Mapping[str, Any]
    key: str  # of the cell
    scores: Mapping[int, float]  # shown, on validation, by tuning seed; a run that failed has none


@dataclass(frozen=True)
class Tuned:
    """An arm and what it was tuned over, before it was compared."""

    factors: tuple[str, ...]
    group: str
    points: tuple[Point, ...]
    chosen: int  # place of the best mean
    at_edge: tuple[str, ...]  # settings whose best value is the smallest or the largest tried
    about: str


@dataclass(frozen=True)
class Study:
    plan: Plan
    baseline: Summary
    cells: tuple[Summary, ...]  # every one that has any record, the baseline first
    findings: tuple[Finding, ...]  # in the order of the plan: add, then pairs, then remove
    ranks: tuple[Rank, ...]  # of the ranked factors that were decided, strongest first
    best: Summary | None
    answer: str  # a sentence, a paragraph with numbers, and what stands beside the question
    sentences: tuple[Sentence, ...] = ()  # of the answer, each with what it rests on
    warnings: tuple[str, ...] = ()  # where intervals and p may not hold: the data look like what was simulated to fail
    group_ranks: dict[str, tuple[Rank, ...]] = field(default_factory=dict)
    look: Look = ONLY
    tuned: tuple[Tuned, ...] = ()  # arms, where the plan tunes them
    failed: dict[tuple[str, int], str] = field(default_factory=dict)  # runs without a usable model, by place: why
    worst: dict[str, float] = field(default_factory=dict)  # shown, by measure: what a failed run counts as
    notes: tuple[str, ...] = ()  # what a reader must know: too few seeds, what failed, what was skipped and why
    seconds: float = 0.0  # of computing, over all runs
    machines: dict[str, int] = field(default_factory=dict)  # runs by machine
    command: str = ""  # that repeats it
