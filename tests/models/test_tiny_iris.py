"""TinyIris: its values worked out once more in NumPy, its size, what it learns, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.models import Columns, TinyIris
from glassformer.models.summary import summarise

from .curves import by_backward, train

FLOWERS = Columns(mean=(5.8, 3.1, 3.8, 1.2), std=(0.8, 0.4, 1.8, 0.8))


def drawn(model):
    """Weights none of which is 0: a bias at its start hides mistakes."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(np.random.default_rng(0).normal(size=leaf.shape), jnp.float32),
        jax.eval_shape(model.init, jax.random.key(0)),
    )


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def one_row(params, row: np.ndarray) -> np.ndarray:
    h = np.maximum((row - FLOWERS.mean) / FLOWERS.std @ params.spread.w + params.spread.b, 0)
    tokens, attn = h.reshape(4, 8), params.attn
    q, k, v = (tokens @ w + b for w, b in ((attn.w_q, attn.b_q), (attn.w_k, attn.b_k), (attn.w_v, attn.b_v)))
    heads = [softmax(q[:, d] @ k[:, d].T / 2) @ v[:, d] for d in (slice(0, 4), slice(4, 8))]  # 2 is sqrt(4)
    z = np.concatenate(heads, axis=1) @ attn.w_o + attn.b_o
    return z.mean(axis=0) @ params.head.w + params.head.b


def test_values_are_those_of_numpy() -> None:
    model = TinyIris(FLOWERS)
    rows = np.random.default_rng(1).uniform(0, 8, size=(5, 4))
    params = drawn(model)
    logits, _ = model.forward(params, jnp.asarray(rows, jnp.float32))
    expected = [one_row(jax.tree.map(np.asarray, params), row) for row in rows]
    assert np.allclose(logits, expected, rtol=1e-4, atol=1e-4)


def test_it_is_as_small_as_on_paper() -> None:
    assert summarise(TinyIris()).total("parameters") == (4 * 32 + 32) + (4 * 8**2 + 4 * 8) + (8 * 3 + 3)
    assert "spread" in str(TinyIris())


def test_columns_of_any_scale_are_learned() -> None:
    """Three kinds, told apart by a small column beside a large one that says nothing."""
    draw = np.random.default_rng(0)
    kinds = np.arange(60) % 3
    small, large = 0.01 * (kinds + draw.normal(size=60) * 0.1), draw.normal(size=60) * 1000
    rows = np.stack([small, large], axis=1).astype(np.float32)
    spread = Columns(2, mean=tuple(rows.mean(0).tolist()), std=tuple(rows.std(0).tolist()))

    def last_loss(columns: Columns) -> float:
        model = TinyIris(columns)
        every_step = (np.broadcast_to(a, (200, *a.shape)) for a in (rows, kinds))
        return train(by_backward(model), optax.adam(1e-2), model.init(jax.random.key(0)), *every_step)[0][-1]

    assert last_loss(spread) < 0.1
    assert last_loss(Columns(2)) > 0.5  # as they come


@pytest.mark.parametrize(
    ("rows", "came"),
    [
        (jnp.zeros(4), r"float32 of shape \(4,\)"),
        (jnp.zeros((2, 5)), r"float32 of shape \(2, 5\)"),
        (jnp.zeros((2, 4), int), r"int32 of shape \(2, 4\)"),
    ],
    ids=["no batch", "a column too many", "whole numbers"],
)
def test_what_is_no_batch_of_rows_is_refused(rows, came: str) -> None:
    with pytest.raises(ShapeError, match=rf"TinyIris: {came} came, expected floats \(batch, 4\): .* row\[None\]"):
        TinyIris().forward(TinyIris().init(jax.random.key(0)), rows)


def test_settings_that_do_not_fit_are_refused() -> None:
    rows = jnp.zeros((2, 4))
    with pytest.raises(SettingError, match="a column that never changes has a std of 0: give it 1"):
        TinyIris(Columns(std=(1.0, 0.0, 1.0, 1.0))).forward(drawn(TinyIris()), rows)
    with pytest.raises(ShapeError, match="standardise columns: number of means is 3, expected 4; one for each column"):
        TinyIris(Columns(mean=(1.0, 2.0, 3.0))).forward(drawn(TinyIris()), rows)
    with pytest.raises(SettingError, match="columns: classes is 0, expected 1 or more"):
        Columns(classes=0)
