"""Reading mode, the glossary, and a search that knows the field's words. In a real browser."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .browser import Tab, browser, missing
from .test_page import EACH_VIEW, Seen, seen, view_of

needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")
pytestmark = needs_browser
WORDS = "[...document.querySelectorAll('.found code')].map((one) => one.textContent)"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        one.size(1440, 900)
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def vit(tab: Tab, folder: Path) -> Seen:
    one = seen(tab, folder, "vit")
    one.open()
    return one


def test_every_step_is_read_forward_and_back(vit: Seen) -> None:
    """Each with one sentence of its own, and a part of the picture that is marked."""
    steps = view_of("vit")[1]["steps"]
    sums = {"blocks.0.resid_mid": "Self-attention (blocks.0.attn)", "blocks.1.resid_post": "Feed-forward (blocks.1.ff)"}
    for number in range(1, 2 * len(steps) + 1):
        vit.tab.run(
            f"glassformer.state.set({{ read: {number}, mode: '{'forward' if number <= len(steps) else 'backward'}' }})"
        )
        vit.tab.settle()
        step = steps[number - 1] if number <= len(steps) else steps[2 * len(steps) - number]
        said, place = vit.tab.text(".sentence"), vit.tab.text(".reader .place")
        assert step["short"] in said
        assert said.endswith(".")
        assert sums.get(step["id"], "") in said
        if number <= len(steps):
            is_sum = step["short"].startswith("resid_")
            assert ("is added to the residual stream" if is_sum else step["about"].rstrip(".")) in said
            assert place == f"Forward {number} of {len(steps)}"
        else:
            assert "gradient" in said
            assert ("here it ends" in said) == (step["id"] == "prepare")
            assert place == f"Backward {number - len(steps)} of {len(steps)}"
        marked = vit.tab.run("document.querySelectorAll('.overview .now').length")
        assert marked == 1, step["id"]
    assert vit.tab.problems == []


@pytest.mark.parametrize("view", EACH_VIEW)
def test_what_backward_says_of_weights_is_so(tab: Tab, folder: Path, view: str) -> None:
    one = seen(tab, folder, view)
    one.open()
    steps = view_of(view)[1]["steps"]
    for back, step in enumerate(reversed(steps)):
        tab.run(f"glassformer.state.set({{ read: {len(steps) + back + 1}, mode: 'backward' }})")
        said = tab.text(".sentence")
        count = len(step["weights"])
        assert (f"its {count} weights receive" in said) == (count > 1 and bool(step["gradients"])), step["id"]
        assert ("its weight receives" in said) == (count == 1 and bool(step["gradients"])), step["id"]


def test_it_plays_pauses_and_steps(vit: Seen) -> None:
    tab = vit.tab
    tab.key("r")
    assert vit.state()["read"] == 1
    tab.wait("glassformer.state.get().read >= 2", "the next step")
    tab.click_on("[aria-label='Step on']")  # which pauses, too
    at = vit.state()["read"]
    assert at >= 3
    tab.click_on("[aria-label='Step back']")
    assert vit.state()["read"] == at - 1
    assert tab.run("document.querySelector('.reader [title^=Play]').textContent") == "▶"
    link = tab.run("location.hash")
    vit.open(link)
    assert vit.state()["read"] == at - 1
    tab.click_on("[aria-label='Stop reading']")
    assert vit.state()["read"] == 0
    assert tab.run("document.querySelector('.reader-open').hidden")


def test_words_of_the_field_explain_themselves(vit: Seen) -> None:
    vit.open("#read=6")
    terms = vit.tab.run(
        "[...document.querySelectorAll('.term')].map((one) => [one.textContent, one.dataset.means, one.tabIndex])"
    )
    assert terms
    for word, means, index in terms:
        assert means.endswith("."), word
        assert index == 0
    vit.tab.run("document.querySelector('.term').focus()")
    shown = vit.tab.run("getComputedStyle(document.querySelector('.term'), '::after').content")
    assert json.loads(shown) == terms[0][1]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("attention", "blocks.0.attn.pattern"),
        ("key", "blocks.0.attn.k"),
        ("query", "blocks.1.attn.q"),
        ("value", "blocks.0.attn.v"),
        ("softmax", "blocks.0.attn.pattern"),
        ("residual", "blocks.0.resid_mid"),
        ("residual stream", "blocks.0.resid_mid"),
        ("logits", "head.y"),
        ("gradient", "head.dy"),
        ("feed forward", "blocks.0.ff.hidden"),
        ("layer norm", "blocks.0.norm1.y"),
    ],
)
def test_search_knows_the_words_of_the_field(vit: Seen, word: str, name: str) -> None:
    vit.tab.key("/")
    vit.tab.type(word)
    assert vit.tab.text(".found .means").endswith(".")
    assert vit.tab.run(WORDS)
    vit.tab.type(f" {name}")
    assert name in vit.tab.run(WORDS)
    vit.tab.key("Escape")
