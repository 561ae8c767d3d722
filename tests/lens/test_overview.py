"""The first screen: the whole model in one picture, what went in and what came out. In a real browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.lens.page import page
from glassformer.lens.payload import payload
from glassformer.lens.trace import Trace
from glassformer.lens.trace_input import TraceInput
from glassformer.models import BERT, GPT, BERTFor
from glassformer.models.bert_heads import TagHead
from glassformer.models.text import Text
from glassformer.names import named_leaves

from .browser import Tab, browser, missing
from .test_page import EACH_VIEW, LONG, SLOW, Seen, seen, text_view, view_of
from .test_what_if_page import ready

needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")
FIRST_SCREENS = [
    pytest.param(one, marks=[pytest.mark.slow] if one in SLOW else []) for one in ("vit", "gpt", "bert", "t5", "lstm")
]
SIZES = {390: 844, 1024: 768, 1600: 900}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def vit(tab: Tab, folder: Path) -> Seen:
    tab.size(1440, 900)
    tab.scheme("light")
    one = seen(tab, folder, "vit")
    one.open()
    return one


def flat(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in lines:
        yield line
        yield from flat(line.get("lines", []))


# ---- what is written


@pytest.mark.parametrize("view", EACH_VIEW)
def test_every_layer_with_weights_is_in_the_picture_once(view: str) -> None:
    traced, shown = view_of(view)
    boxes = [box for line in flat(shown["overview"]) for box in line.get("boxes", [])]
    assert len({box["id"] for box in boxes}) == len(boxes)
    assert sum(box["parameters"] for box in boxes) == sum(leaf.size for leaf in traced.params.values())
    groups = [line for line in flat(shown["overview"]) if line["kind"] == "group"]
    for group in groups:
        inside = [name for name in traced.params if name.startswith(f"{group['id']}.")]
        assert group["parameters"] == sum(traced.params[name].size for name in inside)


@pytest.mark.parametrize("view", EACH_VIEW)
def test_a_sum_is_its_stream_and_what_is_added(view: str) -> None:
    """Of every line that adds: y = stream + added, in the numbers of the trace."""
    traced, shown = view_of(view)
    sums = [line for line in flat(shown["overview"]) if line["kind"] == "adds" and line["y"]]
    for line in sums:
        y, stream, added = (np.asarray(traced.values[line[name]]) for name in ("y", "stream", "added"))
        np.testing.assert_allclose(y, stream + added, rtol=1e-5, atol=1e-5)
    assert len(sums) == {"vit": 4, "gpt": 4, "lstm": 0, "mlp": 0, "t5": 10, "bert": 4}.get(view, len(sums))


def test_the_stream_of_a_vit() -> None:
    lines = view_of("vit")[1]["overview"]
    assert [[box["id"] for box in line["boxes"]] if line["kind"] == "through" else line["id"] for line in lines] == [
        ["prepare", "patches", "patch"],
        ["positions"],
        "blocks.0",
        "blocks.1",
        ["norm"],
        ["pool", "head"],
    ]
    first, second = lines[2]["lines"]
    assert [box["id"] for box in first["boxes"]] == ["blocks.0.norm1", "blocks.0.attn"]
    assert (first["stream"], first["added"], first["y"]) == ("positions.y", "blocks.0.attn.y", "blocks.0.resid_mid")
    assert second["gradient"] == "blocks.0.dresid_post"


# ---- what is seen


@needs_browser
def test_the_strength_that_is_shown_is_that_of_the_trace(vit: Seen) -> None:
    """Beside each part: the mean over tokens of |added| / |stream|, and of |dy|."""

    def length(name: str) -> np.ndarray:
        return np.linalg.norm(np.asarray(vit.traced[name])[0].astype(np.float64), axis=-1)

    shown = vit.tab.run(
        "[...document.querySelectorAll('.line.adds')].map((one) => "
        "[...one.querySelectorAll('.strength output')].map((x) => x.textContent))"
    )
    lines = [line for line in flat(view_of("vit")[1]["overview"]) if line["kind"] == "adds"]
    assert len(shown) == len(lines) == 4
    for (adds, back), line in zip(shown, lines, strict=True):
        assert adds == f"+{100 * np.mean(length(line['added']) / length(line['stream'])):.1f} %"
        assert float(back.removeprefix("∇ ")) == pytest.approx(length(line["gradient"]).mean(), rel=0.06)


@needs_browser
def test_a_part_opens_where_it_stands_and_back_closes_it(vit: Seen) -> None:
    tab = vit.tab
    tab.click_on(".box[data-part='blocks.0.attn']")
    assert (vit.state()["tab"], vit.state()["part"]) == ("model", "blocks.0.attn")
    assert tab.text(".crumbs") == "ViT / block 0 / Self-attention"
    assert "scores = q @ k^T / sqrt(D)" in tab.text(".in-place")
    vit.point("blocks.0.attn.scores", 4, 2)
    assert vit.value() == float(np.float32(vit.traced["blocks.0.attn.scores"][0, 0, 4, 2]))
    link = tab.run("location.hash")
    tab.click_on(".crumbs button:nth-of-type(2)")
    assert (vit.state()["part"], tab.text(".crumbs")) == ("blocks.0", "ViT / block 0")
    tab.run("history.back()")
    tab.wait("glassformer.state.get().part === 'blocks.0.attn'", "Back")
    tab.run("history.back()")
    tab.wait("glassformer.state.get().part === ''", "Back again")
    tab.wait("!document.querySelector('.in-place')", "the picture alone")
    vit.open(link)
    assert "scores = q @ k^T / sqrt(D)" in tab.text(".in-place")


@needs_browser
def test_pointing_at_a_token_of_a_part_shows_it_in_the_input(vit: Seen) -> None:
    x, y, width, height = vit.tab.box(".line.adds canvas.cursor")
    vit.tab.mouse(x + width * 4.5 / 6, y + height / 2)
    vit.tab.settle()
    share = np.linalg.norm(vit.traced["blocks.0.attn.y"][0, 4]) / np.linalg.norm(vit.traced["positions.y"][0, 4])
    assert vit.tab.text(".told") == f"patch 1,1: blocks.0.attn adds {100 * share:.1f} % of the length of the stream"
    assert "patch 1,1" in vit.tab.text(".caption")


@needs_browser
@pytest.mark.parametrize("view", FIRST_SCREENS)
def test_the_first_screen_says_what_went_in_and_what_came_out(tab: Tab, folder: Path, view: str) -> None:
    """Without scrolling, in three widths; nothing lies over anything else."""
    one = seen(tab, folder, view)
    for width, height in SIZES.items():
        tab.size(width, height, mobile=width < 500)
        one.open()
        for selector in (".input .paper", ".answer", ".facts", ".overview .crumbs", ".stream .box"):
            x, y, w, h = tab.box(selector)
            assert w > 0, (width, selector)
            assert y + min(h, 40) <= height, (width, selector)
            assert x >= 0, (width, selector)
            assert x + w <= width + 1, (width, selector)
        assert one.traced.model.__class__.__name__ in tab.text(".facts")
        assert f"{sum(leaf.size for leaf in named_leaves(one.traced.params).values()):,}" in tab.text(".facts")
        boxes = [tab.box(selector) for selector in (".top", ".input", ".answer", "main")]
        for i, a in enumerate(boxes):
            for b in boxes[i + 1 :]:
                across = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
                down = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
                assert across <= 1 or down <= 1, (width, a, b)


@needs_browser
def test_the_picture_works_by_keys_alone(vit: Seen) -> None:
    """Tab to a part, open it, close it; the arrow keys go from token to token."""
    tab = vit.tab
    tab.run("document.querySelector('.box').focus()")
    tab.key("Enter", text="\r")
    assert vit.state()["part"] == "prepare"
    assert tab.run("document.activeElement.getAttribute('aria-expanded')") == "true"  # the focus stays
    tab.run("document.querySelector('.line.adds canvas.cursor').focus()")
    tab.key("ArrowRight")
    tab.key("ArrowRight")
    assert tab.text(".told").startswith("patch ")
    tab.key("w")
    assert vit.state()["tab"] == "walk"
    tab.key("v")
    assert vit.state()["tab"] == "model"


@needs_browser
def test_of_a_deep_model_the_blocks_are_closed(tab: Tab, folder: Path) -> None:
    """And say what each adds as a whole."""
    _, shown = view_of("vit")
    blocks = [line for line in shown["overview"] if line["kind"] == "group"]
    deep = {**shown, "overview": [*shown["overview"][:2], *blocks * 4, *shown["overview"][-2:]]}
    path = folder / "deep.html"
    path.write_text(page(deep))
    one = Seen(tab, path, view_of("vit")[0])
    one.open()
    assert tab.run("document.querySelectorAll('.block.open').length") == 0
    before, after = (one.traced[f"blocks.0.resid_{name}"][0].astype(np.float64) for name in ("pre", "post"))
    share = np.mean(np.linalg.norm(after - before, axis=-1) / np.linalg.norm(before, axis=-1))
    assert tab.text(".block .strength.adds output") == f"+{100 * share:.1f} %"
    tab.click_on(".block .group-head")
    assert one.state()["part"] == "blocks.0"
    assert tab.run("document.querySelectorAll('.block.open').length") > 0
    assert tab.problems == []


def nano(name: str) -> tuple[Trace, TraceInput]:
    """Of the size of a preset, with weights at random."""
    traced, given, _ = ready(name)
    return traced, given


TIMED: dict[str, Callable[[], tuple[Trace, TraceInput]]] = {
    "vit-nano": lambda: nano("vit-nano"),
    "gpt-nano": lambda: nano("gpt-nano"),
    "a GPT of 1,024 tokens": lambda: text_view(GPT(Text(17, LONG), width=32, hidden=64, heads=4, depth=2), tokens=LONG),
    "a BERT of six layers": lambda: text_view(
        BERTFor(BERT(Text(17, 64), width=64, hidden=256, heads=4, depth=6), TagHead(64, 17)), tokens=48
    ),
}


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("view", TIMED)
def test_time_until_one_can_point(
    tab: Tab, folder: Path, view: str, record_testsuite_property: Callable[[str, object], None]
) -> None:
    """Told in the report, not asserted: other programs run beside the tests."""
    tab.size(1440, 900)
    path = folder / "timed.html"
    traced, trace_input = TIMED[view]()
    path.write_text(page(payload(traced, trace_input)))
    one = Seen(tab, path, traced)
    one.open()
    until = tab.run("glassformer.ready")
    x, y, _, height = tab.box(".input canvas.cursor")
    took = []
    for i in range(8):
        start = tab.busy()
        tab.mouse(x + 9 + 11 * i, y + min(height, 60) / 2)
        tab.settle()
        took.append(1000 * (tab.busy() - start))
    for what, milliseconds in (("until it can be used", until), ("to point at a token", float(np.median(took)))):
        record_testsuite_property(f"milliseconds {what}, {view}", milliseconds)
        print(f"{view}: {milliseconds:.0f} ms {what}")
    assert tab.run("document.querySelectorAll('.stream .line').length") > 5
    assert tab.problems == []
