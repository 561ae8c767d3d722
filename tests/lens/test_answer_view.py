"""What comes next, what stands at a mask, what is written: on the page as Python computes it. In a real browser."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.generate.sampling import Sampling
from glassformer.lens.page import page
from glassformer.lens.payload import view
from glassformer.lens.trace_input import text_input
from glassformer.predict.run import Run, load
from glassformer.probabilities import softmax
from glassformer.train.tasks import Embed

from .browser import Tab, browser, missing
from .studio_runs import make_run

needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")
FIRST = "document.querySelector('.answer .paper').figure.picture"
TEXTS = {"gpt": "the cat sat on the", "bert": "the <mask>at s<mask>t", "t5": "<de> 5. Mai 2024"}


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        one.size(1440, 900)
        yield one


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (tmp_path_factory.getbasetemp() / "answers").mkdir(exist_ok=True)
    return tmp_path_factory.getbasetemp() / "answers" / "runs"


@cache
def run_of(folder: Path, kind: str) -> Run:
    return load(make_run(folder / kind, kind))


@cache
def shown_of(folder: Path, kind: str) -> dict[str, Any]:
    run = run_of(folder, kind)
    return view(run, text_input(run, "a text", TEXTS[kind]))


def opened(tab: Tab, folder: Path, kind: str, state: str = "") -> None:
    path = folder / f"{kind}.html"
    path.write_text(page(shown_of(folder, kind)))
    tab.open("about:blank")
    tab.problems.clear()
    tab.open(f"{path.as_uri()}{state}")
    tab.settle()


def logits_at(shown: dict[str, Any], i: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(shown["answer"]["asked"][i]["logits"]), "<f4")


def test_what_follows_the_last_token_is_asked_and_counts_nothing(runs: Path) -> None:
    """The loss is that of all tokens but the first, as ever; behind the last one nobody knows what is right."""
    run, text = run_of(runs, "gpt"), TEXTS["gpt"]
    shown = shown_of(runs, "gpt")
    assert run.tokeniser is not None
    ids = run.tokeniser.encode(text)
    logits = np.asarray(run.model.forward(run.params, np.array([ids]))[0])[0]
    np.testing.assert_allclose(logits_at(shown, 0), logits[-1], atol=1e-5)
    p = softmax(logits)
    losses = [-np.log(p[i, number]) for i, number in enumerate(ids[1:])]
    assert shown["answer"]["loss"] == pytest.approx(np.mean(losses), rel=1e-4)
    assert shown["answer"]["places"][-1][2:] == [None, None]
    assert "".join(shown["sequences"]["tokens"]) == text


@needs_browser
@pytest.mark.parametrize(("heat", "top_p"), [(1, 1), (0.5, 1), (2, 0.9), (1, 0.35)])
def test_the_distribution_is_that_of_generate(tab: Tab, runs: Path, heat: float, top_p: float) -> None:
    opened(tab, runs, "gpt", f"#heat={heat}&top_p={top_p}")
    logits = logits_at(shown_of(runs, "gpt"), 0)
    expected = softmax(Sampling(temperature=heat, top_p=top_p).shaped(logits.astype(np.float64), ()))
    svg = tab.run(f"glassformer.asSvg({FIRST}, 300, 'light')")
    order = [int(i) for i in np.argsort(-expected, kind="stable") if expected[i] > 0][:10]
    for i in order:
        assert f">{100 * expected[i]:.1f} %<" in svg
    assert svg.count(" %<") == len(order)
    kept = int((expected > 0).sum())
    assert (f"{kept} of {len(logits)} symbols stay" in tab.text(".next-of")) == (kept < len(logits))


@needs_browser
def test_temperature_and_top_p_are_turned_in_the_page(tab: Tab, runs: Path) -> None:
    opened(tab, runs, "gpt")
    before = tab.run(f"glassformer.asSvg({FIRST}, 300, 'light')")
    for name, value, expected in (("heat", 2, 4), ("top_p", 0.5, 0.5)):
        tab.run(
            f"(() => {{ const one = document.getElementById('{name}'); one.value = {value}; "
            "one.dispatchEvent(new Event('input')); })()"
        )
        assert tab.run(f"glassformer.state.get().{name}") == expected
    assert tab.run(f"glassformer.asSvg({FIRST}, 300, 'light')") != before
    assert "top_p=0.5" in tab.run("location.hash")
    assert tab.problems == []


@needs_browser
def test_a_text_grows_in_the_page_or_it_says_why_not(tab: Tab, runs: Path) -> None:
    """Whoever computes the next token is asked for it, from the ids so far."""
    opened(tab, runs, "gpt")
    tab.run(
        """glassformer.again({ writer: { reason: "", next: (ids = [1]) => (
          { id: 0, word: `<${ids.length}>`, ids: [...ids, 5], probabilities: [0.25],
            logits: new Float32Array(17).with(ids.length, 9), attention: () => [0.1, 0.2, 0.7] }) } })"""
    )
    for _ in range(2):
        tab.click_on(".next-symbol .plain-button")
    assert tab.text(".grown") == f"{TEXTS['gpt']}<1><2>"
    assert tab.run("document.querySelector('.grown mark').title") == "25.0 %"
    assert tab.text(".next-of") == "After “<2>”, 2 written, of 17 symbols."  # what comes next goes along with the text
    assert ">99.8 %<" in tab.run(f"glassformer.asSvg({FIRST}, 300, 'light')")
    assert tab.run("document.querySelector('.grown span:last-of-type').title") == "10.0 %"  # of three tokens in view
    assert "of the last token, block 0, head 0" in tab.text(".growing")
    tab.run("glassformer.again({ writer: { reason: 'the model is too large' } })")
    assert "It cannot write on here: the model is too large." in tab.text(".answer")
    assert tab.problems == []


@needs_browser
def test_only_places_with_a_right_answer_are_counted(tab: Tab, runs: Path) -> None:
    opened(tab, runs, "gpt")
    places = shown_of(runs, "gpt")["answer"]["places"]
    right = sum(best == label for best, _, label, _ in places)
    assert f"{right} of {len(places) - 1} tokens right" in tab.text(".facts")
    assert "right is" not in tab.text(".answer")  # the token that asks is the last one
    opened(tab, runs, "gpt", "#token=2")
    assert "right is" in tab.text(".answer")


@pytest.mark.slow
@needs_browser
def test_an_encoder_shows_how_alike_its_tokens_are(tab: Tab, runs: Path) -> None:
    """It has no loss: the gradient is that of the sum of its numbers, and nothing is called right."""
    masked = run_of(runs, "bert")
    model, params = masked.model.backbone, masked.params.bert  # pyright: ignore[reportAttributeAccessIssue]
    run = replace(masked, params=params, recipe=replace(masked.recipe, model=model, task=Embed()))
    shown = view(run, text_input(run, "a text", "the cat sat"))
    assert shown["answer"] == {"loss": None, "known": False, "vector": [13, 8]}
    path = runs / "encoder.html"
    path.write_text(page(shown))
    tab.open(path.as_uri())
    tab.settle()
    assert "an embedding of 13 \u00d7 8 numbers" in tab.text(".facts")
    assert tab.problems == []
    assert "right" not in tab.text(".answer")
    assert "blocks.0.norm2.y" in tab.text(".answer")
    h = np.asarray(model.forward(params, text_input(run, "", "the cat sat").x)[0])[0]
    unit = h / np.linalg.norm(h, axis=-1, keepdims=True)
    colours = tab.run(
        """(() => { const canvas = document.querySelector(".answer canvas.base");
        const sharp = canvas.width / canvas.clientWidth;
        const picture = document.querySelector(".answer .paper").figure.picture, context = canvas.getContext("2d");
        return [...Array(13).keys()].map((column) => { const box = picture.box({ row: 3, column }, canvas.clientWidth);
          const at = [box.x + box.width / 2, box.y + box.height / 2].map((x) => Math.round(x * sharp));
          const [red, , blue] = context.getImageData(...at, 1, 1).data; return red - blue; }); })()"""
    )
    cosines = unit[3] @ unit.T
    assert int(np.argmin(colours)) == int(np.argmin(cosines))  # blue is unlike


@pytest.mark.slow
@needs_browser
def test_every_mask_has_its_candidates(tab: Tab, runs: Path) -> None:
    opened(tab, runs, "bert")
    shown = shown_of(runs, "bert")
    assert [shown["sequences"]["tokens"][one["place"]] for one in shown["answer"]["asked"]] == ["<mask>", "<mask>"]
    assert shown["tensors"]["head.decoder.logits"]["axes"] == ["T", "V"]  # its columns are symbols
    for i in (0, 1):
        tab.click_on(f"[aria-label='Mask'] [data-value='{i}']")
        best = softmax(logits_at(shown, i).astype(np.float64)).max()
        assert f">{100 * best:.1f} %<" in tab.run(f"glassformer.asSvg({FIRST}, 300, 'light')")
    assert "label" not in tab.text(".answer")
    assert "right is" not in tab.text(".answer")


@pytest.mark.slow
@needs_browser
def test_a_t5_shows_what_it_reads_and_what_it_writes(tab: Tab, runs: Path) -> None:
    opened(tab, runs, "t5")
    (answer,) = run_of(runs, "t5").answer([TEXTS["t5"]])
    assert tab.text(".written strong") == answer.text  # pyright: ignore[reportAttributeAccessIssue]
    assert TEXTS["t5"] in tab.text(".written")
    assert "writes" in tab.text(".facts")
