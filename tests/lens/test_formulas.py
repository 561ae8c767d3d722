"""The string shown is the string evaluated: every equation a page can show gives what the model computed."""

import base64
import importlib
import inspect
import json
import pkgutil
import re
from dataclasses import dataclass, replace
from functools import cache
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.errors import ContractError
from glassformer.formulas import CONSTANTS, FUNCTIONS, evaluate, parse, stated
from glassformer.layers import (
    BandedAttention,
    BlockwiseAttention,
    CausalSelfAttention,
    GELUTanh,
    LayerNorm,
    LinearAttention,
    Mask,
    MultiHeadAttention,
    ReLU,
    Rotary,
    ScaledRotary,
    SelfAttention,
)
from glassformer.layers.rope_scaling import YarnScaling
from glassformer.lens.payload import payload
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import TraceInput
from glassformer.losses import CrossEntropy, LabelSmoothing
from glassformer.models import (
    BERT,
    GPT,
    MLP,
    MODELS,
    T5,
    BERTFor,
    ClassHead,
    Columns,
    Images,
    Llama,
    MaskedHead,
    Network,
    PatchAttention,
    PatchBlock,
    RecurrentClassifier,
    RecurrentLM,
    SpanHead,
    TagHead,
    Text,
    TinyIris,
    ViT,
)
from glassformer.models.patch_block import NormedResidual
from glassformer.models.t5 import Inputs
from glassformer.names import at, tag

IMAGES = Images(shape=(8, 12, 1), classes=3, mean=0.2, std=0.7)
WORDS = Text(vocabulary=11, context=9)
SMALL_GPT = GPT(WORDS, width=12, hidden=10, heads=3, depth=1)
SMALL_LLAMA = Llama(WORDS, width=10, hidden=7, heads=6, key_heads=2, head_width=4, depth=1, head_norm=True)
SMALL_BERT = BERT(WORDS, width=12, hidden=10, heads=3, depth=1)
SMALL_VIT = ViT(images=IMAGES, width=8, hidden=9, heads=2)
SMALL_T5 = T5(WORDS, width=6, hidden=7, heads=3, head_width=4, depth=1, reach=64)


class OwnParams(NamedTuple):
    w: jax.Array
    b: jax.Array


@dataclass(frozen=True)
class Doubled:
    """Doubled linear: has x, y, w and b like Linear, and is none.

    forward    y = factor * (x @ w) - b
    backward   dx = factor * dy @ w^T      dw = factor * x^T @ dy      db = -sum_tokens(dy)
    """

    width: int
    factor: float = 2.0

    def init(self, key: Any) -> OwnParams:
        return OwnParams(w=jax.random.normal(key, (self.width, self.width)), b=jnp.ones(self.width))

    def forward(self, params: OwnParams, x: Any) -> tuple[Any, Any]:
        x = tag("x", x)
        return tag("y", self.factor * (x @ params.w) - params.b), x

    def backward(self, params: OwnParams, cache: Any, dy: Any) -> tuple[Any, OwnParams]:
        dy = tag("dy", dy)
        flat, tokens = dy.reshape(-1, self.width), cache.reshape(-1, self.width)
        dw = self.factor * tokens.T @ flat
        return tag("dx", self.factor * dy @ params.w.T), OwnParams(w=dw, b=-jnp.sum(flat, axis=0))


@dataclass(frozen=True)
class Silent:
    def init(self, key: Any) -> OwnParams:
        return OwnParams(w=jax.random.normal(key, (4, 4)), b=jnp.ones(4))

    def forward(self, params: OwnParams, x: Any) -> tuple[Any, Any]:
        return tag("y", jnp.sin(tag("x", x) @ params.w)), x

    def backward(self, params: OwnParams, cache: Any, dy: Any) -> tuple[Any, OwnParams]:
        slope = dy * jnp.cos(cache @ params.w)
        flat, tokens = slope.reshape(-1, 4), cache.reshape(-1, 4)
        return slope @ params.w.T, OwnParams(w=tokens.T @ flat, b=jnp.zeros(4))


