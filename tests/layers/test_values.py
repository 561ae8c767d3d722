"""What the layers compute, against numbers worked out by hand or written out another way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import (
    Attention,
    ClassToken,
    Dropout,
    Embedding,
    FeedForward,
    FirstToken,
    LayerNorm,
    Linear,
    MeanPool,
    MultiHeadAttention,
    Patches,
    Positions,
    RMSNorm,
    Softmax,
    Standardise,
    attention,
)
from glassformer.layers.positions import GridSinusoidal, Sinusoidal, Uniform, Xavier, Zero
from glassformer.losses import CrossEntropy, LabelSmoothing

KEY = jax.random.key(0)


def test_patches_are_cut_row_by_row() -> None:
    image = np.arange(2 * 28 * 28).reshape(2, 28, 28, 1).astype(np.float32)
    tokens, _ = Patches((28, 28, 1), 4).forward(None, jnp.asarray(image))
    assert tokens.shape == (2, 49, 16)
    for py, px in ((0, 0), (0, 6), (3, 2), (6, 6)):
        expected = [image[1, py * 4 + dy, px * 4 + dx, 0] for dy in range(4) for dx in range(4)]
        assert tokens[1, py * 7 + px].tolist() == expected


def test_patches_backward_puts_every_pixel_back() -> None:
    patches = Patches((8, 12, 3), 4)
    image = jnp.asarray(np.random.default_rng(0).normal(size=(2, 8, 12, 3)))
    assert jnp.array_equal(patches.backward(None, None, patches.forward(None, image)[0])[0], image)


def test_patch_sizes_that_do_not_fit_are_refused() -> None:
    message = "an image of 28x28 does not divide into patches of 5x5; sizes that fit: 1, 2, 4, 7, 14, 28"
    with pytest.raises(ShapeError, match=message):
        Patches((28, 28, 1), 5)
    with pytest.raises(ShapeError, match=r"images of shape \(28, 28\) came, expected .*images\[\.\.\., None\]"):
        Patches().forward(None, jnp.zeros((2, 28, 28)))


def test_sinusoidal_table_is_that_of_the_formula() -> None:
    table = np.asarray(Sinusoidal().table(None, 49, 64))
    for t in range(49):
        for i in range(64):
            angle = t / 10000 ** (2 * (i // 2) / 64)
            assert table[t, i] == pytest.approx(np.cos(angle) if i % 2 else np.sin(angle), abs=1e-5)
    assert table.mean() == pytest.approx(0.391, abs=5e-4)


def test_grid_table_tells_rows_from_columns() -> None:
    table = GridSinusoidal(3, 5).table(None, 16, 8)
    assert not table[0].any(), "the token in front of the grid has no place in it"
    grid = table[1:].reshape(3, 5, 8)
    assert jnp.array_equal(grid[1, 0, :4], grid[1, 4, :4]), "the first half depends on the row only"
    assert jnp.array_equal(grid[0, 2, 4:], grid[2, 2, 4:]), "the second half on the column only"
    assert len(np.unique(np.asarray(grid).reshape(15, 8).round(5), axis=0)) == 15


@pytest.mark.parametrize(("start", "limit"), [(Uniform(0.1), 0.1), (Uniform(0.5), 0.5), (Xavier(), (6 / 113) ** 0.5)])
def test_random_tables_fill_their_range(start, limit: float) -> None:
    table = np.asarray(Positions(49, 64, start).init(KEY).pos)
    assert np.abs(table).max() <= limit
    assert np.abs(table).max() > 0.98 * limit
    assert abs(table.mean()) < 0.05 * limit


def test_zero_start_is_zero_and_trained() -> None:
    pos = Positions(5, 4, Zero()).init(KEY).pos
    assert pos is not None
    assert not pos.any()


def test_positions_refuse_what_does_not_fit() -> None:
    short, random = Positions(5, 4), Positions(5, 4, Uniform(), trained=False)
    with pytest.raises(ShapeError, match="9 tokens came, the table has 5"):
        short.forward(short.init(KEY), jnp.zeros((1, 9, 4)))
    with pytest.raises(SettingError, match="drawn at random is a weight and must be trained"):
        random.forward(random.init(KEY), jnp.zeros((1, 5, 4)))
    with pytest.raises(ShapeError, match="15 tokens came for a grid of 4x4"):
        Positions(15, 4, GridSinusoidal(4, 4)).init(KEY)


def test_softmax_survives_large_scores_and_rows_without_a_choice() -> None:
    x = jnp.array([[1000.0, 1000.0, -jnp.inf], [-jnp.inf] * 3])
    y, cache = Softmax().forward(None, x)
    assert y.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    dx, _ = Softmax().backward(None, cache, jnp.ones_like(x) * 3.0)
    assert not dx.any()


def test_a_query_that_may_look_nowhere_gets_zero_and_passes_no_gradient() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.normal(size=(2, 3, 2, 4)), jnp.float32) for _ in range(3))
    mask = jnp.ones((2, 1, 3, 3), bool).at[1, :, 2].set(False)
    z, cache = Attention().forward(None, attention.Inputs(q=q, k=k, v=v), mask=mask)
    d, _ = Attention().backward(None, cache, jnp.asarray(rng.normal(size=z.shape), jnp.float32))
    assert not z[1, 2].any()
    assert not cache.pattern[1, :, 2].any()
    assert not d.q[1, 2].any()
    everything = jax.tree.leaves((z, cache, d))
    assert all(jnp.isfinite(leaf).all() for leaf in everything)


def test_causal_mask_lets_nothing_through_from_the_future() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.normal(size=(1, 5, 1, 4)), jnp.float32) for _ in range(3))
    causal = jnp.tril(jnp.ones((1, 1, 5, 5), bool))
    before, _ = Attention().forward(None, attention.Inputs(q=q, k=k, v=v), mask=causal)
    changed = attention.Inputs(q=q, k=k.at[:, 3:].set(9.0), v=v.at[:, 3:].set(-9.0))
    after, _ = Attention().forward(None, changed, mask=causal)
    assert jnp.array_equal(before[:, :3], after[:, :3])
    assert not jnp.allclose(before[:, 3:], after[:, 3:])


def test_one_bias_for_the_whole_batch_receives_the_sum_of_its_gradients() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.normal(size=(3, 4, 2, 5)), jnp.float32) for _ in range(3))
    shared, dz = jnp.asarray(rng.normal(size=(1, 2, 4, 4)), jnp.float32), jnp.asarray(rng.normal(size=(3, 4, 2, 5)))
    _, cache = Attention().forward(None, attention.Inputs(q=q, k=k, v=v, bias=shared))
    together, _ = Attention().backward(None, cache, dz)
    separate = attention.Inputs(q=q, k=k, v=v, bias=jnp.broadcast_to(shared, (3, 2, 4, 4)))
    _, cache = Attention().forward(None, separate)
    apart, _ = Attention().backward(None, cache, dz)
    assert together.bias is not None
    assert apart.bias is not None
    assert jnp.allclose(together.bias[0], apart.bias.sum(0), atol=1e-5)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ShapeError, match="width 64 does not divide into 5 heads; try heads=4"):
        MultiHeadAttention(64, 5)
    with pytest.raises(SettingError, match="attention: heads is 0, expected 1 or more"):
        MultiHeadAttention(64, 0)


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(SettingError, match="linear: outputs is 0, expected 1 or more"):
        Linear(3, 0)
    with pytest.raises(SettingError, match="patches: size is -4, expected 1 or more"):
        Patches(size=-4)
    with pytest.raises(SettingError, match="layer norm: width is 0, expected 1 or more"):
        LayerNorm(0)
    with pytest.raises(SettingError, match="embedding: vocabulary is 0, expected 1 or more"):
        Embedding(0, 2)


def test_dropout_keeps_the_mean_and_the_share() -> None:
    x = jnp.ones((200, 500))
    y, cache = Dropout(0.3).forward(None, x, key=KEY)
    assert cache.keep is not None
    assert float(cache.keep.mean()) == pytest.approx(0.7, abs=0.005)
    assert float(y.mean()) == pytest.approx(1.0, abs=0.01)
    assert set(np.unique(np.asarray(y))) == {np.float32(0), np.float32(1 / 0.7)}
    assert jnp.array_equal(Dropout(0.3).forward(None, x)[0], x)
    with pytest.raises(SettingError, match=r"rate is 1\.0, expected a share from 0 to below 1"):
        Dropout(1.0)


def test_standardise_takes_bytes_and_gives_them_no_gradient() -> None:
    layer = Standardise(mean=0.1307, std=0.3081)
    y, cache = layer.forward(None, jnp.array([[0, 255]], jnp.uint8))
    assert y[0].tolist() == pytest.approx([-0.1307 / 0.3081, (1 - 0.1307) / 0.3081])
    assert layer.backward(None, cache, y) == (None, None)
    with pytest.raises(SettingError, match=r"std 0\.0 .* must be above 0"):
        Standardise(std=0.0)


def test_labels_and_ids_that_do_not_exist_show_at_once() -> None:
    for loss in (CrossEntropy(), LabelSmoothing(0.1)):
        for label in (-1, 3):
            assert jnp.isnan(loss.forward(None, jnp.zeros((2, 3)), labels=jnp.array([0, label]))[0])
    embedding = Embedding(4, 2)
    assert jnp.isnan(embedding.forward(embedding.init(KEY), jnp.array([[4, -1]]))[0]).all()


@pytest.mark.parametrize("layer", [LayerNorm(5), RMSNorm(5), Positions(4, 5), ClassToken(5), FeedForward(5, 7)])
def test_layers_say_which_width_they_expected(layer) -> None:
    with pytest.raises(ShapeError, match="width of the input is 1, expected 5"):
        layer.forward(layer.init(KEY), jnp.zeros((2, 4, 1)))


def test_a_bias_must_say_which_axes_it_shares() -> None:
    q = jnp.zeros((2, 3, 1, 4))
    with pytest.raises(ShapeError, match="number of axes of the bias is 2, expected 4"):
        Attention().forward(None, attention.Inputs(q=q, k=q, v=q, bias=jnp.zeros((3, 3))))
    with pytest.raises(ShapeError, match="number of axes of the mask is 3, expected 4"):
        Attention().forward(None, attention.Inputs(q=q, k=q, v=q), mask=jnp.ones((2, 3, 3), bool))


@pytest.mark.parametrize("layer", [LayerNorm(5), RMSNorm(5)])
def test_norms_take_any_number_of_leading_axes(layer) -> None:
    params, x = layer.init(KEY), jax.random.normal(KEY, (2, 3, 4, 5))
    y, cache = layer.forward(params, x)
    _, dparams = layer.backward(params, cache, y)
    flat, cache = layer.forward(params, x.reshape(24, 5))
    _, dflat = layer.backward(params, cache, flat)
    assert jnp.allclose(y.reshape(24, 5), flat)
    assert jnp.allclose(dparams.gain, dflat.gain, atol=1e-4)


def test_embedding_adds_up_the_gradient_of_a_symbol_seen_twice() -> None:
    layer = Embedding(4, 2)
    _, cache = layer.forward(layer.init(KEY), jnp.array([[1, 3, 1]]))
    _, d = layer.backward(layer.init(KEY), cache, jnp.array([[[1.0, 2.0], [5.0, 6.0], [10.0, 20.0]]]))
    assert d.emb.tolist() == [[0, 0], [11, 22], [0, 0], [5, 6]]


def test_norm_brings_every_token_to_mean_zero_and_variance_one() -> None:
    x = 5 + 3 * jax.random.normal(KEY, (2, 3, 100))
    layer = LayerNorm(100)
    y, _ = layer.forward(layer.init(KEY), x)
    assert jnp.allclose(y.mean(-1), 0, atol=1e-5)
    assert jnp.allclose(y.var(-1), 1, atol=1e-4)


def test_pools_read_the_mean_and_the_first_token() -> None:
    x = jnp.arange(12.0).reshape(1, 4, 3)
    assert MeanPool().forward(None, x)[0].tolist() == [[4.5, 5.5, 6.5]]
    assert FirstToken().forward(None, x)[0].tolist() == [[0, 1, 2]]


def test_weights_start_in_the_xavier_range() -> None:
    w = np.asarray(Linear(300, 200).init(KEY).w)
    limit = (6 / 500) ** 0.5
    assert limit * 0.99 < np.abs(w).max() <= limit
    assert w.std() == pytest.approx(limit / 3**0.5, rel=0.01)


def test_linear_says_which_width_it_expected() -> None:
    with pytest.raises(ShapeError, match="linear: width of the input is 4, expected 3"):
        Linear(3, 2).forward(Linear(3, 2).init(KEY), jnp.ones((5, 4)))


def test_cross_entropy_of_certainty_and_of_ignorance() -> None:
    labels = jnp.array([2, 0])
    knows = jnp.array([[-100.0, -100.0, 100.0], [100.0, -100.0, -100.0]])
    assert float(CrossEntropy().forward(None, knows, labels=labels)[0]) == 0
    assert float(CrossEntropy().forward(None, jnp.zeros((2, 3)), labels=labels)[0]) == pytest.approx(np.log(3))
    wrong, cache = CrossEntropy().forward(None, -knows * 100, labels=labels)
    assert np.isfinite(wrong), "no overflow, and no guard that would bound it"
    assert jnp.isfinite(CrossEntropy().backward(None, cache, jnp.ones(()))[0]).all()


def test_gradient_of_cross_entropy_is_p_minus_onehot_over_the_batch() -> None:
    logits, labels = jax.random.normal(KEY, (4, 3)), jnp.array([0, 1, 2, 1])
    _, cache = CrossEntropy().forward(None, logits, labels=labels)
    d, _ = CrossEntropy().backward(None, cache, jnp.ones(()))
    assert jnp.allclose(d, (jax.nn.softmax(logits) - jax.nn.one_hot(labels, 3)) / 4, atol=1e-7)


def test_a_weight_of_zero_leaves_a_sample_out() -> None:
    logits, labels = jax.random.normal(KEY, (4, 3)), jnp.array([0, 1, 2, 1])
    for loss in (CrossEntropy(), LabelSmoothing(0.1)):
        padded = labels.at[3].set(99)  # no class, but it weighs nothing
        whole, cache = loss.forward(None, logits, labels=padded, weights=jnp.array([1.0, 1.0, 1.0, 0.0]))
        d, _ = loss.backward(None, cache, jnp.ones(()))
        part, cache = loss.forward(None, logits[:3], labels=labels[:3])
        d_part, _ = loss.backward(None, cache, jnp.ones(()))
        assert float(whole) == pytest.approx(float(part))
        assert jnp.allclose(d[:3], d_part)
        assert not d[3].any()
    with pytest.raises(ShapeError, match=r"weights of shape \(3,\) came, expected one per label: \(4,\)"):
        CrossEntropy().forward(None, logits, labels=labels, weights=jnp.ones(3))


def test_label_smoothing_of_nothing_is_cross_entropy() -> None:
    logits, labels = jax.random.normal(KEY, (4, 3)), jnp.array([0, 1, 2, 1])
    plain, _ = CrossEntropy().forward(None, logits, labels=labels)
    smooth, _ = LabelSmoothing(0.0).forward(None, logits, labels=labels)
    assert float(plain) == pytest.approx(float(smooth))
    with pytest.raises(SettingError, match=r"label smoothing: 1\.5 came"):
        LabelSmoothing(1.5)
