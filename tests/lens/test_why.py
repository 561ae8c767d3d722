"""Why: what the page says is what the functions of Python give, and the formulas are of the house's grammar."""

import json
import re
from graphlib import TopologicalSorter
from typing import Any

import jax
import numpy as np
import pytest

from glassformer import lens
from glassformer.errors import ShapeError
from glassformer.formulas import parse
from glassformer.lens.attention_rollout import rolled
from glassformer.lens.gradient_attention import averaged, fetched
from glassformer.lens.payload import derived_products, payload
from glassformer.lens.provenance import Provenance
from glassformer.lens.residual_stream import params_of
from glassformer.lens.trace import Trace
from glassformer.lens.trace_input import TraceInput
from glassformer.lens.why import FORMULAS, READ, head_effects, place_of, why_of
from glassformer.losses import CrossEntropy
from glassformer.models import BERT, GPT, BERTFor, TagHead
from glassformer.models.text import Text
from glassformer.predict.run import load
from glassformer.probabilities import softmax

from .test_page import VIEWS


def parts_of(name: str) -> tuple[Any, Any, dict[str, dict[str, Any]]]:
    traced, given = VIEWS[name]()
    return traced, given, {part["title"]: part for part in why_of(traced, given)}


@pytest.mark.parametrize("name", ["vit", pytest.param("gpt", marks=pytest.mark.slow)])
def test_every_number_is_that_of_the_function(name: str) -> None:
    traced, given, parts = parts_of(name)
    place = None if name == "vit" else 8
    logits = np.asarray(traced.logits, np.float64)[0]
    logits = logits if place is None else logits[place]
    read = lens.logit_lens(traced, start=True)
    assert [row[0] for row in parts["logit lens"]["blocks"]] == list(read)
    last = parts["logit lens"]["blocks"][-1][1]
    assert last[0][0] == given.words[int(logits.argmax())]
    assert last[0][1] == pytest.approx(softmax(logits).max(), rel=1e-4)

    amounts = lens.attribution(traced, label=int(logits.argmax()), place=place)
    shown = parts["attribution"]
    assert shown["logit"] == pytest.approx(logits.max(), rel=1e-5)
    assert sum(amount for _, amount in shown["parts"]) + (shown["rest"] or 0) == pytest.approx(logits.max(), rel=1e-3)
    np.testing.assert_allclose(shown["maps"][0]["row"], amounts.at()[0])

    kind = "self" if name == "vit" else "causal"
    maps = {one: traced[one] for one in traced.values if one.endswith(".pattern")}
    toward = lens.trace(  # the gradient of what is answered there, and of nothing else
        traced.model,
        params_of(traced),
        given.x,
        labels=np.asarray(traced.logits).argmax(axis=-1),
        weights=None if place is None else (np.arange(9) == place).astype(np.float32)[None],
    )
    for title, expected in (
        ("rollout", rolled(traced.model, averaged(maps), s=0.5)[kind]),
        ("gradient x attention", fetched(lens.gradient_rollout(toward))[kind]),
    ):
        row = expected[0].mean(axis=0) if place is None else expected[0, place]
        np.testing.assert_allclose(parts[title]["maps"][0]["row"], row, atol=1e-9)
    assert [one["text"] for one in parts["health"]["findings"]] == [one.text for one in lens.health(traced)]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"asked": (8,), "question": "next", "weights": np.arange(9)[None] < 8}, 8),  # behind the text
        ({"asked": (3, 6), "question": "mask", "weights": np.isin(np.arange(9), (3, 6))[None]}, 3),  # the first mask
        ({"weights": np.arange(9)[None] < 8}, 7),
        ({}, 8),
    ],
)
def test_why_is_asked_of_the_answer_that_the_page_shows(given: dict[str, Any], place: int) -> None:
    shown = TraceInput("text", "", None, np.zeros((1, 9), int), True, tuple("a text so "[:9]), **given)
    assert place_of(Trace(GPT(Text(17, 9)), {}, {}, {}, {}, np.zeros((1, 9, 17)), None), shown) == place


def test_what_does_not_apply_says_so() -> None:
    _, _, parts = parts_of("lstm")
    assert "no residual stream" in parts["attribution"]["reason"]
    assert "no attention" in parts["rollout"]["reason"]
    assert parts["health"]["findings"]


def test_ablation_is_ablate_each() -> None:
    traced, given = VIEWS["vit"]()
    effects = head_effects(traced, given, CrossEntropy())
    assert effects is not None
    rows = next(part for part in why_of(traced, given, effects) if part["title"] == "ablation")["heads"]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        (one.name.removesuffix(".z"), one.head, one.loss_change) for one in effects.heads
    ]


