"""Attention as people know it: lines between tokens, a matrix with tokens on both axes. In a real browser."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .browser import Tab, browser, missing
from .test_page import seen

needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")
pytestmark = needs_browser
SVG = "{http://www.w3.org/2000/svg}"
FIRST = "document.querySelector('main .paper').figure"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        one.size(1440, 900)
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def saved(tab: Tab, width: int = 600) -> ElementTree.Element:
    return ElementTree.fromstring(tab.run(f"glassformer.asSvg({FIRST}.picture, {width}, 'light')"))


def words_of(svg: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in svg.iter(f"{SVG}text")]


def test_a_matrix_has_its_tokens_on_both_axes_also_when_saved(tab: Tab, folder: Path) -> None:
    one = seen(tab, folder, "gpt")
    for state in ("#tab=attention&look=matrix", "#tab=attention"):
        one.open(state)
        tab.wait("!!document.querySelector('main .paper')", "the picture")
        names = tab.run("glassformer.trace.sequences.tokens.map((one) => one.slice(0, 12))")
        words = words_of(saved(tab))
        for name in names:
            shown = name.replace("\n", "⏎").replace(" ", "·")
            assert words.count(shown) >= 2 * names.count(name), (state, name)


def test_pointing_goes_both_ways_between_matrix_and_text(tab: Tab, folder: Path) -> None:
    one = seen(tab, folder, "gpt")
    one.open("#tab=attention&look=matrix&head=1&layer=blocks.1.attn")
    tab.still("main canvas.cursor")
    x, y = tab.run(
        f"""(() => {{ const place = document.querySelector("main canvas.cursor").getBoundingClientRect();
        const box = {FIRST}.picture.box({{ row: 5, column: 2 }}, place.width);
        return [place.x + box.x + box.width / 2, place.y + box.y + box.height / 2]; }})()"""
    )
    tab.mouse(x, y)
    tab.settle()
    assert "token 5" in tab.text(".caption")
    row = one.traced["blocks.1.attn.pattern"][0, 1, 5]
    assert f"Most to token {row.argmax()}" in tab.text(".caption")
    tab.run("document.querySelector('.input .paper').figure.point({ token: 3 })")
    assert tab.run(f"{FIRST}.marks()") == [{"row": 3}]


def test_pointing_at_one_of_all_heads_tells_its_weight(tab: Tab, folder: Path) -> None:
    one = seen(tab, folder, "gpt")
    one.open("#tab=attention")
    tab.wait("document.querySelectorAll('.thumb .paper').length === 4", "the maps")
    tab.run("document.querySelectorAll('.thumb .paper')[3].figure.point({ row: 7, column: 2 })")
    share = one.traced["blocks.1.attn.pattern"][0, 1, 7, 2]
    said = f"block 1, head 1: token 7 “{one_of(tab, 7)}” gives {100 * share:.1f} % to token 2"
    assert said in tab.text("main .about")
    assert "token 7" in tab.text(".caption")


def one_of(tab: Tab, token: int) -> str:
    return tab.run(f"glassformer.trace.sequences.tokens[{token}]").replace("\n", "⏎").replace(" ", "·")


def colours(tab: Tab, row: int) -> list[int]:
    """Of the first cells of a row, how light each is drawn."""
    return tab.run(
        f"""(() => {{ const figure = {FIRST}, canvas = figure.element.querySelector("canvas.base");
        const sharp = canvas.width / canvas.clientWidth, context = canvas.getContext("2d");
        return [...Array({row + 1}).keys()].map((column) => {{
          const box = figure.picture.box({{ row: {row}, column }}, canvas.clientWidth);
          const at = [box.x + box.width / 2, box.y + box.height / 2].map((x) => Math.round(x * sharp));
          return [...context.getImageData(...at, 1, 1).data].slice(0, 3).reduce((a, b) => a + b); }}); }})()"""
    )


def test_one_scale_for_each_row_or_one_for_all(tab: Tab, folder: Path) -> None:
    """The first row of a causal pattern is a single 1.0: it must not make all others dark."""
    one = seen(tab, folder, "gpt")
    one.open("#tab=attention&look=matrix")
    pattern = one.traced["blocks.0.attn.pattern"][0, 0]
    flattest = int(pattern.max(axis=-1).argmin())
    row = pattern[flattest, : flattest + 1]
    assert row.max() < 0.8
    each = colours(tab, flattest)
    brightest = colours(tab, 0)[0]
    assert each[int(row.argmax())] == brightest
    assert int(np.argmax(each)) == int(row.argmax())
    tab.click_on("[aria-label='Scale'] [data-value='shared']")
    assert one.state()["scale"] == "shared"
    shared = colours(tab, flattest)
    assert shared[int(row.argmax())] < brightest
    assert int(np.argmax(shared)) == int(row.argmax())


def lines_of(svg: ElementTree.Element) -> list[dict[str, Any]]:
    return [one.attrib for one in svg.iter(f"{SVG}line")]


def test_lines_are_the_attention_weights_a_colour_for_each_head(tab: Tab, folder: Path) -> None:
    one = seen(tab, folder, "gpt")
    one.open("#tab=attention&look=lines&layer=blocks.1.attn")
    pattern = one.traced["blocks.1.attn.pattern"][0]
    lines = lines_of(saved(tab))
    assert len(lines) == int((pattern >= 0.02).sum())
    assert len({line["stroke"] for line in lines}) == 2
    tab.run(f"{FIRST}.point({{ side: 'query', token: 4 }})")
    alone = lines_of(saved(tab))
    assert len(alone) == int((pattern[:, 4] >= 0.02).sum())
    assert "token 4" in tab.text(".caption")
    strongest = max(alone, key=lambda line: float(line["stroke-width"]))
    assert float(strongest["stroke-width"]) == pytest.approx(1 + 2.5 * float(pattern[:, 4].max()), abs=1e-3)
    tab.run(f"{FIRST}.point({{ side: 'key', token: 1 }})")
    assert len(lines_of(saved(tab))) == int((pattern[:, :, 1] >= 0.02).sum())
    tab.run(f"{FIRST}.point(null)")
    tab.click_on(".chip")  # without head 0
    assert one.state()["heads"] == "1"
    assert len(lines_of(saved(tab))) == int((pattern[1] >= 0.02).sum())
    assert tab.problems == []


@pytest.mark.slow
def test_lines_of_cross_attention_go_from_what_is_written_to_what_is_read(tab: Tab, folder: Path) -> None:
    one = seen(tab, folder, "t5")
    one.open("#tab=attention&look=lines&layer=decoder.blocks.1.cross")
    pattern = one.traced["decoder.blocks.1.cross.pattern"][0]
    assert len(lines_of(saved(tab))) == int((pattern >= 0.02).sum())
    words = words_of(saved(tab))
    assert len(words) == 1 + sum(pattern.shape[1:])  # the title, and each token of both texts
    assert "the text that is read" in tab.text(".sides")
