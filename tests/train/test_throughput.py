"""The work of a sample is counted as the field counts it, and shown as a share of the device's peak."""

from dataclasses import dataclass

import pytest

from glassformer.models import GPT, Text
from glassformer.train.recipe import Engine, Recipe
from glassformer.train.tasks import NextToken
from glassformer.train.throughput import PEAK, Throughput, devices_of, peak_of, work_of_sample

GPT2 = GPT(Text(vocabulary=50304, context=1024), width=768, hidden=3072, heads=12, depth=12)


@dataclass
class Device:
    device_kind: str


def test_the_work_of_gpt_2_is_the_usual_formula() -> None:
    """6 N + 12 L C T for each token (nanoGPT's), N without positions, biases and norms; a multiply-add is two."""
    matrices = 12 * 12 * 768**2 + 50304 * 768
    per_token = 6 * matrices + 12 * 12 * 768 * 1024
    assert 2 * work_of_sample(Recipe(model=GPT2, task=NextToken())) == pytest.approx(1024 * per_token, rel=1e-3)


def test_tokens_and_the_share_of_the_peak_are_shown() -> None:
    speed = Throughput(Recipe(model=GPT2, task=NextToken()))
    assert speed.shown(500.0) == "512,000 tokens/s"  # of a CPU no peak is known
    speed.peak, speed.work = PEAK["H200"], work_of_sample(Recipe(model=GPT2, task=NextToken()))
    assert speed.shown(500.0) == "512,000 tokens/s (44 % of the peak)"
    assert Throughput(Recipe()).shown(1234.5) == "1,234 samples/s"


def test_peaks_are_known_by_the_device() -> None:
    assert peak_of([Device("NVIDIA H200")] * 2) == 2 * PEAK["H200"]
    assert peak_of([Device("a toaster")]) is None


def test_only_the_devices_of_the_mesh_count() -> None:
    assert len(devices_of(Recipe())) == 1
    assert len(devices_of(Recipe(engine=Engine(mesh="data=1")))) == 1
