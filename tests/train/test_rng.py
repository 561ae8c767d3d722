"""The xorshift generator against one written out here, and what it is used for: first weights and orders."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from glassformer.data import load
from glassformer.errors import CheckpointError, SettingError
from glassformer.layers.positions import Sinusoidal, Uniform, Xavier, Zero
from glassformer.models import MLP, PatchAttention
from glassformer.names import named_leaves
from glassformer.train import fit
from glassformer.train.loop import Listener
from glassformer.train.presets import preset
from glassformer.train.resolve import resolved
from glassformer.train.rng import Threefry, Xorshift, make_order
from glassformer.train.settings import with_changes

from .small import MNIST, needs_mnist


def draws(seed: int):
    """Marsaglia's three shifts on 64 bits; the high half of each state."""
    with np.errstate(over="ignore"):
        x = np.uint64(seed if seed else 11400714819323198485)
        while True:
            x = x ^ (x << np.uint64(13))
            x = x ^ (x >> np.uint64(7))
            x = x ^ (x << np.uint64(17))
            yield int(x >> np.uint64(32))


def uniform(source, shape: tuple[int, ...], limit: float) -> np.ndarray:
    one = [np.float32(draw >> 8) / np.float32(2**24) for draw in islice(source, int(np.prod(shape)))]
    low, high = np.float32(-limit), np.float32(limit)
    return np.array([low + (high - low) * unit for unit in one], np.float32).reshape(shape)


@pytest.mark.parametrize("seed", [0, 1, 42, 2**63 - 1])
def test_the_draws_are_those_of_xorshift(seed: int) -> None:
    generator = Xorshift(seed)
    assert [generator.draw() for _ in range(1000)] == list(islice(draws(seed), 1000))


def test_the_first_draws_by_hand() -> None:
    """Seed 1: 1 -> 1 ^ 2^13 -> ^ 64 -> ^ (2^17 + 2^30 + 2^23); nothing reaches the high half yet."""
    generator = Xorshift(1)
    generator.draw()
    assert generator.x == 0b1000000100000100010000001000001
    assert Xorshift(1).draw() == 0


@pytest.mark.parametrize("start", [Uniform(0.1), Uniform(0.5), Xavier(), Sinusoidal(), Zero()], ids=str)
def test_first_weights_are_drawn_in_the_published_order(start) -> None:
    model = PatchAttention(width=6, hidden=10, start=start)
    params = named_leaves(Xorshift(7).init(model))
    source = draws(7)
    order = ["patch.w", "positions.pos", "attn.w_q", "attn.w_k", "attn.w_v", "ff.w_up", "ff.w_down", "head.w"]
    for name in order:
        shape = params[name].shape
        limit = float(np.sqrt(np.float32(6) / np.float32(sum(shape))))
        if name == "positions.pos" and not isinstance(start, Xavier):
            if not isinstance(start, Uniform):
                np.testing.assert_allclose(params[name], start.table(None, *shape), atol=1e-6)
                continue
            limit = start.limit
        np.testing.assert_array_equal(params[name], uniform(source, shape, limit), err_msg=name)
    assert {name for name in params if name not in order} == {
        "patch.b", "attn.b_q", "attn.b_k", "attn.b_v", "ff.b_up", "ff.b_down", "head.b"
    }  # fmt: skip
    assert not any(np.any(params[name]) for name in params if name not in order)


def test_every_shuffle_goes_on_from_the_one_before() -> None:
    generator, source, order = Xorshift(3), draws(3), list(range(20))
    for epoch in (1, 2, 3):
        for i in range(19, 0, -1):
            j = next(source) % (i + 1)
            order[i], order[j] = order[j], order[i]
        assert generator.shuffled(epoch, 20).tolist() == order
        assert generator.current(epoch, 20).tolist() == order


def test_a_restored_generator_goes_on_where_it_stood() -> None:
    generator, other = Xorshift(5), Xorshift(99)
    generator.shuffled(1, 50)
    other.restore(generator.state())
    np.testing.assert_array_equal(other.shuffled(2, 50), generator.shuffled(2, 50))
    with pytest.raises(CheckpointError, match=r"the saved state has no 'order\.x'"):
        other.restore({})


def test_xorshift_is_for_the_model_it_was_published_with() -> None:
    with pytest.raises(SettingError, match="rng: xorshift repeats runs of patch_attention; this model is MLP"):
        Xorshift(1).init(MLP())


def test_threefry_orders_depend_on_seed_and_epoch_alone() -> None:
    assert isinstance(make_order("threefry", 1), Threefry)
    orders = {tuple(Threefry(seed).shuffled(epoch, 30)) for seed in (1, 2) for epoch in (1, 2)}
    assert len(orders) == 4
    assert all(sorted(order) == list(range(30)) for order in orders)
    np.testing.assert_array_equal(Threefry(1).shuffled(2, 30), Threefry(1).current(2, 30))


@needs_mnist
@pytest.mark.slow
def test_the_published_run_is_repeated(tmp_path) -> None:
    """Seed 42, sinusoidal positions, 54,000 of MNIST: loss 2.261042 and 21.48 % after one epoch."""
    data = load(str(MNIST))
    changes = ["model.start=sinusoidal", "training.seed=42", "training.epochs=1", "engine.rng=xorshift"]
    recipe = with_changes(preset("attention-pool"), [*changes, "validation.share=0.1"])
    recipe = resolved(replace(recipe, data=str(MNIST)), data)
    result = fit.train(recipe, data, tmp_path, Listener())
    assert result["loss"] == pytest.approx(2.2610, abs=3e-4)
    assert 100 * result["val_accuracy"] == pytest.approx(21.5, abs=0.2)
