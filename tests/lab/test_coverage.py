"""Simulated studies whose effects are known: how often is the analysis right?

Each bound is the promise, or, where the promise is met exactly and not with room to spare, the promise and three
standard errors of the simulation. Seeded: a failure is a change of the code, not bad luck.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from glassformer.lab.ranks import ranks
from glassformer.lab.statistics import holm, interval, power, sign_flip_p

STUDIES = 40_000
Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def near_the_ceiling(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Accuracies around 95 %, in percent, with a long tail of worse ones; standard deviation about 1.9."""
    return 100 * expit(3.0 + 0.4 * rng.normal(size=shape))


def from_low_to_ceiling(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Paired differences: a baseline near 40 % against a factor near 95 %; what a seed is worth carries over."""
    luck, own, other = rng.normal(size=(3, *shape))
    low = 100 * expit(-0.4 + 0.05 * (math.sqrt(0.3) * luck + math.sqrt(0.7) * own))
    return 100 * expit(3.0 + 0.4 * (math.sqrt(0.3) * luck + math.sqrt(0.7) * other)) - low


@pytest.mark.parametrize("n", [6, 10, 12, 20])
@pytest.mark.parametrize("noise", [normal, from_low_to_ceiling, near_the_ceiling])
def test_95_percent_intervals_cover_93_to_97(noise: Noise, n: int) -> None:
    rng = np.random.default_rng(n)
    truth = noise(rng, (1_000_000,)).mean()
    low, high = interval(noise(rng, (STUDIES, n)))
    covered = ((low <= truth) & (truth <= high)).mean()
    print(f"{noise.__name__}, {n} seeds: covers {100 * covered:.2f} %")
    assert 0.93 <= covered <= 0.97


def test_the_simulation_would_see_an_interval_that_is_too_narrow() -> None:
    values = normal(np.random.default_rng(0), (STUDIES, 6))
    half = 1.96 * values.std(-1, ddof=1) / math.sqrt(6)  # of the normal distribution, not Student's
    assert (np.abs(values.mean(-1)) <= half).mean() < 0.93


@pytest.mark.parametrize("factors", [10, 25])
@pytest.mark.parametrize("noise", [normal, near_the_ceiling])
def test_false_alarms_in_a_family_that_shares_one_baseline(noise: Noise, factors: int) -> None:
    """No factor does anything. All are compared with the same runs, so that their differences go together."""
    studies = 4000
    rng = np.random.default_rng([factors, len(noise.__name__)])
    cells = noise(rng, (studies, factors + 1, 10))
    p = holm(sign_flip_p(cells[:, 1:] - cells[:, :1]))
    alarmed = (p <= 0.05).any(-1).mean()
    print(f"{noise.__name__}, {factors} factors: {100 * alarmed:.2f} % of studies have a false alarm")
    assert alarmed <= 0.05
    if factors == 25:  # there only ten seeds that all agree are an alarm, and how often they do can be told without us
        u = rng.uniform(size=(400_000, 10))  # the share of all runs that are worse than the baseline's, seed by seed
        expected = (1 - (1 - u.prod(-1) - (1 - u).prod(-1)) ** 25).mean()
        assert alarmed == pytest.approx(expected, abs=4 * math.sqrt(expected / studies))


def studies_with(effects: list[float], n: int, studies: int, seed: int, noise: Noise = normal) -> np.ndarray:
    """(studies, factors, n) differences that have a standard deviation of 1 and share half of their variance."""
    rng = np.random.default_rng(seed)
    shape = (studies, len(effects), n)
    shared, own = noise(rng, (studies, 1, n)), noise(rng, shape)
    spread = math.sqrt(2) * noise(np.random.default_rng(0), (1_000_000,)).std()
    return (own - shared) / spread + np.array(effects)[:, None]


def found(factors: int, real: int, n: int = 10, studies: int = 4000) -> float:
    effects = [1.5] * real + [0.0] * (factors - real)
    p = holm(sign_flip_p(studies_with(effects, n, studies, seed=100 * factors + n)))
    return float((p[:, :real] <= 0.05).mean())


@pytest.mark.parametrize(
    ("factors", "real", "n"),
    [
        (1, 1, 10),
        (5, 1, 10),
        (5, 3, 10),
        (10, 1, 12),
        (15, 1, 12),
        pytest.param(10, 3, 12, marks=pytest.mark.slow),
        pytest.param(15, 5, 12, marks=pytest.mark.slow),
    ],
)
def test_an_effect_of_one_and_a_half_deviations_is_found(factors: int, real: int, n: int) -> None:
    share = found(factors, real, n, studies=4000 if n <= 10 else 2000)
    print(f"{factors} factors, {real} real, {n} seeds: {100 * share:.1f} % found")
    assert share >= 0.8


@pytest.mark.parametrize(("factors", "lowest", "highest"), [(10, 0.65, 0.75), (15, 0.45, 0.55), (25, 0.45, 0.55)])
def test_what_ten_seeds_miss_in_a_large_family_is_known(factors: int, lowest: float, highest: float) -> None:
    """Below 80 %, and said so in the notes of a study: `power` must tell what happens."""
    share = found(factors, 1)
    print(f"{factors} factors, 1 real, 10 seeds: {100 * share:.1f} % found")
    assert lowest < share < highest
    assert power(10, factors) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(
    "truth",
    [[0.0] * 6, [3.0, 1.0, 1.0, 0.0], [8.0, 6.0, 4.0, 2.0, 2.0, 0.0], [4.0, 1.0, 0.5, 0.2, 0.0, 0.0, -1.0, -3.0]],
    ids=["all tied", "one tie", "ladder", "mixed"],
)
@pytest.mark.parametrize("noise", [normal, pytest.param(near_the_ceiling, marks=pytest.mark.slow)])
def test_rank_intervals_hold_the_true_ranks(truth: list[float], noise: Noise) -> None:
    """A tie has several true ranks: all of them must lie inside."""
    studies = 4000
    true = [(1 + sum(o > t for o in truth), len(truth) - sum(o < t for o in truth)) for t in truth]
    held = np.zeros((studies, len(truth)), bool)
    for study, values in enumerate(studies_with(truth, 10, studies, seed=7, noise=noise)):
        for rank in ranks({str(i): dict(enumerate(row)) for i, row in enumerate(values.tolist())}):
            best, worst = true[int(rank.factor)]
            held[study, int(rank.factor)] = rank.best <= best and worst <= rank.worst
    all_at_once = held.all(-1).mean()
    print(f"{noise.__name__}: each {100 * held.mean():.2f} %, all at once {100 * all_at_once:.2f} %")
    assert held.mean() >= 0.95
    assert all_at_once >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / studies)