@dataclass(frozen=True)
class OwnModel:
    """Own model: someone else's layers and ours.

    forward    mixed = silent(x) + doubled(norm(x))
    backward   dx = silent.backward(dmixed) + norm.backward(doubled.backward(dmixed))
    """

    def init(self, key: Any) -> dict[str, Any]:
        keys = jax.random.split(key, 3)
        layers = {"silent": Silent(), "norm": LayerNorm(4), "doubled": Doubled(4)}
        return {name: layer.init(k) for (name, layer), k in zip(layers.items(), keys, strict=True)}

    def forward(self, params: dict[str, Any], x: Any) -> tuple[Any, Any]:
        s, silent = at("silent", Silent()).forward(params["silent"], x)
        h, norm = at("norm", LayerNorm(4)).forward(params["norm"], x)
        h, doubled = at("doubled", Doubled(4)).forward(params["doubled"], h)
        return tag("mixed", s + h), (silent, norm, doubled)

    def backward(self, params: dict[str, Any], cache: Any, dy: Any) -> tuple[Any, dict[str, Any]]:
        dmixed = tag("dmixed", dy)
        ds, dsilent = at("silent", Silent()).backward(params["silent"], cache[0], dmixed)
        dh, ddoubled = at("doubled", Doubled(4)).backward(params["doubled"], cache[2], dmixed)
        dh, dnorm = at("norm", LayerNorm(4)).backward(params["norm"], cache[1], dh)
        return ds + dh, {"silent": dsilent, "norm": dnorm, "doubled": ddoubled}


VIEWS: dict[str, Any] = {
    "mlp": MLP(images=IMAGES, hidden=(5,)),
    "patch_attention": PatchAttention(images=IMAGES),
    "vit": SMALL_VIT,
    "patch_block": PatchBlock(images=IMAGES, block=NormedResidual(), heads=2),
    "tiny_iris": TinyIris(columns=Columns(mean=(1.0, 2.0, 3.0, 4.0), std=(2.0, 3.0, 1.0, 0.5))),
    "gpt": SMALL_GPT,
    "llama": SMALL_LLAMA,
    "bert": SMALL_BERT,
    "t5": SMALL_T5,
    "recurrent": RecurrentLM(WORDS, width=7, hidden=7, depth=1),
    "recurrent-classifier": RecurrentClassifier(WORDS, classes=3, width=5, hidden=6, depth=1, cell="gru"),
    "own": OwnModel(),
    "blockwise": CausalSelfAttention(MultiHeadAttention(4, 2, attend=BlockwiseAttention(block=2))),
    "banded": SelfAttention(MultiHeadAttention(4, 2, attend=BandedAttention())),
    "linear": CausalSelfAttention(MultiHeadAttention(4, 2, attend=LinearAttention(block=2))),
    "vit, class token": replace(SMALL_VIT, with_class_token=True),
    "gpt, banded, checkpoint": replace(SMALL_GPT, attend=BandedAttention(), window=3, global_tokens=1, checkpoint=True),
    "gpt, linear": replace(SMALL_GPT, attend=LinearAttention(block=2)),
    "gpt, rotary": replace(SMALL_GPT, rotary=Rotary(), tied=False),
    "llama, yarn": replace(SMALL_LLAMA, rotary=ScaledRotary(YarnScaling(3.0, context=5)), bias=True, head_norm=False),
    "bert, classes": BERTFor(SMALL_BERT, ClassHead(12, 4)),
    "roberta": replace(SMALL_BERT, first_position=2),
    "distilbert, classes": BERTFor(replace(SMALL_BERT, segments=0), ClassHead(12, 4, activation=ReLU())),
    "deit, channels": replace(
        SMALL_VIT,
        images=replace(IMAGES, mean=(0.4,) * IMAGES.shape[2], std=(0.2,) * IMAGES.shape[2]),
        with_class_token=True,
        distillation="head",
    ),
    "bert, tags": BERTFor(SMALL_BERT, TagHead(12, 4)),
    "bert, span": BERTFor(SMALL_BERT, SpanHead(12)),
    "bert, masked": BERTFor(SMALL_BERT, MaskedHead(12, 11)),
    "t5, gated": replace(SMALL_T5, gated=True, activation=GELUTanh(), tied=False),
    "rnn": RecurrentLM(WORDS, width=5, hidden=5, depth=1, cell="rnn"),
}
OF_HEADS = ("rotary_", "norm_q", "norm_k")  # layers that are given heads
SLOW = {name for name in VIEWS if "," in name or name == "rnn"}
EACH = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in VIEWS]