def test_every_formula_is_of_the_grammar_and_every_part_says_how_it_is_read() -> None:
    for formula in FORMULAS.values():
        assert str(parse(formula)) == formula
    assert set(READ) == {*FORMULAS, "health"}
    assert all(text.endswith(".") for text in READ.values())


def test_the_page_in_a_notebook() -> None:
    run = load()
    images = run.load_data().test.images
    shown = lens.view(run.model, run.params, images[18:19], labels=[3])
    inside = shown._repr_html_()
    assert inside.startswith("<iframe")
    assert "<script" not in inside  # it is text there, until the frame opens it
    assert "what-if" in shown.html
    with pytest.raises(ShapeError, match=r"a batch of 2 came, a page shows one input: x\[:1\]"):
        lens.view(run.model, run.params, images[:2])


def test_a_language_model_in_a_notebook_shows_what_comes_next() -> None:
    model = GPT(text=Text(vocabulary=7, context=8), width=8, hidden=12, heads=2, depth=1)
    params, x = model.init(jax.random.key(0)), jax.numpy.array([[3, 1, 4, 1, 5]])
    shown = json.loads(re.findall(r'type="application/json"[^>]*>(.*?)</script>', lens.view(model, params, x).html)[0])
    assert [one["place"] for one in shown["answer"]["asked"]] == [4]
    log_p = jax.nn.log_softmax(model.forward(params, x)[0][0])
    followed = -np.mean([log_p[t, x[0, t + 1]] for t in range(4)])
    assert lens.view(model, params, x[:, :1]).html  # nothing is followed by anything
    traced = lens.trace(model, params, x, labels=np.pad(x[:, 1:], ((0, 0), (0, 1))), weights=[[1, 1, 1, 1, 0]])
    assert (shown["answer"]["loss"], traced.loss) == pytest.approx((float(followed), float(followed)), rel=1e-4)


def test_results_print_as_tables() -> None:
    run = load()
    traced = lens.trace(run.model, run.params, run.load_data().test.images[18:19], labels=[3])
    for one in (lens.health(traced), lens.logit_lens(traced), lens.attribution(traced)):
        assert "<table" in one._repr_html_()
        assert str(one)
    assert str(lens.logit_lens(traced)).splitlines()[-1].split()[:2] == ["blocks.0.resid_post", "3"]


# ---- size


def refs_of(entry: dict[str, Any]) -> set[str]:
    return {ref.get("tensor") or ref["y"] for ref in entry["refs"].values() if "value" not in ref}


def test_weights_none_leaves_out_the_weights_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.lens.payload.PRODUCTS", 20)
    traced, given = VIEWS["vit"]()
    kept = {weights: payload(traced, given, weights=weights) for weights in ("none", "shown", "all")}
    assert not set(kept["none"]["tensors"]) & set(traced.params)
    reads = {
        name: {entry["same"]} if "same" in entry else refs_of(entry) if entry.get("derived") else set()
        for name, entry in kept["none"]["tensors"].items()
    }
    list(TopologicalSorter(reads).static_order())  # raises where something would be worked out from itself
    assert set(traced.params) <= set(kept["shown"]["tensors"])
    derived = {name for name, entry in kept["shown"]["tensors"].items() if entry.get("derived")}
    assert "blocks.0.attn.dw_q" in derived
    assert "blocks.0.attn.dw_q" in kept["none"]["tensors"]
    assert not any(entry.get("derived") for entry in kept["all"]["tensors"].values())
    assert (kept["none"]["weights"], kept["shown"]["forward"]["reason"]) == ("none", "")
    made = Provenance(traced)
    for name in derived:  # what is worked out reads nothing that is not there
        refs = made.equations[name].refs.values()
        assert {ref.get("tensor") or ref.get("y") for ref in refs} - {None} <= set(kept["none"]["tensors"])
    assert derived_products({}, {}, made, set()) == set()


@pytest.mark.slow
def test_a_bert_of_22_million_parameters_without_weights_is_under_6_mb() -> None:
    model = BERTFor(BERT(Text(30_522, 512), width=384, hidden=1536, heads=12, depth=6), TagHead(384, 9))
    params = jax.tree.map(lambda a: 0.02 * np.ones(a.shape, a.dtype), jax.eval_shape(model.init, jax.random.key(0)))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda a: rng.normal(0, 0.02, a.shape).astype(np.float32), params)
    assert 22_000_000 < sum(leaf.size for leaf in jax.tree.leaves(params)) < 23_000_000
    x = rng.integers(0, 30_522, (1, 24), dtype=np.int32)
    shown = lens.view(model, params, x, labels=np.zeros((1, 24), np.int32), weights="none")
    assert len(shown.html.encode()) < 6_000_000
