"""What a page claims, of every kind of model: right, label, share, made of. Against the models written out by hand."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.lens.attention import patch_grid, tokens_in_front
from glassformer.lens.page import page
from glassformer.lens.payload import payload
from glassformer.lens.provenance import Provenance
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import TraceInput
from glassformer.probabilities import softmax

from .browser import Tab, browser, missing
from .by_hand import Seen
from .small_models import MODELS, small

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")
QUICK = ("vit-class", "gpt")  # each is compiled anew
KINDS = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in MODELS]
WORDS = tuple("abcdefghijk")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("claims")


@cache
def by_hand(kind: str) -> Seen:
    return small(kind).by_hand()


@cache
def labels_of(kind: str) -> np.ndarray:
    """Of every second token the likeliest, of the others the least likely: some are right, and some are not."""
    order = by_hand(kind).logits[:1].argsort(axis=-1)
    return np.where(np.arange(order[..., 0].size).reshape(order[..., 0].shape) % 2 == 1, order[..., -1], order[..., 0])


@cache
def traced_of(kind: str) -> tuple[Trace, TraceInput]:
    one, labels = small(kind), labels_of(kind)
    x = jax.tree.map(lambda leaf: leaf[:1], one.x)
    classes = WORDS[: by_hand(kind).logits.shape[-1]]
    if kind.startswith("vit"):
        rows, columns = patch_grid(one.model)
        patches = (f"{row},{column}" for row in range(rows) for column in range(columns))
        given = TraceInput("image", kind, x, labels, True, (*tokens_in_front(one.model), *patches), words=classes)
    else:
        read, written = (x.source, x.target) if kind.startswith("t5") else ((), x)
        tokens, memory = (tuple(WORDS[i] for i in np.ravel(ids).astype(int)) for ids in (written, read))
        given = TraceInput("text", kind, x, labels, True, tokens, memory, words=classes)
    return trace(one.model, one.params, x, labels=labels), given


def opened(tab: Tab, folder: Path, kind: str, *, known: bool = True) -> None:
    path = folder / f"{kind}-{known}.html"
    if not path.exists():
        traced, given = traced_of(kind)
        path.write_text(page(payload(traced, TraceInput(**{**vars(given), "is_known": known}))))
    tab.open("about:blank")
    tab.open(path.as_uri())
    tab.settle()


def percent(share: float) -> str:
    return "99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"  # all is all


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_right_and_label(tab: Tab, folder: Path, kind: str, known: bool) -> None:
    """Every class with its probability, or every token's answer; what is right stands there only where it was given."""
    opened(tab, folder, kind, known=known)
    p, labels = softmax(by_hand(kind).logits[0]), labels_of(kind)[0]
    if p.ndim == 1:
        svg = tab.run("glassformer.asSvg(document.querySelector('.answer .paper').figure.picture, 300, 'light')")
        expected = [(WORDS[i], percent(one), *(["label"] if known and i == labels else [])) for i, one in enumerate(p)]
        assert re.findall(r">([^<>]+)</text>", svg)[1:] == [word for row in expected for word in row]  # below its title
        assert f"says {WORDS[int(p.argmax())]}, {percent(p.max())}" in tab.text(".facts")
        return
    best, tokens = p.argmax(axis=-1), range(len(p))
    right = int((best == labels).sum())
    assert 0 < right < len(p)
    assert (f"{right} of {len(p)} tokens right" in tab.text(".facts")) == known
    layer = next(one for one in tab.run("glassformer.trace.attention") if one["queries"] == "tokens")["name"]
    for t in tokens:
        tab.run(f"glassformer.state.set({{ layer: {json.dumps(layer)}, token: {t} }})")
        told = f"{WORDS[labels[t]]} {percent(p[t, labels[t]])}"
        answer = f"token {t}: the model\u2019s answer{WORDS[best[t]]} {percent(p[t, best[t]])}"
        assert tab.text(".answer .places") == answer + (f"right is{told}" if known else "")


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_attention(tab: Tab, folder: Path, kind: str) -> None:
    """`Most to token 3 “d”: 41.2 %`, of every token in every head of every layer."""
    opened(tab, folder, kind)
    told = tab.run(
        """glassformer.trace.attention.flatMap((layer) => Array.from({ length: layer.heads }, (_, head) =>
          glassformer.trace.sequences[layer.queries].map((_, token) => {
            glassformer.state.set({ layer: layer.name, head, token });
            return [layer, head, token, document.querySelector(".caption").textContent];
          })).flat())"""
    )
    _, given = traced_of(kind)
    sequences = {"tokens": given.tokens, "memory": given.memory}
    patterns = by_hand(kind).patterns
    assert {layer["name"] + ".pattern" for layer, *_ in told} == set(patterns)
    assert len(told) == sum(pattern[0, :, :, 0].size for pattern in patterns.values())
    for layer, head, token, caption in told:
        row = patterns[f"{layer['name']}.pattern"][0, head, token]
        key = sequences[layer["keys"]][int(row.argmax())]
        most = key if given.kind == "image" else f"token {row.argmax()} “{key}”"
        near = {percent(row.max() + rounding) for rounding in (-1e-6, 0, 1e-6)}
        assert caption.rpartition("Most to ")[2] in {f"{most}: {share}." for share in near}


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_the_stream(tab: Tab, folder: Path, kind: str) -> None:
    """What every part, or every block that is closed, adds beside the residual stream."""
    opened(tab, folder, kind)
    traced, _ = traced_of(kind)
    shown = tab.run(
        """[...document.querySelectorAll(".line.adds")].map((one) => [one.querySelector("[data-part]").dataset.part,
        one.querySelector(".strength.adds output").textContent])"""
    )
    lines = [*lines_in(payload(*traced_of(kind))["overview"])]
    assert len(shown) >= 2

    def length(value: np.ndarray) -> np.ndarray:
        return np.linalg.norm(value[0].astype(np.float64), axis=-1)

    for part, told in shown:
        line = next(one for one in lines if part in (one.get("id"), *(box["id"] for box in one.get("boxes", []))))
        inside = [one for one in lines_in(line.get("lines", [])) if one["kind"] != "group"] or [line]
        stream = traced[next(one["stream"] for one in inside if one["stream"])]
        added = traced[line["added"]] if line["kind"] == "adds" else traced[inside[-1]["y"]] - stream
        assert told == f"+{percent(float(np.mean(length(added) / length(stream))))}"