class Shown(NamedTuple):
    traced: Trace
    page: dict[str, Any]

    def number(self, name: str) -> np.ndarray:
        """As formulas see it, of what stands in the page."""
        entry = self.page["tensors"][name]
        source = self.page["tensors"][entry["same"]] if "same" in entry else entry
        data = base64.b64decode(source["data"])
        size = int(np.prod(entry["shape"]))
        if source["type"] == "b1":
            flat = np.unpackbits(np.frombuffer(data, np.uint8))[:size]
        else:
            flat = np.frombuffer(data, "<f4")
        array, axes = flat.astype(np.float64).reshape(entry["shape"]), entry["axes"]
        if array.ndim == 3 and axes[1] in ("H", "J", "3", "4"):
            return np.moveaxis(array, 1, 0)
        return array[:, None] if array.ndim == 2 and axes[0] in ("3", "4") else array

    def worked_out(self, name: str) -> np.ndarray:
        """The right side of the equation; what parts were given is checked on the way."""
        entry = self.page["tensors"][name]
        refs = entry["refs"]

        def value(word: str) -> Any:
            return self.number(refs[word]["tensor"]) if "tensor" in refs[word] else np.asarray(refs[word]["value"])

        def part(word: str, given: list[Any]) -> np.ndarray | None:
            if word not in refs:
                return None
            direction = "backward" if word.endswith(".backward") else "forward"
            work = next(
                one for one in self.traced.works if (one.name, one.direction) == (refs[word]["part"], direction)
            )
            assert len(given) == len(work.given), f"{name}: {word} was given {list(work.given)}"
            for came, array in zip(given, work.given.values(), strict=True):
                expected = np.asarray(array, np.float64)
                came = np.moveaxis(came, 0, 1) if expected.ndim == 4 and word.startswith(OF_HEADS) else np.asarray(came)
                np.testing.assert_allclose(came.ravel(), expected.ravel(), atol=1e-4 * max(1, abs(expected).max()))
            return self.number(refs[word]["y"])

        right = np.asarray(evaluate(parse(entry["equation"]).expr, value, part), np.float64)
        left = self.number(name)
        return right.reshape(left.shape) if right.size == left.size else np.broadcast_to(right, left.shape)


@cache
def shown(view: str) -> Shown:
    model: Any = VIEWS[view]
    rng, keywords = np.random.default_rng(0), {}
    ids = rng.integers(0, 11, (1, 6)).astype(np.int32)
    if not isinstance(VIEWS[view], Network):
        x: Any = rng.normal(size=(1, 5, 4)).astype(np.float32)
        keywords = {"mask": Mask(window=2, global_tokens=1)} if view == "banded" else {}
    elif "images" in model.__dataclass_fields__:
        x = rng.integers(0, 256, (1, *IMAGES.shape), dtype=np.uint8)
    elif view == "tiny_iris":
        x = rng.normal(size=(1, 4)).astype(np.float32)
    else:
        target = rng.integers(0, 11, (1, 5)).astype(np.int32)
        x = Inputs(source=jnp.asarray(ids), target=jnp.asarray(target)) if view.startswith("t5") else ids
        keywords = {} if view == "gpt" else {"keep": np.arange(6)[None] < 4}
    keys = iter(jax.random.split(jax.random.key(1), 1000))
    params = jax.tree.map(lambda a: 2 * a + 0.3 * jax.random.normal(next(keys), a.shape), model.init(jax.random.key(0)))
    logits = jax.eval_shape(lambda p, x: model.forward(p, x, **keywords)[0], params, x)
    labels = rng.integers(0, logits.shape[-1], logits.shape[:-1])
    loss = LabelSmoothing() if view == "mlp" else CrossEntropy()
    traced = trace(model, params, x, labels=labels, loss=loss, **keywords)
    memory = tuple("abcdef") if view.startswith("t5") else ()
    tokens = tuple("vwxyz") if view.startswith("t5") else tuple("abcdef")
    given = TraceInput("text", view, x, labels, True, tokens, memory, keywords=keywords)
    return Shown(traced, json.loads(json.dumps(payload(traced, given))))


def test_every_kind_of_model_is_looked_at() -> None:
    assert set(MODELS) <= set(VIEWS)


@pytest.mark.parametrize("view", EACH)
def test_every_equation_gives_what_the_model_computed(view: str) -> None:
    one = shown(view)
    tensors = one.page["tensors"]
    largest: dict[str, float] = {}
    for name in tensors:  # of a layer: where terms cancel out, as in the gradient of a key's bias, rounding is left
        scope = name.rpartition(".")[0]
        largest[scope] = max(largest.get(scope, 0), np.abs(one.number(name)).max(initial=0) if is_back(name) else 0)
    wrong = []
    for name, entry in tensors.items():
        if "equation" in entry:
            left, right = one.number(name), one.worked_out(name)
            size = np.abs(left).max(initial=0)
            size = max(size, largest[name.rpartition(".")[0]]) if is_back(name) else size
            if not np.abs(left - right).max(initial=0) <= 1e-4 * max(size, 1e-6):
                wrong.append(f"{name}: {entry['equation']}")
    assert wrong == []


def is_back(name: str) -> bool:
    return name.rpartition(".")[2].startswith("d")


