"""Rotary positions, relative bias, shared key heads and the tied head: what each is for, and what each refuses."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import (
    Embedding,
    GroupedQueryAttention,
    HeadNorm,
    Mask,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    ScaledRotary,
    TiedHead,
    multi_head,
    relative_bias,
    tied_head,
)
from glassformer.layers.rope_scaling import DynamicScaling, LinearScaling, Llama3Scaling, YarnScaling

KEY = jax.random.key(0)


def test_products_of_turned_values_depend_on_their_distance_only() -> None:
    q, k = jax.random.normal(KEY, (2, 1, 5, 3, 8))

    def scores(first: int) -> jax.Array:
        turned_q, turned_k = (Rotary().forward(None, x, offset=jnp.array([first]))[0] for x in (q, k))
        return jnp.einsum("bthd,bshd->bhts", turned_q, turned_k)

    for first in (7, -3, 1000):
        assert jnp.allclose(scores(first), scores(0), atol=1e-3)
    assert not jnp.allclose(scores(0), jnp.einsum("bthd,bshd->bhts", q, k), atol=0.1)


def test_an_offset_goes_on_where_the_sequence_stopped() -> None:
    x = jax.random.normal(KEY, (2, 7, 3, 4))
    whole, _ = Rotary().forward(None, x)
    rest, _ = Rotary().forward(None, x[:, 5:], offset=jnp.array([5]))
    assert jnp.allclose(whole[:, 5:], rest, atol=1e-6)
    each, _ = Rotary().forward(None, x[:, :2], offset=jnp.array([0, 5]))
    assert jnp.allclose(each[0], whole[0, :2], atol=1e-6)
    assert not jnp.allclose(each[1], whole[1, :2], atol=1e-2)


def test_the_first_value_is_paired_with_the_first_of_the_second_half() -> None:
    x = jnp.array([1.0, 0.0, 0.0, 0.0]).reshape(1, 1, 1, 4)
    y, _ = Rotary().forward(None, x, offset=jnp.array([1]))
    assert jnp.allclose(y[0, 0, 0], jnp.array([jnp.cos(1.0), 0.0, jnp.sin(1.0), 0.0]))
    with pytest.raises(ShapeError, match="heads of width 5 have no halves; expected an even width"):
        Rotary().forward(None, jnp.zeros((1, 2, 3, 5)))


def test_scaled_frequencies() -> None:
    """linear: places count for a third. dynamic: as without, up to its context. yarn: fast pairs stay as they are."""
    x = jax.random.normal(KEY, (1, 7, 2, 8))
    plain, _ = Rotary().forward(None, x)
    third, _ = ScaledRotary(LinearScaling(3.0)).forward(None, x[:, 3:4], offset=jnp.array([9]))
    assert jnp.allclose(third, plain[:, 3:4], atol=1e-6)
    assert jnp.allclose(ScaledRotary(DynamicScaling(2.0, context=7)).forward(None, x)[0], plain, atol=1e-6)
    assert not jnp.allclose(ScaledRotary(DynamicScaling(2.0, context=6)).forward(None, x)[0], plain, atol=1e-3)
    short, _ = ScaledRotary(DynamicScaling(2.0, context=6)).forward(None, x, length=jnp.array([5]))
    assert jnp.allclose(short, plain, atol=1e-6), "padding does not count"
    yarn = ScaledRotary(YarnScaling(4.0, context=4096))
    frequency = yarn.forward(None, x)[1].frequency[0, :4]
    ratio = frequency / ScaledRotary(LinearScaling(1.0)).forward(None, x)[1].frequency[0, :4]
    assert ratio[0] == 1
    assert ratio[-1] == pytest.approx(1 / 4)
    assert yarn.scale == pytest.approx(1.1386294)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearScaling(0.5), "factor 0.5 came, expected 1 or more"),
        (lambda: DynamicScaling(2.0, context=0), "context is 0, expected 1 or more"),
        (lambda: Llama3Scaling(low=4.0, high=4.0), "low 4.0 and high 4.0 came, expected low < high"),
        (lambda: YarnScaling(2.0, fast=1.0), "slow 1.0 and fast 1.0 came, expected 0 < slow < fast"),
        (lambda: GroupedQueryAttention(6, 3, 1, norm=HeadNorm(4)), "width of the norms of q and k"),
    ],
)
def test_scalings_and_norms_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((SettingError, ShapeError), match=message):
        make()


def test_dynamic_scaling_needs_two_pairs() -> None:
    with pytest.raises(ShapeError, match="heads of width 2 have one pair, expected 4 or more"):
        ScaledRotary(DynamicScaling(2.0)).forward(None, jnp.zeros((1, 2, 3, 2)))


def test_buckets_are_single_near_and_shared_far() -> None:
    """32 buckets, reach 128, each way: 8 distances of their own, then ever wider ones, and one for the rest."""
    ahead = jnp.array([[0, -1, -7, -8, -11, -12, -127, -128, -5000, 1, 7, 8, 5000]])
    assert RelativeBias(1).bucket_of(ahead).tolist() == [[0, 1, 7, 8, 8, 9, 15, 15, 15, 17, 23, 24, 31]]
    one_way = RelativeBias(1, bidirectional=False).bucket_of(ahead)
    assert one_way.tolist() == [[0, 1, 7, 8, 11, 12, 31, 31, 31, 0, 0, 0, 0]]


def test_a_later_query_gets_the_later_rows_of_the_bias() -> None:
    layer = RelativeBias(heads=3)
    params, place = layer.init(KEY), jnp.arange(9)
    whole, _ = layer.forward(params, relative_bias.Inputs(query=place, memory=place))
    last, _ = layer.forward(params, relative_bias.Inputs(query=place[-1:], memory=place))
    assert whole.shape == (1, 3, 9, 9)
    assert jnp.array_equal(whole[:, :, -1:], last)


def test_bad_buckets_are_refused() -> None:
    with pytest.raises(SettingError, match="7 buckets do not divide between behind and ahead"):
        RelativeBias(2, buckets=7)
    with pytest.raises(SettingError, match="buckets is 2, expected 4 or more"):
        RelativeBias(2, buckets=2)
    with pytest.raises(SettingError, match="reach is 8, expected more than 8, the distances that have one of the 32"):
        RelativeBias(2, reach=8)


def test_with_as_many_key_heads_as_heads_it_is_multi_head_attention() -> None:
    grouped, plain = GroupedQueryAttention(6, heads=3, key_heads=3, bias=True), MultiHeadAttention(6, heads=3)
    params, x = grouped.init(KEY), multi_head.Inputs(*jax.random.normal(KEY, (2, 1, 5, 6)))
    y, _ = grouped.forward(params, x)
    assert jnp.array_equal(y, plain.forward(multi_head.Params(*params[:8]), x)[0])


def test_heads_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="width 12, 6 heads and 4 key heads do not divide"):
        GroupedQueryAttention(12, heads=6, key_heads=4)
    with pytest.raises(SettingError, match="key_heads is 0, expected 1 or more"):
        GroupedQueryAttention(12, heads=6, key_heads=0)
    with pytest.raises(SettingError, match="head_width is 0, expected 1 or more"):
        MultiHeadAttention(12, heads=6, head_width=0)
    with pytest.raises(SettingError, match="with a head_width, w_o leads back to the width; set output=True"):
        MultiHeadAttention(12, heads=6, head_width=4, output=False)


def test_the_tied_head_finds_the_symbol_that_was_looked_up() -> None:
    table, ids = jnp.eye(7, 9), jnp.array([[3, 0, 6]])
    params = Embedding(7, 9).init(KEY)._replace(emb=table)
    x, _ = Embedding(7, 9).forward(params, ids)
    head = TiedHead(7)
    logits, _ = head.forward(head.init(KEY), tied_head.Inputs(x=x, emb=table))
    assert jnp.array_equal(logits.argmax(-1), ids)
    with pytest.raises(ShapeError, match="tied head: number of rows of the table is 7, expected 8"):
        TiedHead(8).forward(head.init(KEY), tied_head.Inputs(x=x, emb=table))
    with pytest.raises(ShapeError, match="tied head: width of the input is 9, expected 5"):
        head.forward(head.init(KEY), tied_head.Inputs(x=x, emb=table[:, :5]))


def test_padding_does_not_change_a_dynamic_rope() -> None:
    """Each row is rotated by its own length, whatever stands beside it."""
    layer = GroupedQueryAttention(8, 2, 1, rotary=ScaledRotary(DynamicScaling(2.0, context=3)))
    params, x = layer.init(KEY), jax.random.normal(KEY, (2, 9, 8))
    keep = jnp.arange(9) < jnp.array([[9], [5]])
    padded, _ = layer.forward(params, multi_head.Inputs(x, x), mask=Mask(keep=keep, causal=True))
    alone, _ = layer.forward(params, multi_head.Inputs(x[1:, :5], x[1:, :5]), mask=Mask(causal=True))
    assert jnp.allclose(padded[1, :5], alone[0], atol=1e-6)
