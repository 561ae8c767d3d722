"""T5: who sees whom, what is refused, and a name for every tensor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import CheckpointError, SettingError, ShapeError
from glassformer.hub import t5
from glassformer.models import T5, Text
from glassformer.models.t5 import Inputs

from ..programs import forward

MODEL = T5(Text(vocabulary=11, context=9), width=6, hidden=7, heads=3, head_width=4, depth=2, buckets=8, reach=20)
SOURCE, TARGET = (jax.random.randint(jax.random.key(n), (2, n), 0, 11) for n in (7, 5))


@pytest.fixture(scope="module")
def params():
    return MODEL.init(jax.random.key(0))


def logits(params, source=SOURCE, target=TARGET, **keywords) -> np.ndarray:
    return np.asarray(forward(MODEL, params, Inputs(source, target), **keywords))


def changed(ids, place: int):
    return ids.at[:, place].set((ids[:, place] + 1) % 11)


def test_a_target_token_sees_itself_and_what_came_before(params) -> None:
    moved = np.abs(logits(params, target=changed(TARGET, 3)) - logits(params)).max(axis=(0, 2)) > 1e-6
    assert moved.tolist() == [False, False, False, True, True]


def test_every_target_token_sees_all_of_the_source_that_is_kept(params) -> None:
    assert (np.abs(logits(params, changed(SOURCE, 6)) - logits(params)).max(axis=(0, 2)) > 1e-6).all()
    keep = jnp.ones((2, 7), bool).at[:, 6].set(False)
    filled = logits(params, keep=keep)
    assert np.array_equal(logits(params, changed(SOURCE, 6), keep=keep), filled)
    assert np.allclose(filled, logits(params, SOURCE[:, :6]), atol=1e-5)


def test_what_is_refused(params) -> None:
    with pytest.raises(ShapeError, match="T5, source: 10 tokens came, the context is 9"):
        logits(params, source=jnp.zeros((2, 10), int))
    with pytest.raises(ShapeError, match="T5, target: int32 of shape"):
        logits(params, target=TARGET[0])
    with pytest.raises(SettingError, match="decoder_depth"):
        T5(decoder_depth=0)
    tensors = t5.to_tensors(MODEL, params)
    with pytest.raises(CheckpointError, match=r"'lm_head\.weight' is missing"):
        t5.from_tensors(T5(**{**vars(MODEL), "tied": False}), tensors)
    with pytest.raises(SettingError, match="feed_forward_proj: 'mish' came"):
        t5.model_from(t5.config_of(MODEL) | {"feed_forward_proj": "gated-mish"})


def test_tensors_and_settings_come_back(params) -> None:
    again = t5.from_tensors(t5.model_from(t5.config_of(MODEL)), t5.to_tensors(MODEL, params))
    assert jax.tree.all(jax.tree.map(np.array_equal, again, params))