@pytest.mark.parametrize("view", EACH)
def test_three_quarters_of_the_values_have_an_equation(view: str) -> None:
    page = shown(view).page
    names = [name for name, entry in page["tensors"].items() if entry["kind"] in ("value", "gradient", "dweight")]
    told = [name for name in names if "equation" in page["tensors"][name]]
    least = {"own": 0.7, "banded": 0.7}.get(view, 0.75)  # one of its layers states nothing; band and global rows
    assert len(told) >= least * len(names), sorted(set(names) - set(told))


@pytest.mark.parametrize("view", EACH)
def test_no_equation_names_what_is_not_there(view: str) -> None:
    page = shown(view).page
    for name, entry in page["tensors"].items():
        if "equation" not in entry:
            continue
        formula = parse(entry["equation"])
        assert str(formula) == entry["equation"]
        assert formula.name == name.rpartition(".")[2]
        assert set(formula.expr.names()) - set(CONSTANTS) <= set(entry["refs"]), entry["equation"]
        assert set(formula.expr.calls()) <= set(entry["refs"]) | set(FUNCTIONS), entry["equation"]
        for ref in entry["refs"].values():
            if "value" not in ref:
                assert (ref.get("tensor") or ref["y"]) in page["tensors"]
    for step in page["steps"]:
        equations = [entry["equation"] for entry in page["tensors"].values() if "equation" in entry]
        assert set(step["forward"]) | set(step["backward"]) <= set(equations)


@pytest.mark.parametrize("view", EACH)
def test_nothing_is_made_of_itself(view: str) -> None:
    """Along the equations one comes to what was put in, but for a recurrence, which goes through time."""
    tensors = shown(view).page["tensors"]
    reads = {
        name: {ref.get("tensor") or ref.get("y") for ref in entry["refs"].values()} - {None}
        for name, entry in tensors.items()
        if "equation" in entry and not {"before", "later"} & set(parse(entry["equation"]).expr.calls())
    }
    list(TopologicalSorter(reads).static_order())  # raises where there is a circle


# ---- what a page said wrongly, once


def equation(view: str, name: str) -> str:
    return shown(view).page["tensors"][name].get("equation", "")


def test_what_a_layer_does_not_have_is_not_shown() -> None:
    assert equation("t5", "encoder.blocks.0.attn.q") == "q = split(query @ w_q, H)"
    assert equation("patch_attention", "attn.djoined") == "djoined = dy"
    assert equation("gpt", "blocks.0.attn.scores") == "scores = q @ k^T / sqrt(D)"
    assert equation("t5", "decoder.blocks.0.attn.scores") == "scores = q @ k^T * scale + bias"


def test_a_mask_is_shown_where_one_came() -> None:
    assert equation("gpt", "blocks.0.attn.pattern") == "pattern = softmax(masked(scores, mask))"
    assert equation("vit", "blocks.0.attn.pattern") == "pattern = softmax(scores)"
    mask = shown("gpt").number("blocks.0.attn.mask")
    np.testing.assert_array_equal(mask, np.tril(np.ones((6, 6))))


@pytest.mark.slow
def test_the_pooler_of_bert_is_shown_as_what_it_is() -> None:
    steps = {step["id"]: step for step in shown("bert, classes").page["steps"]}
    assert (steps["head.first"]["layer"], steps["head.first"]["forward"]) == ("FirstToken", ["y = first(x)"])
    assert (steps["head.pool"]["layer"], steps["head.activation"]["forward"]) == ("Linear", ["y = tanh(x)"])


@pytest.mark.slow
def test_rotary_positions_are_in_the_formula_of_q() -> None:
    assert equation("gpt, rotary", "blocks.0.attn.q") == "q = rotary_q(split(query @ w_q + b_q, H))"
    assert equation("gpt, rotary", "blocks.0.attn.rotary_q.y").startswith("y = x * cos(angle(place, base, D))")


def test_an_activation_is_named() -> None:
    steps = {step["id"]: step for step in shown("gpt").page["steps"]}
    assert steps["blocks.0.ff.activation"]["title"] == "GELU by tanh"
    assert "hidden = activation(hidden_pre)" in steps["blocks.0.ff"]["forward"]


def test_no_decoder_is_called_an_encoder() -> None:
    steps = shown("t5").page["steps"] + shown("gpt").page["steps"]
    assert not [step["id"] for step in steps if "ncoder" in step["title"] and step["id"].startswith(("blocks", "dec"))]


