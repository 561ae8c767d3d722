"""Simulated studies whose effects are known: how often is the analysis right?

What is promised holds at the seeds that a plan takes by default, `usual_seeds`, for every number of factors up to 40:
intervals cover 93-97 %, at most 5 % of studies without any effect have a false alarm, and one effect of 1.5 standard
deviations is found in 77 % of studies or more. Found means what the verdict asks for: Holm's p and the interval agree.
Skewed, bounded and collapsing scores, looks, choices and tuning: test_simulate.py.

Each bound is the promise, or, where the promise is met exactly and not with room to spare, the promise and three
standard errors of the simulation. Seeded: a failure is a change of the code, not bad luck.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

from glassformer.lab import simulate
from glassformer.lab.ranks import ranks
from glassformer.lab.sample_size import seeds_needed, usual_seeds
from glassformer.lab.statistics import holm, interval, power, sign_flip_p

STUDIES = 40_000
FAMILIES = range(1, 41)
# where the usual number of seeds is about to grow: there it is hardest to find anything
EDGES = [m for m in FAMILIES if usual_seeds(m + 1) > usual_seeds(m)] + [max(FAMILIES)]
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


@pytest.mark.parametrize("n", sorted({6, 20, *map(usual_seeds, FAMILIES)}))
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


def sure(differences: np.ndarray) -> np.ndarray:
    """(studies, factors) of (studies, factors, n): what the analysis calls sure."""
    return simulate.sure(differences)


def alarms(noise: Noise, factors: int, n: int, studies: int) -> float:
    """No factor does anything. All are compared with the same runs, so that their differences go together."""
    cells = noise(np.random.default_rng([factors, n, len(noise.__name__)]), (studies, factors + 1, n))
    share = float(sure(cells[:, 1:] - cells[:, :1]).any(-1).mean())
    print(f"{noise.__name__}, {factors} factors, {n} seeds: {100 * share:.2f} % of studies have a false alarm")
    return share


@pytest.mark.parametrize("noise", [normal, near_the_ceiling])
@pytest.mark.parametrize("factors", [1, 2, 6, 11, *(pytest.param(m, marks=pytest.mark.slow) for m in EDGES if m > 11)])
def test_false_alarms_in_a_family_that_shares_one_baseline(noise: Noise, factors: int) -> None:
    """At the default seeds. One factor alone uses up the promise: there it is the promise and its standard errors."""
    studies = 4000 if factors <= 11 else 2000
    alarmed = alarms(noise, factors, usual_seeds(factors), studies)
    assert alarmed <= 0.05 + (3 * math.sqrt(0.05 * 0.95 / studies) if factors == 1 else 0.0)


def test_false_alarms_are_as_many_as_can_be_told_without_us() -> None:
    """Of 25 factors with ten seeds only seeds that all agree are an alarm: order them, and count."""
    studies, factors = 4000, 25
    u = np.random.default_rng(1).uniform(size=(400_000, 10))  # the share of all runs that are worse, seed by seed
    expected = (1 - (1 - u.prod(-1) - (1 - u).prod(-1)) ** factors).mean()
    cells = np.random.default_rng(3).normal(size=(studies, factors + 1, seeds_needed(factors)))
    alarmed = (holm(sign_flip_p(cells[:, 1:] - cells[:, :1])) <= 0.05).any(-1).mean()
    assert alarmed == pytest.approx(expected, abs=4 * math.sqrt(expected / studies))


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_a_choice_made_with_the_same_seeds_invents_no_help_on_top_of_it(levels: int) -> None:
    """The best of some equal levels was lucky, and its luck stands on the side that others must beat."""
    studies, factors, n = 3000, 6, usual_seeds(6)
    rng = np.random.default_rng(levels)
    cells = rng.normal(size=(studies, levels, n))
    first = np.take_along_axis(cells, cells.mean(-1).argmax(-1)[:, None, None], 1)
    on_top = rng.normal(size=(studies, factors, n)) - first
    helps = (sure(on_top) & (on_top.mean(-1) > 0)).any(-1).mean()
    print(f"best of {levels}: {100 * helps:.2f} % of studies find help that is none")
    assert helps <= 0.025 + 3 * math.sqrt(0.025 / studies)  # half of the alarms are on this side, if nothing is chosen


def studies_with(effects: list[float], n: int, studies: int, seed: int, noise: Noise = normal) -> np.ndarray:
    """(studies, factors, n) differences that have a standard deviation of 1 and share half of their variance."""
    rng = np.random.default_rng(seed)
    shape = (studies, len(effects), n)
    shared, own = noise(rng, (studies, 1, n)), noise(rng, shape)
    spread = math.sqrt(2) * noise(np.random.default_rng(0), (1_000_000,)).std()
    return (own - shared) / spread + np.array(effects)[:, None]


def found(factors: int, real: int, n: int, studies: int) -> float:
    effects = [1.5] * real + [0.0] * (factors - real)
    share = float(sure(studies_with(effects, n, studies, seed=100 * factors + n))[:, :real].mean())
    print(f"{factors} factors, {real} real, {n} seeds: {100 * share:.1f} % found")
    return share


@pytest.mark.parametrize(
    ("factors", "real"),
    [(1, 1), (6, 1), (6, 3), (11, 1), *(pytest.param(m, 1, marks=pytest.mark.slow) for m in EDGES if m > 11)],
)
def test_an_effect_of_one_and_a_half_deviations_is_found(factors: int, real: int) -> None:
    """At the default seeds, where a family is largest for them."""
    studies = 4000 if factors <= 11 else 2000
    assert found(factors, real, usual_seeds(factors), studies) >= 0.77


@pytest.mark.slow
def test_the_usual_seeds_have_power_for_every_family() -> None:
    shares = {factors: power(usual_seeds(factors), factors) for factors in FAMILIES}
    print({factors: f"{100 * share:.0f} %" for factors, share in shares.items()})
    assert min(shares.values()) >= 0.77
    assert all(usual_seeds(factors) >= max(10, seeds_needed(factors)) for factors in FAMILIES)
    fewer = [power(usual_seeds(m) - 1, m) for m in FAMILIES if usual_seeds(m) > 10]
    assert min(fewer) < 0.8  # and one less would not do, everywhere


@pytest.mark.slow
@pytest.mark.parametrize("factors", [*EDGES, 55, 85, 160])
def test_the_power_at_the_edges_is_no_luck_of_the_draw(factors: int) -> None:
    """Many more studies than `power` draws, of other numbers; no correction but Bonferroni's for one real effect."""
    n, studies = usual_seeds(factors), 40_000
    p = sign_flip_p(np.random.default_rng(factors).normal(1.5, 1.0, (studies, n)))
    share = (p <= 0.05 / factors).mean()
    print(f"{factors} factors, {n} seeds: {100 * share:.1f} %")
    assert share >= 0.8 - 3 * math.sqrt(0.8 * 0.2 / studies)


@pytest.mark.parametrize(("factors", "lowest", "highest"), [(10, 0.65, 0.75), (15, 0.45, 0.55), (25, 0.45, 0.55)])
def test_what_ten_seeds_miss_in_a_large_family_is_known(factors: int, lowest: float, highest: float) -> None:
    """Below 80 %, and said so in the notes of a study: `power` must tell what happens."""
    share = found(factors, 1, 10, 4000)
    assert lowest < share < highest
    assert power(10, factors) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(
    "truth",
    [
        pytest.param([0.0] * 6, id="all tied", marks=pytest.mark.slow),
        pytest.param([3.0, 1.0, 1.0, 0.0], id="one tie"),
        pytest.param([8.0, 6.0, 4.0, 2.0, 2.0, 0.0], id="ladder", marks=pytest.mark.slow),
        pytest.param([4.0, 1.0, 0.5, 0.2, 0.0, 0.0, -1.0, -3.0], id="mixed"),
    ],
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
