"""Patching and ablating, against the same thing done to the weights, or by hand."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import lens
from glassformer.check.cases import PICTURES, READER, WORDS, WRITER
from glassformer.errors import DataError, SettingError, ShapeError, UnknownNameError
from glassformer.layers import Rotary
from glassformer.models import GPT, MLP, BERTFor, ClassHead, PatchAttention, RecurrentLM, ViT
from glassformer.models.t5 import Inputs
from glassformer.names import named_leaves, with_leaves

from .test_trace import Read

MODELS: dict[str, Any] = {
    "patch_attention": PatchAttention(PICTURES, width=10, hidden=7),
    "vit": ViT(PICTURES, width=10, hidden=7, heads=2, depth=2, with_class_token=True),
    "gpt": GPT(WORDS, width=6, hidden=7, heads=3, depth=1),
    "gpt-rotary": GPT(WORDS, width=12, hidden=7, heads=3, depth=1, rotary=Rotary(), tied=False),
    "bert": BERTFor(READER, ClassHead(6, classes=5)),
    "t5": replace(WRITER, decoder_depth=1),
}
ATTENTIONS = [
    ("vit", "blocks.1.attn"),
    ("gpt", "blocks.0.attn"),
    ("gpt-rotary", "blocks.0.attn"),
    ("bert", "bert.blocks.0.attn"),
    ("t5", "encoder.blocks.0.attn"),
    ("t5", "decoder.blocks.0.attn"),
    ("t5", "decoder.blocks.0.cross"),
]
SAMPLES = 5


class Ready(NamedTuple):
    model: Any
    params: Any
    x: Any
    rest: dict[str, Any]  # labels, and what else forward takes


@lru_cache
def ready(kind: str) -> Ready:
    """Weights at random, also where they start at zero; texts of which the last token only fills up."""
    model, rng = MODELS[kind], np.random.default_rng(3)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape, scale=0.5), jnp.float32), shapes)
    if kind in ("patch_attention", "vit"):
        x = rng.integers(0, 256, (SAMPLES, *PICTURES.shape), dtype=np.uint8)
        return Ready(model, params, x, {"labels": rng.integers(0, PICTURES.classes, SAMPLES)})
    ids, target = (rng.integers(0, WORDS.vocabulary, (SAMPLES, length)) for length in (6, 4))
    keep = {"keep": np.arange(6) < np.array([6, 5, 6, 4, 6])[:, None]}
    if kind == "bert":
        return Ready(model, params, ids, {"labels": rng.integers(0, 5, SAMPLES), **keep})
    if kind == "t5":
        labels = rng.integers(0, WORDS.vocabulary, (SAMPLES, 4))
        return Ready(model, params, Inputs(source=ids, target=target), {"labels": labels, **keep})  # pyright: ignore
    return Ready(model, params, ids, {"labels": np.roll(ids, -1, axis=1), "weights": keep["keep"].astype("f4"), **keep})


@lru_cache
def before(kind: str) -> lens.Trace:
    one = ready(kind)
    return lens.trace(one.model, one.params, one.x, **one.rest)


def patched(kind: str, changes: Any) -> lens.Trace:
    one = ready(kind)
    return lens.patch(one.model, one.params, one.x, changes, **one.rest)


def ablated(kind: str, name: str, **where: Any) -> lens.Trace:
    one = ready(kind)
    return lens.ablate(one.model, one.params, one.x, name, **where, **one.rest)


def different(a: lens.Trace, b: lens.Trace) -> list[str]:
    assert a.names() == b.names()
    return [name for name in a if not np.array_equal(a[name], b[name], equal_nan=True)]


def near(a: lens.Trace, b: lens.Trace, names: Any = ()) -> bool:
    assert a.loss is not None
    same = [np.allclose(a[name], b[name], rtol=1e-4, atol=1e-5) for name in names]
    return a.loss == pytest.approx(b.loss, rel=1e-5) and np.allclose(a.logits, b.logits, atol=1e-4) and all(same)


@pytest.mark.parametrize("kind", MODELS)
def test_replacing_every_value_by_itself_changes_not_one_bit(kind: str) -> None:
    assert different(before(kind), patched(kind, before(kind).values)) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("patch_attention", "attn.scores"),
        ("vit", "blocks.0.attn.pattern"),
        ("gpt", "norm.xhat"),
        ("bert", "bert.blocks.0.ff.activation.y"),
        ("t5", "decoder.blocks.0.cross.z"),
    ],
)
def test_replacing_one_value_by_itself_changes_not_one_bit(kind: str, name: str) -> None:
    assert different(before(kind), patched(kind, {name: before(kind)[name]})) == []
    assert different(before(kind), patched(kind, {name: lambda value: value})) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_replacing_any_one_value_by_itself_changes_not_one_bit(kind: str) -> None:
    for name, value in before(kind).values.items():
        assert different(before(kind), patched(kind, {name: value})) == [], name


def test_what_follows_is_made_from_the_new_value() -> None:
    pooled = np.random.default_rng(1).normal(size=(SAMPLES, 10)).astype(np.float32)
    found = patched("vit", {"pool.y": pooled})
    head = ready("vit").params.head
    assert np.array_equal(found["pool.y"], pooled)
    assert np.allclose(found.logits, pooled @ np.asarray(head.w) + np.asarray(head.b), atol=1e-5)
    assert np.allclose(found["head.dw"], pooled.T @ found["head.dy"], atol=1e-5)
    made_before = [name for name in found.values if name.startswith(("patch", "blocks", "positions"))]
    assert {*made_before} & {*different(found, before("vit"))} == set()


def test_a_function_sees_what_the_changes_before_it_left() -> None:
    seen = {}

    def doubled(value: Any) -> Any:
        seen["z"] = np.asarray(value)
        return 2 * value

    def written_down(value: Any) -> Any:
        seen["joined"] = np.asarray(value)
        return np.asarray(value)

    changes = {"blocks.0.attn.joined": written_down, "blocks.0.attn.z": doubled}  # not in the order they come by
    found = patched("gpt", changes)
    assert np.array_equal(seen["z"], before("gpt")["blocks.0.attn.z"])
    assert np.array_equal(seen["joined"], 2 * before("gpt")["blocks.0.attn.joined"])
    assert np.array_equal(found["blocks.0.attn.joined"], seen["joined"])
    one = ready("gpt")
    twice = with_leaves(one.params, {"blocks.0.attn.w_o": 2 * one.params.blocks[0].attn.w_o})
    assert near(found, lens.trace(one.model, twice, one.x, **one.rest))


def test_a_value_and_a_function_together() -> None:
    embedded = 3 * before("gpt")["embed.y"]
    found = patched("gpt", {"head.x": lambda x: x - 1, "embed.y": embedded})
    assert np.array_equal(found["embed.y"], embedded)
    assert np.allclose(found["head.x"], patched("gpt", {"embed.y": embedded})["head.x"] - 1, atol=1e-5)
    assert np.allclose(found.logits, found["head.x"] @ np.asarray(ready("gpt").params.embed.emb).T, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        (
            {"blocks.0.attn.patern": 0},
            UnknownNameError,
            r"no value of forward is called 'blocks.0.attn.patern' \(did you mean 'blocks.0.attn.pattern'",
        ),
        (
            {"blocks.7.attn.z": lambda z: z},
            UnknownNameError,
            r"'blocks.7.attn.z' \(did you mean 'blocks.1.attn.z' or 'blocks.0.attn.z'",
        ),
        ({"pool.y": np.zeros((5, 11))}, ShapeError, r"pool.y is of shape \(5, 10\), what came for it of \(5, 11\)"),
        ({"pool.y": lambda y: y[0]}, ShapeError, r"pool.y is of shape \(5, 10\), what came for it of \(10,\)"),
        ({"head.dy": np.zeros((5, 5))}, UnknownNameError, "no value of forward is called 'head.dy'"),
    ],
)
def test_mistakes_are_explained(changes: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        patched("vit", changes)


def test_what_a_loop_makes_cannot_be_replaced() -> None:
    model = RecurrentLM(WORDS, width=6, hidden=6, depth=1, cell="gru")
    params, ids = model.init(jax.random.key(0)), np.array([[1, 2, 3]])
    found = lens.trace(model, params, ids)
    inside = next(name for name in found.values if name.endswith(".from_h"))
    with pytest.raises(SettingError, match=rf"{inside} is made in a loop over time"):
        lens.patch(model, params, ids, {inside: found.values[inside] + 1})
    outside = inside.replace("from_h", "from_x")
    again = lens.patch(model, params, ids, {outside: found.values[outside]})
    assert np.allclose(again.logits, found.logits, atol=1e-6)


def without_rows(kind: str, attention: str, head: int) -> lens.Trace:
    """The rows of w_o that read this head are zero."""
    one = ready(kind)
    w_o = np.array(named_leaves(one.params)[f"{attention}.w_o"])
    size = before(kind)[f"{attention}.z"].shape[-1]
    w_o[size * head : size * (head + 1)] = 0
    return lens.trace(one.model, with_leaves(one.params, {f"{attention}.w_o": jnp.asarray(w_o)}), one.x, **one.rest)


@pytest.mark.parametrize(("kind", "attention"), ATTENTIONS)
def test_ablating_a_head_is_zeroing_its_rows_of_w_o(kind: str, attention: str) -> None:
    head = before(kind)[f"{attention}.z"].shape[2] - 1
    found = ablated(kind, f"{attention}.z", head=head)
    assert near(found, without_rows(kind, attention, head), [f"{attention}.y"])
    assert not near(found, before(kind))
    assert np.all(found[f"{attention}.z"][:, :, head] == 0)
    assert near(found, ablated(kind, f"{attention}.pattern", head=-1))


def test_ablating_the_only_head_is_zeroing_its_values() -> None:
    one = ready("patch_attention")
    silent = with_leaves(one.params, {f"attn.{w}": jnp.zeros_like(getattr(one.params.attn, w)) for w in ("w_v", "b_v")})
    found = ablated("patch_attention", "attn.z", head=0)
    assert near(found, lens.trace(one.model, silent, one.x, **one.rest))
    assert different(found, ablated("patch_attention", "attn.z")) == []


def test_ablating_positions() -> None:
    found, all_before = ablated("vit", "positions.y", position=[0, 2]), before("vit")["positions.y"]
    expected = all_before.copy()
    expected[:, [0, 2]] = 0
    assert np.array_equal(found["positions.y"], expected)
    crossed = ablated("vit", "blocks.1.attn.z", head=1, position=3)["blocks.1.attn.z"]
    expected = before("vit")["blocks.1.attn.z"].copy()
    expected[:, 3, 1] = 0
    assert np.array_equal(crossed, expected)
    asks_nobody = ablated("vit", "blocks.1.attn.pattern", head=1, position=3)
    looked = np.ones((SAMPLES, 2, 7))
    looked[:, 1, 3] = 0
    assert np.allclose(asks_nobody["blocks.1.attn.pattern"].sum(-1), looked, atol=1e-5)
    assert np.allclose(asks_nobody["blocks.1.attn.z"], crossed, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "where", "message"),
    [
        ("blocks.0.attn.z", {"head": 2}, "head 2 came, blocks.0.attn.z has heads 0 to 1"),
        ("blocks.0.attn.z", {"position": [0, -8]}, "position -8 came, blocks.0.attn.z has positions 0 to 6"),
        ("blocks.0.resid_mid", {"head": 0}, r"blocks.0.resid_mid of shape .* has no axis of heads; .* q, k, v, z"),
        ("pool.y", {"position": 0}, r"pool.y of shape \(5, 10\) has no axis of positions"),
        ("prepare.y", {"position": 0}, "prepare.y of shape .* has no axis of positions"),
    ],
)
def test_what_is_not_there_cannot_be_ablated(name: str, where: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ablated("vit", name, **where)


@pytest.mark.parametrize("kind", MODELS)
def test_each_head_in_turn_is_each_head_by_itself(kind: str) -> None:
    one = ready(kind)
    found = lens.ablate_each(one.model, one.params, one.x, **one.rest, samples_at_once=2, heads_at_once=2)
    sites = [name for name in before(kind).values if name.endswith("attn.z") or name.endswith("cross.z")]
    heads = [(name, head) for name in sites for head in range(before(kind)[name].shape[2])]
    assert [(head.name, head.head) for head in found.heads] == heads
    assert (found.loss, found.accuracy) == pytest.approx((before(kind).loss, accuracy(kind, before(kind))), rel=1e-4)
    for effect in found.heads:
        alone = ablated(kind, effect.name, head=effect.head)
        assert (effect.loss, effect.accuracy) == pytest.approx((alone.loss, accuracy(kind, alone)), rel=1e-4)
        assert effect.loss_change == pytest.approx(effect.loss - found.loss)
        assert effect.accuracy_change == pytest.approx(effect.accuracy - found.accuracy)


def accuracy(kind: str, traced: lens.Trace) -> float:
    rest = ready(kind).rest
    right = np.asarray(traced.logits).argmax(-1) == rest["labels"]
    return float(np.average(right, weights=rest.get("weights")))


def test_the_table_of_all_heads() -> None:
    one = ready("t5")
    found = lens.ablate_each(one.model, one.params, one.x, **one.rest)
    first, *_, last = lines = found.table().splitlines()
    assert first == f"without one head, over {one.rest['labels'].size} labels"
    assert len(lines) == 3 + 9 + 2
    effect = found.heads[4]
    assert lines[3 + 4].split() == [
        *("decoder.blocks.0.attn", "1", f"{effect.loss:.4f}", f"{effect.loss_change:+.4f}"),
        *(f"{100 * effect.accuracy:.2f}", "%", f"{100 * effect.accuracy_change:+.2f}", "%"),
    ]
    assert last.split() == ["all", "heads", f"{found.loss:.4f}", f"{100 * found.accuracy:.2f}", "%"]
    assert Read(found._repr_html_()).texts["td"] == [cell for row in found.rows() for cell in row]
    assert found.as_dict()["heads"][4]["name"] == "decoder.blocks.0.attn.z"


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"key": jax.random.key(0)}, SettingError, "a key came; with dropout the heads would be compared by chance"),
        ({"labels": np.zeros(4, int)}, DataError, "arrays of 4 and 5 rows came, expected one row for each sample"),
        ({"labels": np.full(5, 9)}, DataError, "ablate_each: labels from 9 to 9 came, the model knows classes 0 to 4"),
        ({"labels": np.zeros((5, 2), int)}, ShapeError, r"labels of shape \(1, 2\) came"),
        ({"weights": np.zeros(5)}, DataError, "all weights are zero"),
    ],
)
def test_samples_that_do_not_fit_are_explained(change: Any, kind: type[Exception], message: str) -> None:
    one = ready("vit")
    with pytest.raises(kind, match=message):
        lens.ablate_each(one.model, one.params, one.x, **{**one.rest, **change})


def test_a_model_without_heads_says_so() -> None:
    model = MLP(PICTURES, hidden=(7,))
    with pytest.raises(UnknownNameError, match="MLP has no attention"):
        lens.ablate_each(model, model.init(jax.random.key(0)), ready("vit").x, labels=ready("vit").rest["labels"])