def test_gates_are_gates() -> None:
    page = shown("recurrent").page
    tensors, step = page["tensors"], next(one for one in page["steps"] if one["layer"] == "LSTM")
    assert step["gates"] == ["i", "f", "g", "o"]
    assert tensors["reader.cells.0.pre"]["axes"] == ["T", "4", "O"]
    assert tensors["reader.cells.0.w_x"]["axes"] == ["C", "4", "C"]
    assert equation("recurrent", "reader.cells.0.c") == "c = f * before(c) + i * g"


def test_axes_say_what_stands_along_them() -> None:
    assert shown("vit").page["tensors"]["head.y"]["axes"] == ["K"]
    assert shown("vit").page["tensors"]["head.w"]["axes"] == ["C", "K"]
    assert shown("gpt").page["tensors"]["head.logits"]["axes"] == ["T", "V"]
    assert shown("gpt").page["tensors"]["loss.log_p"]["axes"] == ["T", "V"]
    tensors = shown("t5").page["tensors"]
    assert tensors["encoder.bias.table"]["axes"] == ["R", "H"]
    assert tensors["encoder.blocks.0.attn.scores"]["axes"] == ["H", "T", "S"]
    assert tensors["encoder.blocks.0.resid_mid"]["axes"] == ["S", "C"]
    assert tensors["decoder.blocks.0.resid_mid"]["axes"] == ["T", "C"]


def test_whose_attention_it_is() -> None:
    layers = {one["name"]: one for one in shown("t5").page["attention"]}
    assert [one["mask"] for one in layers.values()] == ["self", "causal", "self"]
    assert (layers["encoder.blocks.0.attn"]["queries"], layers["encoder.blocks.0.attn"]["keys"]) == ("memory", "memory")
    cross = layers["decoder.blocks.0.cross"]
    assert (cross["queries"], cross["keys"], cross["square"]) == ("tokens", "memory", False)
    assert (cross["scale"], shown("gpt").page["attention"][0]["scale"]) == (1.0, 0.5)
    assert shown("gpt").page["attention"][0]["mask"] == "causal"


def test_an_own_layer_is_shown_by_its_own_formulas_and_a_silent_one_by_none() -> None:
    page = shown("own").page
    steps = {step["id"]: step for step in page["steps"]}
    assert steps["doubled"]["title"] == "Doubled linear"
    assert steps["doubled"]["forward"] == ["y = factor * (x @ w) - b"]
    assert (steps["silent"]["title"], steps["silent"]["forward"], steps["silent"]["backward"]) == ("Silent", [], [])
    assert equation("own", "mixed") == "mixed = silent(x) + doubled(norm(x))"


# ---- the grammar


def layers() -> list[type]:
    """Every layer, loss and model that states or could state formulas."""
    found = []
    for room in ("layers", "losses", "models"):
        package = importlib.import_module(f"glassformer.{room}")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"glassformer.{room}.{info.name}")
            found += [
                one
                for one in vars(module).values()
                if inspect.isclass(one) and one.__module__ == module.__name__ and "forward" in vars(one)
            ]
    return found


@pytest.mark.parametrize("layer", layers(), ids=lambda layer: layer.__name__)
def test_every_docstring_parses(layer: type) -> None:
    source = inspect.getsource(inspect.getmodule(layer))  # pyright: ignore[reportArgumentType]
    for formula in (*stated(layer, "forward"), *stated(layer, "backward")):
        assert parse(str(formula)) == formula
        for call in formula.expr.calls():
            part = call.removesuffix(".backward")
            assert call in FUNCTIONS or re.search(rf'at\("{part}"', source), f"{formula}: no part or function {call}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("y = x @", "'the end' came instead of a name or a number"),
        ("y = x, summed", "',' came instead of 'the end'"),
        ("y = (x + 1", "'the end' came instead of ')'"),
        ("2 = x", "no name stands on the left"),
        ("y = x ? 1", "'?' came"),
    ],
)
def test_what_is_no_formula_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ContractError, match=re.escape(complaint)):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["y = a - (b - c)", "y = a / (b * c)", "y = -x^2", "y = (a + b)^T @ c", "y = a[0] * b[ids]^T", "y = x^(2 * i)"],
)
def test_printing_keeps_the_meaning(text: str) -> None:
    assert str(parse(text)) == text


def test_a_wrong_equation_would_be_found() -> None:
    """The check above can fail."""
    one = shown("gpt")
    entry = one.page["tensors"]["blocks.0.attn.dq"]
    wrong = {
        **one.page["tensors"],
        "blocks.0.attn.dq": {**entry, "equation": "dq = dscores @ k * D", "refs": entry["refs"]},
    }
    changed = Shown(one.traced, {**one.page, "tensors": wrong})
    assert np.abs(changed.worked_out("blocks.0.attn.dq") - one.number("blocks.0.attn.dq")).max() > 1e-3
