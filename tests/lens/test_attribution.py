"""Direct attribution: what the logit loses when a part is taken out of the stream by hand; the parts are all of it."""

from dataclasses import replace

import numpy as np
import pytest

from glassformer.errors import SettingError, ShapeError, UnknownNameError
from glassformer.lens.attribution import Attribution, attribution
from glassformer.models import MLP

from .small_models import PRE_NORM, Small, small, traced

PLACES = np.array([4, 2])  # of the two texts
LABELS = {"vit": np.array([2, 0, 1]), "gpt": np.array([7, 3]), "t5": np.array([0, 9])}
CASES = [(kind, padded) for kind in PRE_NORM for padded in (False, True) if not (padded and kind.startswith("vit"))]


def found_for(kind: str, padded: bool = False) -> Attribution:
    label = LABELS[kind.partition("-")[0]]
    return attribution(traced(kind, padded), label=label, place=None if kind.startswith("vit") else PLACES)


def frozen_logit(one: Small, stream: np.ndarray, scale_of: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The logit (B,), by token (B, T) or at a place (B, T): the norm divides by what it divided `scale_of` by."""
    w, vit = one.w, "head.w" in one.w
    norm = "decoder.norm" if "decoder.norm.gain" in w else "norm"
    gain = w[f"{norm}.gain"]
    if f"{norm}.bias" in w:
        spread = np.sqrt(scale_of.var(axis=-1, keepdims=True) + one.model.eps)
        h = (stream - stream.mean(axis=-1, keepdims=True)) / spread * gain + w[f"{norm}.bias"]
    else:
        h = stream / np.sqrt((scale_of**2).mean(axis=-1, keepdims=True) + one.model.eps) * gain
    if vit:
        return (h @ w["head.w"])[np.arange(len(h)), :, label]
    scale = one.model.width**-0.5 if norm == "decoder.norm" and "head.emb" not in w else 1.0
    return scale * (h @ w.get("head.emb", w["embed.emb"]).T)[np.arange(len(h)), :, label]


def read(one: Small, by_token: np.ndarray) -> np.ndarray:
    """Each token's share of the answer (B, T)."""
    if "head.w" in one.w:
        counts = np.zeros(by_token.shape[1])
        counts[0] = 1
        return by_token * (counts if one.model.with_class_token else 1 / by_token.shape[1])
    chosen = np.zeros_like(by_token)
    chosen[np.arange(len(chosen)), PLACES] = 1
    return by_token * chosen


@pytest.mark.parametrize(("kind", "padded"), CASES)
def test_parts_add_up_to_the_logit(kind: str, padded: bool) -> None:
    found = found_for(kind, padded)
    logits = small(kind, padded).by_hand().logits
    rows = np.arange(len(logits))
    own = logits[rows, found.label] if found.place is None else logits[rows, found.place, found.label]
    np.testing.assert_allclose(found.total(), found.logit, atol=1e-5)
    np.testing.assert_allclose(found.total(), own, atol=1e-5)


@pytest.mark.parametrize(("kind", "padded"), CASES)
def test_each_part_is_what_the_logit_loses_without_it(kind: str, padded: bool) -> None:
    one, found = small(kind, padded), found_for(kind, padded)
    seen = one.by_hand()
    end = next(reversed(seen.stream.values()))
    whole = read(one, frozen_logit(one, end, end, found.label))
    parts = {part.name.replace(".z", f".{part.head}"): part for part in found.parts}
    behind = {name for name in parts if name.endswith("norm.bias") or name == "head.b"}
    encoder = {name for name in seen.written if name.startswith("encoder.")}
    assert set(parts) - behind == set(seen.written) - encoder, "every part of the stream, once"
    for name in set(parts) - behind:
        without = read(one, frozen_logit(one, end - seen.written[name], end, found.label))
        np.testing.assert_allclose(np.asarray(parts[name].at), whole - without, atol=2e-5)
        np.testing.assert_allclose(parts[name].amount, (whole - without).sum(axis=1), atol=2e-5)
    silent = {"patch.y"} if kind == "vit-class" else set()  # only the class token is read
    assert {part.name for part in found.parts if np.abs(part.amount).max() < 1e-4} == silent


@pytest.mark.parametrize("kind", ["vit", "gpt", "t5"])
def test_a_head_by_the_token_it_fetched_from(kind: str) -> None:
    """By hand: that token's share of what the head wrote, read like any part."""
    one, found = small(kind), found_for(kind)
    seen = one.by_hand()
    end = next(reversed(seen.stream.values()))
    whole = read(one, frozen_logit(one, end, end, found.label))
    attention = "decoder.blocks.1.cross" if kind == "t5" else "blocks.1.attn"
    part = next(part for part in found.parts if part.name == f"{attention}.z" and part.head == 1)
    assert part.sources is not None
    np.testing.assert_allclose(part.sources.sum(axis=1), part.amount, atol=1e-5)
    for source in range(part.sources.shape[1]):

        def only(name: str, own: np.ndarray, source: int = source) -> np.ndarray:
            return own * (np.arange(own.shape[-1]) == source) if name == f"{attention}.pattern" else own

        wrote = one.by_hand(only).written[f"{attention}.1"]
        amount = (whole - read(one, frozen_logit(one, end - wrote, end, found.label))).sum(axis=1)
        np.testing.assert_allclose(part.sources[:, source], amount, atol=2e-5)


def test_by_position_of_a_mean_pool() -> None:
    found, bias = found_for("vit"), small("vit").w["head.b"]
    assert found.at().shape == (3, 6)
    np.testing.assert_allclose(found.at().sum(axis=1) + bias[found.label], found.logit, atol=1e-5)
    assert (np.abs(found.at()) > 1e-3).all(), "every token has its share"
    only_first = found_for("vit-class").at()
    assert np.abs(only_first[:, 0]).min() > 1e-3
    assert not only_first[:, 1:].any()


def test_heads_in_blocks() -> None:
    found = found_for("t5")
    assert found.heads().shape == found.heads("cross").shape == (2, 2, 3)
    part = next(p for p in found.parts if p.name == "decoder.blocks.1.cross.z" and p.head == 2)
    np.testing.assert_array_equal(found.heads("cross")[:, 1, 2], part.amount)
    with pytest.raises(UnknownNameError, match="no block has an attention called 'look'; expected attn, cross"):
        found.heads("look")


def test_the_likeliest_at_the_last_token_where_nothing_is_said() -> None:
    logits = small("gpt").by_hand().logits
    found = attribution(traced("gpt"))
    assert found.label.tolist() == logits[:, -1].argmax(axis=-1).tolist()
    assert found.place is not None
    assert found.place.tolist() == [5, 5]
    np.testing.assert_allclose(found.logit, logits[:, -1].max(axis=-1), atol=1e-5)
    same = attribution(traced("gpt"), label=int(found.label[0]), place=-1)
    np.testing.assert_array_equal(same.parts[3].amount[0], found.parts[3].amount[0])


def test_the_table_shows_the_largest_first() -> None:
    found = found_for("gpt")
    lines = found.table(sample=1, most=4).splitlines()
    assert lines[0].split() == ["logit", "3,", "token", "2", "adds"]
    amounts = [float(line.split()[-1]) for line in lines[2:6]]
    assert [abs(amount) for amount in amounts] == sorted(map(abs, amounts), reverse=True)
    assert abs(amounts[0]) == pytest.approx(max(abs(part.amount[1]) for part in found.parts), abs=1e-4)
    rest, total = float(lines[6].split()[-1]), float(lines[-1].split()[-1])
    assert lines[6].startswith(f"{len(found.parts) - 4} more, together")
    assert sum(amounts) + rest == pytest.approx(total, abs=1e-3)
    assert str(found) == found.table()


@pytest.mark.parametrize("kind", ["bert-masked", "bert-class"])
def test_post_norm_is_refused_with_the_reason(kind: str) -> None:
    with pytest.raises(SettingError, match="BERTFor is post-norm: every block ends in a norm of the whole stream"):
        attribution(traced(kind))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"label \[3, 3, 3\] came, expected 0 to 2"):
        attribution(traced("vit"), label=3)
    with pytest.raises(ShapeError, match=r"place \[6, 6\] came, expected 0 to 5, or -1 for the last"):
        attribution(traced("gpt"), place=6)
    with pytest.raises(SettingError, match="a ViT answers for the whole input; leave place out"):
        attribution(traced("vit"), place=0)
    with pytest.raises(UnknownNameError, match="MLP has no residual stream"):
        attribution(replace(traced("vit"), model=MLP()))
    dropped = {**traced("vit").values, "blocks.0.drop1.keep": np.ones(1)}
    with pytest.raises(SettingError, match=r"made with dropout \(blocks\.0\.drop1\.keep\); trace it without a key"):
        attribution(replace(traced("vit"), values=dropped))
