"""What if: every change against lens.patch with the same thing written out, and formulas worked out again by hand."""

from typing import Any

import jax
import numpy as np
import pytest

from glassformer import lens
from glassformer.errors import GlassformerError, SettingError, ShapeError, UnknownNameError
from glassformer.formulas import evaluate, parse
from glassformer.lens.dataflow import Dataflow, dataflow
from glassformer.lens.provenance import Provenance
from glassformer.lens.trace import Trace, prepared
from glassformer.lens.what_if import Change, change_of
from glassformer.losses import CrossEntropy

from .small_models import small

FAMILIES = ["vit-class", "gpt", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bert-class", "t5"))]
EVERY = [*FAMILIES, *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("gpt-rotary", "bert-masked"))]
LAYER = {"vit": "blocks.0.attn", "gpt": "blocks.0.attn", "bert": "bert.blocks.0.attn", "t5": "decoder.blocks.1.cross"}


def one(kind: str, i: int = 0) -> tuple[Any, Any, Any]:
    """A model, its params, and a batch of one."""
    ready = small(kind)
    return ready.model, ready.params, jax.tree.map(lambda leaf: leaf[i : i + 1], ready.x)


def layer_of(kind: str) -> str:
    return LAYER[kind.partition("-")[0]]


def hidden_in(model: Any, position: int, sequence: str) -> dict[str, Any]:
    """By hand: which scores, and which cells of them."""
    is_t5 = type(model).__name__ == "T5"
    prefix = "bert." if type(model).__name__ == "BERTFor" else ""

    def hide(scores: Any, cross: bool = False) -> Any:
        out = np.array(scores)
        for t in range(out.shape[2]):
            if cross or t != position:
                out[:, :, t, position] = -1e9
        return out

    if not is_t5:
        return {f"{prefix}blocks.{i}.attn.scores": hide for i in range(2)}
    if sequence == "tokens":
        return {f"decoder.blocks.{i}.attn.scores": hide for i in range(2)}
    found: dict[str, Any] = {f"encoder.blocks.{i}.attn.scores": hide for i in range(2)}
    return found | {f"decoder.blocks.{i}.cross.scores": lambda s: hide(s, cross=True) for i in range(2)}


def cases(kind: str) -> list[tuple[Change, dict[str, Any]]]:
    """A change, and the patch that it must be."""
    model, params, _ = one(kind)
    layer = layer_of(kind)
    theirs = lens.trace(model, params, one(kind, 1)[2])[f"{layer}.z"]

    def cut(value: Any, where: Any, new: Any) -> Any:
        out = np.array(value)
        out[where] = new(out[where]) if callable(new) else new
        return out

    found: list[tuple[Change, dict[str, Any]]] = [
        (lens.HeadOff(layer, 1), {f"{layer}.z": lambda z: cut(z, np.s_[:, :, 1], 0)}),
        (lens.Temperature(2.5, layer), {f"{layer}.scores": lambda s: np.asarray(s) / np.float32(2.5)}),
        (lens.Scale(f"{layer}.v", -1.5, head=1), {f"{layer}.v": lambda v: cut(v, np.s_[:, :, 1], lambda a: -1.5 * a)}),
        (lens.Replace(f"{layer}.z", 0.25, position=2), {f"{layer}.z": lambda z: cut(z, np.s_[:, 2], 0.25)}),
        (lens.Swap(f"{layer}.z", position=3), {f"{layer}.z": lambda z: cut(z, np.s_[:, 3], theirs[:, 3])}),
        (lens.HideToken(1), hidden_in(model, 1, "tokens")),
    ]
    if kind.startswith("t5"):
        found.append((lens.HideToken(1, "memory"), hidden_in(model, 1, "memory")))
    return found


@pytest.mark.parametrize("kind", EVERY)
def test_every_change_is_the_patch_that_it_says(kind: str) -> None:
    model, params, x = one(kind)
    for change, patch in cases(kind):
        outcome = lens.what_if(model, params, x, [change], other=one(kind, 1)[2])
        expected = lens.patch(model, params, x, patch)
        np.testing.assert_allclose(outcome.after.logits, expected.logits, atol=1e-5, err_msg=str(change))
        assert np.abs(outcome.change).max() > 1e-3, change
        np.testing.assert_array_equal(outcome.before.logits, lens.trace(model, params, x).logits)


