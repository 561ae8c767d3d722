"""Pre-trained against fresh weights: the arms differ in their first weights alone, and the interval is right."""

import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from glassformer.bench.contrastive import PAIRS, compare_retrieval
from glassformer.bench.contrastive import Result as Retrieval
from glassformer.bench.fine_tuning import Result, Tuning, compare, ratio_interval, unigram_entropy
from glassformer.cli.bench_fine_tuning import as_text, retrieval_text
from glassformer.data.dataset import Dataset
from glassformer.data.tokeniser_training import Characters
from glassformer.predict.run import load
from glassformer.shapes import Static
from glassformer.train.loop import Listener
from glassformer.train.presets import preset
from glassformer.train.settings import with_changes
from glassformer.train.tasks.masked import Rows
from glassformer.train.tune import Full

TUNING = Tuning("places", reading=1, task="classify", labelled=48, epochs=1, lr=1e-2)


def test_the_interval_is_students_of_the_paired_differences() -> None:
    scratch, tuned = (0.61, 0.58, 0.66, 0.6), (0.7, 0.66, 0.69, 0.71)
    lora = (0.69, 0.67, 0.69, 0.68)
    result = Result(TUNING, 2.0, 4.0, scratch, tuned, lora, learning=40, parameters=1000, optimiser_bytes=(8008, 328))
    expected = stats.ttest_rel(tuned, scratch).confidence_interval(0.95)
    assert result.interval == pytest.approx((expected.low, expected.high))
    assert f"{100 * expected.low:+.2f} to {100 * expected.high:+.2f} (paired)" in as_text(result)
    gain, adapter = (np.subtract(scores, scratch) for scores in (tuned, lora))
    assert result.kept == pytest.approx(adapter.mean() / gain.mean())
    for end in result.kept_interval:  # there the paired difference is just told from zero
        p: Any = stats.ttest_1samp(adapter - end * gain, 0)[1]
        assert p == pytest.approx(0.05)
    assert result.kept_interval[0] < result.kept < result.kept_interval[1]
    assert "40 of 1,000 parameters (4.0 %), optimiser memory 328 bytes for 8,008" in as_text(result)


def test_a_share_of_no_gain_has_no_ends() -> None:
    assert ratio_interval([0.1, 0.2, 0.1], [0.3, -0.2, 0.1]) == (-math.inf, math.inf)


def test_retrieval_before_and_after() -> None:
    before, after = 0.05, (0.41, 0.38, 0.44)
    result = Retrieval(PAIRS, candidates=312, before=before, after=after)
    expected = stats.ttest_rel(after, [before] * 3).confidence_interval(0.95)
    assert result.interval == pytest.approx((expected.low, expected.high))
    assert result.plain()["difference"] == pytest.approx(np.mean(np.subtract(after, before)))
    lines = retrieval_text(result).splitlines()
    assert lines[0] == "names: contrast, 3 epochs of 6,000 pairs, 3 seeds, 312 test pairs"
    assert lines[2] == "  tuned on pairs  recall@1 41.00 ± 3.00 %"
    assert f"{100 * expected.low:+.2f} to {100 * expected.high:+.2f} (one pre-training for all seeds)" in lines[3]


def test_what_frequencies_leave_open() -> None:
    tokeniser = Characters().train(["abc"])
    ids = np.array([[2, 5, 5, 6, 3], [2, 7, 3, 0, 0]], np.int32)
    keep = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool)
    rows = Rows(ids, keep, Static(4), Static(tokeniser.size))
    counts = Counter(dict.fromkeys(range(8), 1)) + Counter([5, 5, 6, 7])
    expected = -np.mean([math.log(counts[symbol] / counts.total()) for symbol in (5, 5, 6, 7)])
    assert unigram_entropy(Dataset("small", rows, rows, (), tokeniser)) == pytest.approx(expected)


@pytest.mark.slow
def test_both_arms_of_a_tuning(tmp_path: Path) -> None:
    small = ["model.width=8", "model.hidden=8", "model.heads=2", "model.depth=1", "training.samples=64"]
    [result] = compare((TUNING,), (3, 4), tmp_path, Listener(), with_changes(preset("bert-nano"), small))
    assert len(result.scratch) == len(result.tuned) == len(result.lora) == 2
    arms = [load(tmp_path / f"places-masked-{arm}/seed-4").recipe for arm in ("scratch", "tuned", "lora")]
    assert [bool(recipe.start) for recipe in arms] == [False, True, True]
    assert [recipe.tune == Full() for recipe in arms] == [True, True, False]
    assert result.optimiser_bytes[1] == 8 * result.learning + 8 < result.optimiser_bytes[0]
    assert arms[0].training == arms[1].training
    assert arms[0].optimiser == arms[1].optimiser
    assert arms[0].model == arms[1].model


@pytest.mark.slow
def test_a_tuning_on_pairs(tmp_path: Path) -> None:
    """Every seed goes on from one pre-training, which is not repeated."""
    small = ["model.width=8", "model.hidden=8", "model.heads=2", "model.depth=1", "training.samples=256"]
    tuning = replace(PAIRS, reading=1, samples=256, epochs=3)
    result = compare_retrieval(tuning, (3, 4), tmp_path, Listener(), with_changes(preset("bert-nano"), small))
    for seed, after in zip((3, 4), result.after, strict=True):
        run = load(tmp_path / f"places-masked-contrast/seed-{seed}")
        assert run.recipe.start == str(tmp_path / "places-masked")
        assert run.metrics["test_accuracy"] == pytest.approx(after)
        assert run.recipe.training.seed == seed
    assert 200 < result.candidates < 400
    assert 0 < result.before < 0.2
    shutil.rmtree(tmp_path / "places-masked-contrast")
    again = compare_retrieval(tuning, (3, 4), tmp_path, Listener())
    assert again == result
