"""What if in the page: its own forward pass, in a real browser, against Python."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from glassformer import lens
from glassformer.data import load as load_data
from glassformer.generate import Sampling, continue_text, decoder_for
from glassformer.lens.page import page
from glassformer.lens.payload import payload, view
from glassformer.lens.residual_stream import params_of
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import TraceInput, image_input, text_input
from glassformer.lens.what_if import change_of
from glassformer.models import GPT, ViT
from glassformer.models.text import Text
from glassformer.predict.run import load

from .browser import Tab, browser, missing
from .studio_runs import make_run
from .test_page import VIEWS, text_view

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")

COVERED = ["vit", "gpt", *(pytest.param(view, marks=pytest.mark.slow) for view in ("bert", "t5", "llama", "deit"))]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("what-if")


@cache
def ready(name: str) -> tuple[Trace, TraceInput, dict[str, Any]]:
    if name == "vit-nano":
        image = load_data("mnist-mini").test.images[:1]
        model = ViT()
        given = image_input(load(), "test:0", image[0], 7)
        traced = trace(model, model.init(jax.random.key(3)), image, labels=[7])
    elif name == "gpt-nano":
        model = GPT(Text(65, 64), width=128, hidden=512, heads=4, depth=4)
        _, given = text_view(model, tokens=40, vocabulary=65)
        traced = trace(model, model.init(jax.random.key(3)), given.x, labels=given.labels)
    else:
        traced, given = VIEWS[name]()
    return traced, given, payload(traced, given, run="a run")


def shown(tab: Tab, folder: Path, name: str, state: str = "") -> tuple[Trace, TraceInput]:
    traced, given, plain = ready(name)
    file = folder / f"{name.replace(' ', '-')}.html"
    if not file.exists():
        file.write_text(page(plain))
    tab.open("about:blank")
    tab.problems.clear()
    tab.open(f"{file.as_uri()}{state}")
    tab.settle()
    return traced, given


def asked(tab: Tab, changes: list[dict[str, Any]]) -> np.ndarray:
    script = f"glassformer.engine.ask({json.dumps(changes)}).then(({{logits}}) => [logits.shape, [...logits.data]])"
    shape, data = tab.run(script)
    return np.array(data).reshape(shape)


def records(traced: Trace, given: TraceInput) -> list[list[dict[str, Any]]]:
    """Every control, alone, and some together."""
    layers = [name.removesuffix(".pattern") for name in traced.values if name.endswith(".pattern")]
    stream = next(name for name in traced.values if name.endswith(("resid_post", "norm2.y")))
    off = {"change": "head-off", "layer": layers[0], "head": 1}
    found = [
        [off],
        [{"change": "hide", "position": 2}],
        [{"change": "temperature", "value": 3.0}],
        [{"change": "temperature", "value": 0.5, "layer": layers[-1]}],
        [{"change": "scale", "name": f"{layers[-1]}.v", "by": -2, "head": 0}],
        [{"change": "scale", "name": stream, "by": 0.5, "position": 1}],
        [{"change": "replace", "name": f"{layers[0]}.query", "value": 0.25}],
        [{"change": "replace", "name": f"{layers[0]}.pattern", "value": 0.1, "head": 1, "position": 0}],
        [off, {"change": "temperature", "value": 2.0}, {"change": "scale", "name": f"{layers[0]}.z", "by": 3}],
    ]
    if given.memory:
        found += [[{"change": "hide", "position": 1, "sequence": "memory"}]]
        found += [[{"change": "token", "position": 0, "id": 5, "sequence": "memory"}]]
    if given.kind == "text":
        found += [[{"change": "token", "position": 1, "id": 3}, off]]
    else:
        drawn = (255 - np.asarray(given.x)).ravel().tolist()
        found += [[{"change": "image", "pixels": drawn}]]
    return found


def by_python(traced: Trace, given: TraceInput, changes: list[dict[str, Any]]) -> np.ndarray:
    made = [change_of({**one, "pixels": np.array(one["pixels"])} if "pixels" in one else one) for one in changes]
    return np.asarray(lens.what_if(traced.model, params_of(traced), given.x, made).after.logits)[0]


@pytest.mark.parametrize(
    "name", [*COVERED, *(pytest.param(v, marks=pytest.mark.slow) for v in ("vit-nano", "gpt-nano"))]
)
def test_every_control_gives_what_lens_patch_gives(tab: Tab, folder: Path, name: str) -> None:
    traced, given = shown(tab, folder, name)
    checked = tab.run("glassformer.engine.check()")
    assert checked["difference"] < (2e-3 if ready(name)[2]["half"] else 2e-5), checked
    for changes in records(traced, given):
        expected = by_python(traced, given, changes)
        size = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(asked(tab, changes) / size, expected / size, atol=1e-5, err_msg=str(changes))
    assert tab.problems == []


@pytest.mark.parametrize(
    "name", ["vit", "gpt", *(pytest.param(one, marks=pytest.mark.slow) for one in ("bert", "t5", "vit-nano"))]
)
def test_every_head_off_is_the_table_of_ablate_each(tab: Tab, folder: Path, name: str) -> None:
    traced, given = shown(tab, folder, name, "#tab=what-if")
    effects = lens.ablate_each(traced.model, params_of(traced), given.x, labels=given.labels, weights=given.weights)
    found = tab.run("glassformer.engine.heads()")
    assert [(one["layer"], one["head"]) for one in found] == [
        (one.name.removesuffix(".z"), one.head) for one in effects.heads
    ]
    np.testing.assert_allclose([one["loss"] for one in found], [one.loss for one in effects.heads], atol=1e-5)
    tab.click_on(".what-if-table button")
    tab.wait(f"document.querySelectorAll('[data-head]').length === {len(effects.heads)}", "the table")


@pytest.mark.parametrize("name", ["gpt"])
def test_activation_patching_is_the_table_of_python(tab: Tab, folder: Path, name: str) -> None:
    traced, given = shown(tab, folder, name)
    other = np.array(given.x)
    other[0, 2] = 4
    expected = lens.activation_patching(traced.model, params_of(traced), given.x, other)
    edits = [{"change": "token", "position": 2, "id": 4}]
    at = json.dumps({"label": expected.label, "place": expected.place})
    found = tab.run(f"glassformer.engine.positions({json.dumps(edits)}, {at})")
    assert list(found["rows"]) == list(expected.rows)
    for stream, row in expected.rows.items():
        np.testing.assert_allclose(found["rows"][stream], row, atol=1e-5)
    assert found["before"] == pytest.approx(expected.before, abs=1e-5)
    assert found["other"] == pytest.approx(expected.other, abs=1e-5)

    tab.run("glassformer.state.set({ tab: 'what-if' })")
    tab.wait("document.querySelector('.said') !== null", "the answer")
    tab.click_on(".token-chips .chip:nth-child(3)")
    tab.run("document.querySelector('[aria-label=\"Another token\"]').value = 'e'")
    tab.click_on(".what-if-group .value-form .plain-button")
    tab.run("document.querySelector('[aria-label=\"Logit of\"]').value = '7'")
    tab.click_on(".what-if-table:nth-child(2) button")
    tab.wait("document.querySelector('.patch-row') !== null", "the table")
    chosen = lens.activation_patching(traced.model, params_of(traced), given.x, other, label=7)
    assert tab.text(".what-if-table:nth-child(2) .scroll .small").startswith("Logit of h: ")
    row = tab.run("[...document.querySelectorAll('.patch-row .chip')].map((one) => [one.textContent, one.title])")
    values = np.concatenate(list(chosen.rows.values()))
    assert [float(title.split(": ")[1].replace("\u2212", "-")) for _, title in row] == pytest.approx(values, rel=1e-2)
    assert [word for word, _ in row[:9]] == list(given.tokens)
    assert tab.problems == []


def test_a_swap_is_that_of_python(tab: Tab, folder: Path) -> None:
    traced, given = shown(tab, folder, "gpt")
    name = "blocks.0.attn.z"
    swapped = asked(tab, [{"change": "token", "position": 2, "id": 4}, {"change": "swap", "name": name, "position": 5}])
    other = np.array(given.x)
    other[0, 2] = 4
    outcome = lens.what_if(traced.model, params_of(traced), given.x, [lens.Swap(name, position=5)], other=other)
    np.testing.assert_allclose(swapped, np.asarray(outcome.after.logits)[0], atol=1e-5)


def test_what_cannot_be_worked_out_is_greyed_out_with_its_reason(tab: Tab, folder: Path) -> None:
    shown(tab, folder, "lstm", "#tab=what-if")
    assert "reader.cells.0.pre of LSTM is worked out in a loop over time" in tab.text(".what-if .refusal")
    assert tab.run("document.querySelector('.what-if-controls').disabled")
    traced, given, _ = ready("gpt")
    assert payload(traced, given, weights="none")["forward"]["reason"].endswith("(--weights none)")


def test_a_head_is_switched_off_with_a_click_and_the_answer_follows(tab: Tab, folder: Path) -> None:
    traced, given = shown(tab, folder, "vit", "#tab=what-if")
    assert "the largest difference is" in tab.text(".checked")
    tab.click_on(".head-buttons .toggle")
    tab.wait("document.querySelector('.said')?.textContent.includes('Loss')", "the answer")
    expected = lens.what_if(traced.model, params_of(traced), given.x, [lens.HeadOff("blocks.0.attn", 0)], labels=[1])
    assert f"Loss {traced.loss:.4g}" in tab.text(".said").replace("\u2212", "-")
    assert f"→ {expected.after.loss:.4g}" in tab.text(".said")
    assert tab.text(".changes li").startswith("head 0 of blocks.0.attn off")
    tab.click_on(".changes .tool")
    tab.wait("document.querySelector('.said').textContent === 'Nothing is changed yet.'", "the answer as it was")
    tab.click_on(".value-form .plain-button")
    assert tab.text(".value-form + .refusal") == "Which value? Its name is needed."
    assert tab.problems == []
    assert [one for one in tab.requests if not one.startswith(("file:", "data:", "about:"))] == []


def test_a_head_is_switched_off_by_keys_alone(tab: Tab, folder: Path) -> None:
    shown(tab, folder, "vit")
    tab.key("i")
    for _ in range(60):
        tab.send("Input.dispatchKeyEvent", type="rawKeyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        if tab.run("document.activeElement.matches('.head-buttons .toggle')"):
            break
    tab.key("Enter", text="\r")
    tab.wait(
        "document.querySelector('.changes li')?.textContent.startsWith('head 0 of blocks.0.attn off')", "the change"
    )
    tab.key("y")
    assert "What the answer is made of" in tab.text("main")
    assert tab.problems == []


def test_a_token_is_replaced_and_hidden_by_hand(tab: Tab, folder: Path) -> None:
    traced, given = shown(tab, folder, "gpt", "#tab=what-if")
    struck = (
        "[...document.querySelectorAll('.token-chips .chip')].map((one) => getComputedStyle(one).textDecorationLine)"
    )
    assert set(tab.run(struck)) == {"none"}
    tab.click_on(".token-chips .chip:nth-child(3)")
    tab.click_on(".value-form .toggle")
    tab.wait("document.querySelector('.changes li') !== null", "the change")
    assert [i for i, line in enumerate(tab.run(struck)) if line == "line-through"] == [2]
    tab.run("(() => { const i = document.querySelector('[aria-label=\"Another token\"]'); i.value = 'e'; })()")
    tab.click_on(".what-if-group .value-form .plain-button")
    tab.wait("document.querySelectorAll('.changes li').length === 2", "two changes")
    changes = [lens.HideToken(2), lens.SetToken(2, 4)]
    expected = lens.what_if(traced.model, params_of(traced), given.x, changes, labels=given.labels).after
    tab.wait(f"document.querySelector('.said').textContent.includes('→ {expected.loss:.4g}')", "the loss of Python")


def test_gradients_of_weights_are_worked_out_in_the_page(
    tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.lens.payload.PRODUCTS", 20)
    traced, given, _ = ready("gpt")
    plain = payload(traced, given)
    file = tmp_path / "page.html"
    file.write_text(page(plain))
    tab.open(file.as_uri())
    derived = [name for name, entry in plain["tensors"].items() if entry.get("derived")]
    assert {"blocks.0.attn.dw_q", "blocks.1.ff.dw_down", "embed.demb"} <= set(derived)
    for name in derived:
        if name in traced:
            found = tab.run(f"[...glassformer.trace.tensor({json.dumps(name)}).data]")
            expected = traced[name].ravel()
            np.testing.assert_allclose(found, expected, atol=1e-5 * max(1.0, np.abs(expected).max()), err_msg=name)
    assert "are worked out in this page" in tab.text("footer")


@pytest.mark.slow
def test_the_page_writes_what_generate_writes(tab: Tab, tmp_path: Path) -> None:
    """Also beyond the context, where the last half of it is read anew."""
    (tmp_path / "runs").mkdir()
    run = load(make_run(tmp_path / "runs" / "gpt-run", "gpt"))
    prompt = "the cat sat on "
    file = tmp_path / "page.html"
    file.write_text(page(view(run, text_input(run, prompt, prompt))))
    tab.open(file.as_uri())
    script = (
        "(() => { let text = ''; let now; for (let i = 0; i < 30; i++)"
        " { now = glassformer.writeNext(now?.ids); text += now.word; } return text; })()"
    )
    written = tab.run(script)
    assert run.tokeniser is not None
    decoder, greedy = decoder_for(run.model, run.params), Sampling(greedy=True)
    assert written == continue_text(decoder, run.tokeniser, [prompt], length=30, sampling=greedy)[0]