def test_changes_of_one_value_follow_each_other_and_of_several_add_up() -> None:
    model, params, x = one("gpt")
    name = "blocks.0.attn.z"
    twice = lens.what_if(model, params, x, [lens.Scale(name, 2.0), lens.Replace(name, 1.0, head=0)]).after
    expected = lens.patch(model, params, x, {name: lambda z: np.concatenate([0 * z[:, :, :1] + 1, 2 * z[:, :, 1:]], 2)})
    np.testing.assert_allclose(twice.logits, expected.logits, atol=1e-5)
    hot = lens.what_if(model, params, x, [lens.Temperature(3.0)]).after
    by_hand = lens.patch(model, params, x, {f"blocks.{i}.attn.scores": lambda s: s / 3 for i in range(2)})
    np.testing.assert_allclose(hot.logits, by_hand.logits, atol=1e-5)


def test_another_input_is_that_input() -> None:
    model, params, x = one("gpt")
    edited = np.array(x)
    edited[0, 2] = (edited[0, 2] + 1) % 11
    outcome = lens.what_if(model, params, x, [lens.SetToken(2, int(edited[0, 2]))])
    np.testing.assert_array_equal(outcome.after.logits, lens.trace(model, params, edited).logits)
    model, params, image = one("vit")
    drawn = 255 - np.asarray(image)
    outcome = lens.what_if(model, params, image, [lens.SetImage(drawn[0])])
    np.testing.assert_allclose(outcome.after.logits, lens.trace(model, params, drawn).logits, atol=1e-6)
    model, params, pair = one("t5")
    source = np.array(pair.source)
    source[0, 0] = (source[0, 0] + 3) % 11
    outcome = lens.what_if(model, params, pair, [lens.SetToken(0, int(source[0, 0]), "memory")])
    np.testing.assert_allclose(
        outcome.after.logits, lens.trace(model, params, pair._replace(source=source)).logits, atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt", "t5"])
def test_heads_off_one_by_one_are_ablate_each(kind: str) -> None:
    model, params, x = one(kind)
    logits = np.asarray(lens.trace(model, params, x).logits)
    labels = np.random.default_rng(1).integers(0, 11, logits.shape[:-1])
    effects = lens.ablate_each(model, params, x, labels=labels)
    for head in effects.heads:
        off = lens.HeadOff(head.name.removesuffix(".z"), head.head)
        outcome = lens.what_if(model, params, x, [off], labels=labels)
        assert outcome.after.loss == pytest.approx(head.loss, abs=1e-5)


@pytest.mark.parametrize("kind", FAMILIES)
def test_activation_patching_is_a_patch_in_every_cell(kind: str) -> None:
    model, params, x = one(kind)
    other = one(kind, 1)[2]
    table = lens.activation_patching(model, params, x, other)
    theirs = lens.trace(model, params, other)
    rng = np.random.default_rng(0)
    for name, row in table.rows.items():
        at = int(rng.integers(len(row)))

        def put(value: Any, name: str = name, at: int = at) -> Any:
            out = np.array(value)
            out[:, at] = theirs[name][:, at]
            return out

        logits = np.asarray(lens.patch(model, params, x, {name: put}).logits)[0]
        found = logits[table.label] if table.place is None else logits[table.place, table.label]
        assert found - table.before == pytest.approx(row[at], abs=1e-5)
    assert str(table).startswith(f"change of logit {table.label}")
    assert "<table" in table._repr_html_()


# ---- the formulas of the dataflow, worked out in order, are the model


class ByFormulas:
    """Forward by the formulas alone, as the page does it."""

    def __init__(self, traced: Trace, flow: Dataflow) -> None:
        self.traced, self.flow, self.made = traced, flow, Provenance(traced)

    def run(self, changes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Values as formulas see them; `changes` are put in the place of values."""
        values: dict[str, np.ndarray] = {}

        def look(name: str) -> np.ndarray:
            if name not in values:
                values[name] = changes[name] if name in changes else self.value(name, look)
            return values[name]

        for name in self.traced.values:
            look(name)
        return values

    def value(self, name: str, look: Any) -> np.ndarray:
        if name not in self.flow.equations:
            return self.made.seen(name)
        text, refs = self.flow.equations[name]
        left = self.made.seen(name).shape

        def meaning(word: str) -> Any:
            return look(refs[word]["tensor"]) if "tensor" in refs[word] else np.asarray(refs[word]["value"])

        def part(word: str, given: Any) -> Any:
            return look(refs[word]["y"]) if word in refs else None

        right = np.asarray(evaluate(parse(text).expr, meaning, part), np.float64)
        return right.reshape(left) if right.size == np.prod(left) else np.broadcast_to(right, left)


def flow_of(model: Any, params: Any, x: Any) -> tuple[Trace, Dataflow]:
    logits = np.asarray(lens.trace(model, params, x).logits)
    labels = np.zeros(logits.shape[:-1], np.int32)
    traced = lens.trace(model, params, x, labels=labels)
    return traced, dataflow(traced, CrossEntropy(), params, prepared(model, x, labels, None, None, {}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY)
def test_each_value_replaced_goes_where_it_goes_in_the_model(kind: str) -> None:
    """Also where one array has several names: a query is not the memory, though both are the norm's output."""
    model, params, x = one(kind)
    traced, flow = flow_of(model, params, x)
    assert flow.missing == {}
    formulas = ByFormulas(traced, flow)
    end = next(name for name in reversed(traced.values) if not name.startswith("loss."))
    np.testing.assert_allclose(formulas.run({})[end].ravel(), np.asarray(traced.logits).ravel(), atol=2e-5)
    rng = np.random.default_rng(0)
    for name, value in traced.values.items():
        is_float = np.issubdtype(value.dtype, np.floating)
        if not is_float or name.startswith("loss.") or name in traced.params:
            continue
        new = (np.asarray(value) * rng.normal(1, 0.2, value.shape)).astype(np.float32)
        expected = lens.patch(model, params, x, {name: new})
        made = Provenance(expected)
        made.arrays[name] = expected.values[name]  # of what a part reads, there stands what came before it was replaced
        found = formulas.run({name: made.seen(name)})[end]
        np.testing.assert_allclose(found.ravel(), np.asarray(expected.logits).ravel(), atol=5e-5, err_msg=name)


# ---- what is refused


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lens.HeadOff("blocks.7.attn", 0), SettingError, "no attention layer is called 'blocks.7.attn'"),
        (lens.HeadOff("blocks.0.attn", 9), SettingError, "head 9 came, blocks.0.attn.z has heads 0 to 2"),
        (lens.Temperature(0.0), SettingError, "expected a number above 0"),
        (lens.HideToken(6), SettingError, "position 6 came, blocks.0.attn has keys 0 to 5"),
        (lens.Scale("blocks.0.attn.zz", 1.0), UnknownNameError, "no value of forward is called 'blocks.0.attn.zz'"),
        (lens.Swap("blocks.0.attn.z"), SettingError, "give the other one"),
        (lens.SetToken(99, 0), SettingError, "position 99 came, the input has 0 to 5"),
        (lens.SetImage(np.zeros((2, 2))), ShapeError, "4 pixels came"),
    ],
)
def test_a_change_that_cannot_be_made_says_why(change: Change, error: type[Exception], message: str) -> None:
    model, params, x = one("gpt")
    with pytest.raises(error, match=message):
        lens.what_if(model, params, x, [change])


