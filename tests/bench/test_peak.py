"""The multiply-adds of a training step, and the loop that measures how many a machine can do."""

import pytest

from glassformer.bench import peak
from glassformer.models import MLP, PatchAttention, ViT

from .bench_command import needs_c_compiler


def test_a_step_of_patch_attention() -> None:
    """docs/costs.md: 177,344 forward, twice that backward, but nobody needs the gradient of the patches."""
    assert peak.multiply_adds(PatchAttention()) == 3 * 177_344 - 12_544


@pytest.mark.parametrize("depth", [1, 3])
def test_a_step_of_a_vision_transformer_by_formula(depth: int) -> None:
    T, P, C, F, K = 49, 16, 24, 40, 10
    patch, block, head = T * P * C, T * (4 * C * C + 2 * C * F) + 2 * T * T * C, C * K
    assert peak.multiply_adds(ViT(width=C, hidden=F, heads=3, depth=depth)) == 2 * patch + 3 * (depth * block + head)


def test_a_step_of_a_perceptron() -> None:
    assert peak.multiply_adds(MLP(hidden=(7,))) == 2 * 784 * 7 + 3 * 7 * 10


@needs_c_compiler
def test_the_loop_does_what_it_counts() -> None:
    """Each chain halves its distance to 1, in every lane; chain i begins at i."""
    in_a_round = peak.Loop(1, print, rounds=1).multiply_adds
    far = peak.Loop(3, print, rounds=60)
    assert far() == [float(in_a_round)] * 3
    assert far.multiply_adds == 3 * 60 * in_a_round
    lanes = next(lanes for lanes in (1, 4, 8, 16) if in_a_round in (12 * lanes, 16 * lanes))
    chains = in_a_round // lanes
    assert peak.Loop(1, print, rounds=1)() == [lanes * sum(0.5 * i + 0.5 for i in range(chains))]