def lines_in(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in lines:
        yield line
        yield from lines_in(line.get("lines", []))


@pytest.mark.parametrize("kind", KINDS)
def test_made_of(tab: Tab, folder: Path, kind: str) -> None:
    """The numbers that a cell is said to be made of are those of the tensors that are named; a sum is their sum."""
    opened(tab, folder, kind)
    found = tab.run(
        """glassformer.trace.names.flatMap((name) => [0, 5, 11].flatMap((i) => {
          const at = (i * 7919) % glassformer.trace.tensor(name).data.length;
          const made = glassformer.explain(name, at);
          const vector = (one) => one && { ...one, values: [...one.values] };
          const { product } = made ?? {};
          const terms = product && { ...product, a: vector(product.a), b: vector(product.b) };
          return made ? [{ ...made, name, product: terms }] : [];
        }))"""
    )
    made = Provenance(traced_of(kind)[0])
    checked = 0
    for one in found:
        for line in one["lines"]:
            if line.get("tensor"):
                assert np.isclose(made.seen(line["tensor"]), line["value"], rtol=1e-5).any(), (one["name"], line)
        product = one["product"]
        if not product:
            continue
        for side in (product["a"], product.get("b")):
            if side and side.get("tensor"):
                assert holds(made.seen(side["tensor"]), side), (one["name"], side["label"])
                checked += 1
        if product["kind"] == "product":
            a, b = (np.array(product[side]["values"]) for side in "ab")
            assert product["value"] == pytest.approx(a @ b, rel=1e-4, abs=1e-5 * np.abs(a * b).sum() + 1e-12)
    assert checked > 100


def holds(array: np.ndarray, side: dict[str, Any]) -> bool:
    """`blocks.0.attn.q[4]`: row 4, of one of its heads; `w_up[:, 3]`: column 3."""
    row, column = re.fullmatch(r"[\w.]+(?:\[(:|\d+)(?:, (\d+))?\])?", side["label"]).groups()  # pyright: ignore[reportOptionalMemberAccess]
    flat = array.reshape(-1, *array.shape[-2:]) if array.ndim > 1 else array[None, None]
    cut = flat[:, slice(None) if row in (":", None) else int(row), slice(None) if column is None else int(column)]
    values = np.array(side["values"])
    return any(one.size == values.size and np.allclose(np.ravel(one), values, rtol=1e-5) for one in cut)
