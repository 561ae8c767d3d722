"""The native encoder beside BERT.forward: ragged texts, no padding, the same values; what it refuses."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import EngineError, ShapeError
from glassformer.layers import GELUTanh, LinearAttention, ReLU
from glassformer.models import BERT, GPT, BERTFor, ClassHead, MaskedHead, SpanHead, TagHead
from glassformer.models.text import Text
from glassformer.native.encoder import AT_ONCE, NativeEncoder
from glassformer.predict.encoding import head_of

from .compiled import c_compiler
from .test_decoder import drawn, error

BASE = BERT(text=Text(vocabulary=101, context=70), width=60, hidden=130, heads=3, depth=2)
MODELS: dict[str, Any] = {
    "bert": BASE,
    "roberta": replace(BASE, first_position=2, segments=1, eps=1e-5),
    "distilbert": replace(BASE, segments=0, depth=1, activation=ReLU()),
    "narrow": replace(BASE, width=6, hidden=5, heads=2, depth=3, activation=GELUTanh()),
    "with a head": BERTFor(BASE, TagHead(60, 4)),
}
LENGTHS = (1, 5, 70, 33, 8, 64, 2, 17, 32, 31, 70, 70, 70, 70, 70)  # in several batches


@pytest.fixture(autouse=True, scope="module")
def needs_a_compiler() -> None:
    c_compiler()


def rows(lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    draw = np.random.default_rng(0)
    return [draw.integers(101, size=length).tolist() for length in lengths]


@cache
def truth(model: Any) -> list[np.ndarray]:
    """In float64, padded to one length."""
    ids, keep = np.zeros((len(LENGTHS), 70), int), np.arange(70) < np.array(LENGTHS)[:, None]
    for row, given in zip(ids, rows(), strict=True):
        row[: len(given)] = given
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: leaf.astype(np.float64), drawn(model))
        y = jax.jit(lambda params, ids, keep: model.forward(params, ids, keep=keep)[0])(params, ids, keep)
        return [one[:length] for one, length in zip(np.asarray(y), LENGTHS, strict=True)]


@pytest.mark.parametrize("name", MODELS)
def test_every_token_has_the_value_of_forward(name: str) -> None:
    model = MODELS[name]
    made = NativeEncoder(model, drawn(model), threads=2)
    found = made.encode(rows())
    assert sum(LENGTHS) > AT_ONCE
    if name == "with a head":
        make = head_of(made)
        found = [np.asarray(make(drawn(model), one[None]))[0] for one in found]
    assert max(error(*both) for both in zip(found, truth(model), strict=True)) < 1e-5


@pytest.mark.parametrize(
    "head",
    [ClassHead(60, 3), SpanHead(60), MaskedHead(60, 101, eps=1e-12)],
    ids=lambda head: type(head).__name__,
)
def test_heads_behind_it(head: Any) -> None:
    model = BERTFor(BASE, head)
    made, (ids,) = NativeEncoder(model, drawn(model)), rows((9,))
    y = np.asarray(head_of(made)(drawn(model), made.encode([ids])[0][None]))
    assert error(y, np.asarray(model.forward(drawn(model), jax.numpy.array([ids]))[0])) < 1e-5


def test_texts_do_not_see_each_other_and_threads_change_no_bit() -> None:
    many = [NativeEncoder(BASE, drawn(BASE), threads=threads).encode(rows()) for threads in (1, 2, 3)]
    alone = NativeEncoder(BASE, drawn(BASE))
    for i, row in enumerate(rows()):
        assert many[0][i].tobytes() == many[1][i].tobytes() == many[2][i].tobytes()
        assert error(alone.encode([row])[0], many[0][i]) < 1e-6


def test_batches_side_by_side_change_no_bit() -> None:
    many = rows() * 40
    told: list[int] = []
    alone, beside = (NativeEncoder(BASE, drawn(BASE), threads=threads) for threads in (1, 3))
    found = beside.encode(many, told.append)
    assert (len(told) >= 3, sum(told)) == (True, len(many))
    assert [one.tobytes() for one in found] == [one.tobytes() for one in alone.encode(many)]


def test_an_error_ends_all_threads() -> None:
    told: list[int] = []

    def listener(count: int) -> None:
        told.append(count)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        NativeEncoder(BASE, drawn(BASE), threads=2).encode(rows() * 200, listener)
    assert len(told) <= 2


def test_one_percent_is_noticed() -> None:
    params = drawn(BASE)
    block = params.blocks[1]
    wrong = block._replace(attn=block.attn._replace(w_k=1.01 * block.attn.w_k))
    made = NativeEncoder(BASE, params._replace(blocks=(params.blocks[0], wrong)))
    assert max(error(*both) for both in zip(made.encode(rows()), truth(BASE), strict=True)) > 1e-4


def test_narrow_weights() -> None:
    limits: dict[Any, float] = {"bf16": 0.03, "int8": 0.06}
    for weights, most in limits.items():
        found = NativeEncoder(BASE, drawn(BASE), weights=weights).encode(rows())
        off = [np.sqrt(np.mean((a - b) ** 2) / np.mean(b**2)) for a, b in zip(found, truth(BASE), strict=True)]
        assert 1e-4 < max(off) < most


def test_texts_that_are_refused() -> None:
    made = NativeEncoder(BASE, drawn(BASE))
    with pytest.raises(ShapeError, match="encoder: text 2 has 0 tokens, expected 1 to 70: its context"):
        made.encode([[1], []])
    with pytest.raises(ShapeError, match="encoder: text 1 has 71 tokens"):
        made.encode([[1] * 71])
    with pytest.raises(ShapeError, match="encoder: token 101 came, the vocabulary has 101: 0 to 100"):
        made.encode([[1, 101]])


@dataclass(frozen=True)
class OfKindOne:
    """Somebody's BERT, for which every text is of the second kind."""

    bert: BERT

    def init(self, key: Any) -> Any:
        return self.bert.init(key)

    def example(self, batch: int) -> Any:
        return self.bert.example(batch)

    def forward(self, params: Any, x: Any) -> Any:
        return self.bert.forward(params, x, segments=jnp.ones_like(x))


def test_what_has_no_c_twin_is_named() -> None:
    def refused(model: Any) -> str:
        with pytest.raises(EngineError) as caught:
            NativeEncoder(model, None)
        return str(caught.value)

    gpt = GPT(text=Text(30, 9), width=10, hidden=17, heads=1, depth=1)
    assert "the native encoder has no CausalSelfAttention yet (blocks.0.attn): it expects SelfAttention" in refused(gpt)
    assert "has no Embedding of other numbers than the ids yet (segment)" in refused(OfKindOne(BASE))
    assert "has no SelfAttention with mask yet (blocks.0.attn)" in refused(replace(BASE, window=5))
    assert "has no linear attention yet (blocks.0.attn)" in refused(replace(BASE, attend=LinearAttention()))