def test_a_swap_with_an_input_of_another_length_is_refused() -> None:
    model, params, x = one("gpt")
    with pytest.raises(ShapeError, match="take one of as many tokens"):
        lens.what_if(model, params, x, [lens.Swap("blocks.0.attn.z")], other=x[:, :4])
    with pytest.raises(ShapeError, match="take one of as many tokens"):
        lens.activation_patching(model, params, x, x[:, :4])
    with pytest.raises(SettingError, match="label 99 came, the model knows 0 to 10"):
        lens.activation_patching(model, params, x, x, label=99)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"change": "explode"}, "'explode' is no kind of change"),
        ({}, "'None' is no kind of change"),
        ({"change": "head-off", "layer": "a"}, "head is missing"),
        ({"change": "head-off", "layer": "a", "head": 1.5}, "expected a whole number"),
        ({"change": "head-off", "layer": "a", "head": True}, "expected a whole number"),
        ({"change": "scale", "name": "a", "by": float("nan")}, "expected a number of at most 1e30"),
        ({"change": "scale", "name": "a", "by": 1, "heads": 2}, "'heads' came; expected name, by, head, position"),
    ],
)
def test_records_from_outside_are_checked(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(GlassformerError, match=message):
        change_of(plain)


def test_a_record_is_its_change() -> None:
    plain = {"change": "scale", "name": "blocks.0.attn.z", "by": 2, "head": 1, "position": None}
    assert change_of(plain) == lens.Scale("blocks.0.attn.z", 2, head=1)
