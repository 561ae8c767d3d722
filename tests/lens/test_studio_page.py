"""The studio in a real browser, with a real server behind it: drawn with the mouse, touched, typed into, watched."""

import base64
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from glassformer import lens
from glassformer.data import load as load_data
from glassformer.generate.text import Writing
from glassformer.lens.page import bundle
from glassformer.lens.trace import Trace, trace
from glassformer.lens.trace_input import TraceInput, image_input, text_input
from glassformer.models import ViT
from glassformer.predict.run import Run, load
from glassformer.predict.writer import Writer, generate
from glassformer.train.recipe import Recipe

from .browser import Tab, browser, missing
from .studio_runs import RECIPES, make_run

needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")

COMMAND = [sys.executable, "-c", "from glassformer.cli import main; main()"]
SHIPPED = "-"
MIDDLE = 24  # the patch that asks while nothing is pointed at
STEP = 14  # pixels of the page from one event of the mouse to the next
COPIED = """(canvas) => {
  const copy = document.createElement("canvas");
  Object.assign(copy, { width: canvas.width, height: canvas.height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return context;
}"""  # a canvas that is drawn on does not like to be read
Point = tuple[float, float]


def arc(x: float, y: float, wide: float, tall: float, start: float, end: float) -> list[Point]:
    """Along an ellipse, in degrees; the pad goes from 0 to 1, downwards."""
    angles = [math.radians(start + (end - start) * i / 16) for i in range(17)]
    return [(x + wide * math.cos(angle), y + tall * math.sin(angle)) for angle in angles]


DIGITS: dict[str, list[list[Point]]] = {
    "0": [arc(0.5, 0.5, 0.2, 0.3, -90, 270)],
    "1": [[(0.52, 0.2), (0.5, 0.8)]],
    "2": [[*arc(0.5, 0.35, 0.18, 0.15, -170, 40), (0.32, 0.78), (0.7, 0.78)]],
    "3": [[*arc(0.47, 0.34, 0.17, 0.14, -150, 90), *arc(0.47, 0.64, 0.2, 0.16, -90, 150)]],
    "4": [[(0.38, 0.2), (0.33, 0.52), (0.68, 0.52)], [(0.62, 0.22), (0.58, 0.82)]],
    "7": [[(0.3, 0.25), (0.7, 0.25), (0.45, 0.8)]],
}


def small(strokes: list[list[Point]]) -> list[list[Point]]:
    """The same in a corner of the pad, at half its size."""
    return [[(0.48 * x + 0.02, 0.48 * y + 0.02) for x, y in stroke] for stroke in strokes]


@dataclass
class Studio:
    tab: Tab
    address: str
    runs: Path
    process: "subprocess.Popen[str]"

    @cached_property
    def loaded(self) -> dict[str, Run]:
        return {SHIPPED: load()}

    def run(self, name: str) -> Run:
        if name not in self.loaded:
            self.loaded[name] = load(self.runs / name)
        return self.loaded[name]

    def open(self, **chosen: str) -> None:
        """Afresh, with these choices."""
        self.tab.open("about:blank")
        self.tab.size(1440, 900)
        self.tab.open(self.address.partition("?")[0])  # the same place without a token: no page that chooses too
        self.tab.run(f"sessionStorage.setItem('studio', {json.dumps(json.dumps({'tab': 'look', **chosen}))})")
        self.tab.problems.clear()
        self.tab.requests.clear()
        self.tab.open(self.address)
        if chosen.get("tab", "look") == "look":
            self.wait_for_run(0, chosen["run"])

    def wait_for_run(self, column: int, name: str) -> None:
        self.tab.wait(f"window.studio?.columns?.[{column}].trace()?.run === {json.dumps(name)}", f"a look at {name}")

    def draw(self, strokes: list[list[Point]], *, pause: float = 0.0) -> None:
        """With the mouse, in steps of some pixels."""
        left, top, width, height = self.tab.box("canvas.pad")
        for stroke in strokes:
            places = [(left + x * width, top + y * height) for x, y in stroke]
            self.tab.mouse(*places[0])
            self.tab.mouse(*places[0], "mousePressed", button="left", clickCount=1)
            for start, end in pairwise(places):
                steps = max(1, round(math.dist(start, end) / STEP))
                for i in range(1, steps + 1):
                    x, y = (a + (b - a) * i / steps for a, b in zip(start, end, strict=True))
                    self.tab.mouse(x, y, button="left", buttons=1)
                    time.sleep(pause)
            self.tab.mouse(*places[-1], "mouseReleased", button="left", clickCount=1)

    def pixels(self) -> np.ndarray:
        """What the pad sends."""
        shown = self.tab.run("studio.source().input().image")
        return np.frombuffer(base64.b64decode(shown), np.uint8).reshape(28, 28, 1)

    def wait_for_answer(self) -> None:
        """Until the first run has answered to what is on the pad now."""
        self.tab.wait(
            "studio.columns[0].trace().input.pixels === studio.source().input().image", "the answer to the last stroke"
        )
        self.tab.settle()

    def says(self, column: int = 0) -> str:
        return self.tab.run(f"studio.columns[{column}].element.dataset.says")

    def point(self, column: int, token: int) -> None:
        """The mouse goes to the middle of a patch."""
        canvas = f"document.querySelectorAll('.look .looked-part canvas.cursor')[{2 * column}]"
        x, y = self.tab.run(
            f"(() => {{ const place = {canvas}.getBoundingClientRect();"
            f" const box = {canvas}.parentElement.figure.picture.box({{ token: {token} }}, place.width);"
            " return [place.x + box.x + box.width / 2, place.y + box.y + box.height / 2]; })()"
        )
        self.tab.mouse(x, y)
        self.tab.settle()

    def strongest(self, column: int = 0) -> dict[int, float]:
        """The numbers that are named below the input."""
        shown = self.tab.run(
            f"[...studio.columns[{column}].element.querySelectorAll('.strongest > div')]"
            ".map((one) => [Number(one.dataset.token), Number(one.dataset.value)])"
        )
        return {int(token): value for token, value in shown}

    def colour(self, column: int, token: int) -> list[float]:
        """Mean red, green and blue of a patch as it is drawn."""
        return self.tab.run(
            f"""(() => {{
              const copied = {COPIED};
              const paper = document.querySelectorAll('.look .looked-part .paper')[{2 * column}];
              const canvas = paper.querySelector('canvas.base');
              const box = paper.figure.picture.box({{ token: {token} }}, paper.clientWidth);
              const sharp = canvas.width / paper.clientWidth;
              const [x, y, w, h] = [box.x + 4, box.y + 4, box.width - 8, box.height - 8].map((one) => Math.round(one * sharp));
              const data = copied(canvas).getImageData(x, y, w, h).data;
              return [0, 1, 2].map((channel) => data.filter((_, i) => i % 4 === channel).reduce((a, b) => a + b) / (w * h));
            }})()"""  # noqa: E501
        )


def traced(run: Run, trace_input: TraceInput) -> Trace:
    return trace(run.model, run.params, trace_input.x, labels=trace_input.labels, weights=trace_input.weights)


@contextmanager
def served(runs: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    process = subprocess.Popen(
        [*COMMAND, "studio", str(runs), "--no-browser", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["address"]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture(scope="module")
def studio(tab: Tab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    runs = tmp_path_factory.mktemp("studio") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "vit-nano", Recipe(model=ViT()))
        for kind in ("gpt", "iris", "t5", "vit", "vit-nano"):
            make_run(runs / kind, kind)
    with served(runs) as (process, address):
        one = Studio(tab, address, runs, process)
        one.open(run=SHIPPED)  # the first look compiles
        yield one


def assert_quiet(studio: Studio) -> None:
    """No error in the page, and no request to anywhere else."""
    assert studio.tab.problems == []
    own = studio.address.partition("?")[0]
    assert [one for one in studio.tab.requests if not one.startswith((own, "data:", "blob:"))] == []


def test_the_studio_is_one_script() -> None:
    script = bundle("studio")
    assert script.index("const $drawing_pad") < script.index("const $studio")
    assert "\nimport " not in script


# ---- drawing


@needs_browser
@pytest.mark.parametrize("digit", ["0", "7", *(pytest.param(one, marks=pytest.mark.slow) for one in "1234")])
def test_a_drawn_digit_is_recognised_and_its_attention_is_seen(studio: Studio, digit: str) -> None:
    studio.open(run=SHIPPED)
    run = studio.run(SHIPPED)
    for drawing in (small(DIGITS[digit]), DIGITS[digit]):
        studio.tab.key("c")
        studio.draw(drawing)
        studio.wait_for_answer()
        image = studio.pixels()
        assert studio.says() == digit == run.classes[int(run.predict(image[None])[0])]
        middle = [(image[..., 0].sum(axis=axis) @ np.arange(28)) / image.sum() for axis in (0, 1)]
        np.testing.assert_allclose(middle, 13.5, atol=0.1)  # as in MNIST: the centre of mass, in a box of 20
        rows, columns = np.nonzero(image[..., 0] > 127)
        assert 19 <= max(np.ptp(rows), np.ptp(columns)) + 1 <= 21
    shares = traced(run, image_input(run, "", image))["blocks.0.attn.pattern"][0, 0, MIDDLE]
    bare = [int(one) for one in shares.argsort() if one != MIDDLE and not patch_of(image, int(one)).any()]
    least, most = studio.colour(0, bare[0]), studio.colour(0, bare[-1])
    assert shares[bare[-1]] > 5 * shares[bare[0]]
    assert most[0] - most[2] > 2 * (least[0] - least[2]) + 20  # of patches without ink, the one looked at is orange
    assert_quiet(studio)


def patch_of(image: np.ndarray, token: int) -> np.ndarray:
    row, column = divmod(token, 7)
    return image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]


@needs_browser
def test_what_was_drawn_can_be_erased_and_undone(studio: Studio) -> None:
    studio.open(run=SHIPPED)
    studio.tab.click_on(".switch input")  # not centred: pixels stay where they were drawn
    test = load_data("mnist-mini").test
    np.testing.assert_array_equal(studio.pixels(), test.images[0])  # the first sample welcomes
    studio.draw([[(0.25, 0.5), (0.75, 0.5)]])
    line = studio.pixels()
    assert line[14, 8:20, 0].min() > 200
    assert line[:11].max() == line[18:].max() == 0  # the sample made room
    studio.tab.click_on("[data-value=eraser]")
    studio.draw([[(0.5, 0.3), (0.5, 0.7)]])
    erased = studio.pixels()
    assert erased[14, 14, 0] == 0
    assert erased[14, 8, 0] > 200
    studio.tab.key("z")
    np.testing.assert_array_equal(studio.pixels(), line)
    studio.tab.key("z")
    studio.tab.key("z")
    np.testing.assert_array_equal(studio.pixels(), test.images[0])
    studio.tab.key("c")
    assert studio.pixels().max() == 0
    for key, number in (("]", 1), ("]", 2), ("[", 1)):
        studio.tab.key(key)
        studio.tab.wait(f"studio.source().sample() === {number}", f"test sample {number}")
    np.testing.assert_array_equal(studio.pixels(), test.images[1])
    studio.wait_for_answer()
    assert studio.tab.text(".look .note").startswith(
        "Right" if studio.says() == str(test.labels[1]) else f"Wrong: it is {test.labels[1]}"
    )
    assert_quiet(studio)


@needs_browser
def test_an_empty_pad_has_no_answer(studio: Studio) -> None:
    studio.open(run=SHIPPED)
    studio.draw(DIGITS["7"])
    studio.wait_for_answer()
    assert (studio.says(), studio.tab.text(".look .best")[:1]) == ("7", "7")
    for empties in ("c", "z"):
        if empties == "z":
            studio.tab.click_on("[data-value=eraser]")
            studio.draw([[(0.2, 0.2), (0.2, 0.21)]])  # an eraser draws nothing
        studio.tab.key("c")
        studio.tab.wait("document.querySelector('.look .looking').textContent === 'Draw something.'", "what to do")
        assert studio.tab.text(".look .best") == studio.says() == ""
        assert studio.tab.run("document.querySelector('.look .shown').hidden")
    studio.tab.click_on(".studio-tabs [data-value=every]")
    studio.tab.wait("document.querySelector('.every .waiting').textContent === 'Draw something.'", "what to do")
    assert studio.tab.run("studio.every.page()") is None
    studio.tab.click_on(".studio-tabs [data-value=look]")
    studio.tab.click_on("[data-value=pen]")
    studio.draw(DIGITS["1"])
    studio.wait_for_answer()
    assert studio.says() == "1"
    assert not studio.tab.run("document.querySelector('.look .shown').hidden")
    assert_quiet(studio)


@needs_browser
def test_back_leads_to_what_was_chosen_before(studio: Studio) -> None:
    studio.open(run=SHIPPED)
    tab = studio.tab
    tab.run("studio.choose({ run: 'vit' })")
    studio.wait_for_run(0, "vit")
    tab.click_on(".studio-tabs [data-value=every]")
    tab.wait("!!studio.every.page()", "the page")
    step = tab.run("studio.every.page().state.get().step")
    tab.run("studio.every.page().state.set({ tab: 'positions' })")
    tab.run("history.back()")
    tab.wait("studio.every.page()?.state.get().tab === 'model'", "the model again")
    assert tab.run("studio.every.page().state.get().step") == step
    tab.run("history.back()")
    tab.wait("document.querySelector('.studio').dataset.tab === 'look'", "the first tab again")
    tab.run("history.back()")
    studio.wait_for_run(0, SHIPPED)
    assert tab.run("document.getElementById('run').value") == SHIPPED
    tab.run("history.forward()")
    studio.wait_for_run(0, "vit")
    assert_quiet(studio)


@needs_browser
def test_a_picture_is_prepared_as_predict_prepares_it(studio: Studio, tmp_path: Path) -> None:
    from PIL import Image

    from glassformer.data.prepare import read_pictures

    test = load_data("mnist-mini").test
    large = Image.fromarray(255 - test.images[3, ..., 0]).resize((200, 200))  # dark ink on white paper
    large.save(tmp_path / "digit.png")
    studio.open(run=SHIPPED)
    root = studio.tab.send("DOM.getDocument")["root"]["nodeId"]
    field = studio.tab.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
    studio.tab.send("DOM.setFileInputFiles", nodeId=field, files=[str(tmp_path / "digit.png")])
    (prepared,) = read_pictures(str(tmp_path / "digit.png"), (28, 28, 1), "mnist-mini")
    expected = base64.b64encode(prepared.image.tobytes()).decode()
    studio.tab.wait(f"studio.source().input().image === {json.dumps(expected)}", "the picture on the pad")
    studio.wait_for_answer()
    assert studio.says() == str(test.labels[3])
    (tmp_path / "no.png").write_bytes(b"no picture")
    studio.tab.send("DOM.setFileInputFiles", nodeId=field, files=[str(tmp_path / "no.png")])
    studio.tab.wait("!document.querySelector('.right > .refusal').hidden", "the refusal")
    assert "not an image" in studio.tab.text(".right > .refusal")


@needs_browser
@pytest.mark.parametrize(("kind", "where"), [("drop", ".pad-paper canvas"), ("paste", "body")])
def test_a_picture_can_be_dropped_and_pasted(studio: Studio, tmp_path: Path, kind: str, where: str) -> None:
    from PIL import Image

    test = load_data("mnist-mini").test
    Image.fromarray(test.images[5, ..., 0]).save(tmp_path / "digit.png")
    studio.open(run=SHIPPED)
    content = base64.b64encode((tmp_path / "digit.png").read_bytes()).decode()
    studio.tab.run(
        f"""(() => {{
          const bytes = Uint8Array.from(atob({json.dumps(content)}), (letter) => letter.charCodeAt(0));
          const given = new DataTransfer();
          given.items.add(new File([bytes], "digit.png", {{ type: "image/png" }}));
          const event = {json.dumps(kind)} === "drop"
            ? new DragEvent("drop", {{ dataTransfer: given, bubbles: true, cancelable: true }})
            : new ClipboardEvent("paste", {{ clipboardData: given, bubbles: true }});
          document.querySelector({json.dumps(where)}).dispatchEvent(event);
        }})()"""
    )
    expected = base64.b64encode(test.images[5].tobytes()).decode()
    studio.tab.wait(f"studio.source().input().image === {json.dumps(expected)}", "the picture on the pad")
    studio.wait_for_answer()
    assert studio.says() == str(test.labels[5])
    assert studio.tab.problems == []


@needs_browser
@pytest.mark.slow
def test_stroke_to_attention(studio: Studio, record_property: Callable[[str, object], None]) -> None:
    """How long it takes with the default model is told, not judged: the machine may be busy."""
    studio.open(run="vit-nano")
    studio.draw(DIGITS["1"])  # the first one compiles
    studio.wait_for_answer()
    studio.tab.run("studio.times.length = 0")
    for digit in ("0", "3", "7"):
        studio.tab.key("c")
        studio.draw(DIGITS[digit], pause=0.012)
    studio.wait_for_answer()
    times = studio.tab.run("studio.times")
    median = statistics.median(times)
    record_property("milliseconds from stroke to attention, median", round(float(median), 1))
    record_property("milliseconds from stroke to attention, nine of ten", round(float(np.quantile(times, 0.9)), 1))
    print(f"stroke to attention: median {median:.0f} ms, nine of ten {np.quantile(times, 0.9):.0f}, {len(times)} times")
    assert 10 < len(times) <= 200
    assert abs(int(studio.tab.text(".speed").split()[0]) - median) <= 1
    spans = studio.tab.run(
        "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/api/preview'))"
        ".map((one) => [one.startTime, one.responseEnd])"
    )
    assert len(spans) > 10
    assert all(end <= start for (_, end), (start, _) in pairwise(sorted(spans)))  # one under way at a time, no queue
    assert_quiet(studio)


# ---- looking


@needs_browser
@pytest.mark.slow
def test_pointing_at_a_patch_asks_both_runs(studio: Studio) -> None:
    studio.open(run="vit", compare=SHIPPED)
    studio.tab.key("c")
    studio.draw(DIGITS["7"])
    studio.wait_for_answer()
    studio.tab.wait("studio.columns[1].trace()?.input.pixels === studio.source().input().image", "the second run")
    image = studio.pixels()
    traces = [traced(run, image_input(run, "", image)) for run in (studio.run("vit"), studio.run(SHIPPED))]
    assert studio.says(1) == "7"
    studio.tab.click_on(".asking [aria-label=Head] [data-value='1']")  # the second run has one head
    for key, tensor in (("forward", "pattern"), ("backward", "dscores")):
        if key == "backward":
            studio.tab.key("b")
        for token in (17, 30):
            studio.point(0, token)
            for column, head in ((0, 1), (1, 0)):
                row = traces[column][f"blocks.0.attn.{tensor}"][0, head, token]
                shown = studio.strongest(column)
                assert list(shown) == list(np.abs(row).argsort()[::-1][: len(shown)])
                np.testing.assert_allclose(list(shown.values()), row[list(shown)], rtol=1e-4, atol=1e-9)
                caption = studio.tab.run(f"studio.columns[{column}].element.querySelector('.caption').textContent")
                assert f"patch {token // 7},{token % 7}" in caption
    assert_quiet(studio)


@needs_browser
def test_only_runs_that_read_the_same_are_compared(studio: Studio) -> None:
    studio.open(run="vit")
    names = studio.tab.run("[...document.querySelectorAll('#compare option')].map((one) => one.value)")
    assert sorted(names) == ["", "-", "vit-nano"]
    studio.tab.run("studio.choose({ compare: 'vit-nano' })")
    studio.wait_for_run(1, "vit-nano")
    studio.tab.run("studio.choose({ run: 'iris' })")
    studio.wait_for_run(0, "iris")
    assert studio.tab.run("studio.chosen.compare") == ""
    assert "5.1" in studio.tab.run("document.querySelector('.writing').placeholder")
    assert_quiet(studio)


@needs_browser
@pytest.mark.slow
def test_a_text_is_looked_at_as_it_is_typed(studio: Studio) -> None:
    studio.open(run="gpt")
    run, text = studio.run("gpt"), "the dog sat on"
    write(studio, text)
    studio.tab.wait(f"studio.columns[0].trace().sequences.tokens.join('') === {json.dumps(text)}", "the tokens")
    studio.tab.settle()
    found = traced(run, text_input(run, "", text))
    row = found["blocks.0.attn.pattern"][0, 0, -1]
    np.testing.assert_allclose(
        list(studio.strongest().values()), row[list(studio.strongest())], rtol=1e-3
    )  # what fills a text up costs the last digits
    logits = np.asarray(found.logits)[0, -1]
    best = text_input(run, "", text).words[int(logits.argmax())]
    assert studio.tab.run("document.querySelector('.look .next-symbol').dataset.best") == best
    write(studio, "the cat " * 30)
    studio.tab.wait("!document.querySelector('.look .run-column .refusal').hidden", "the refusal")
    assert "32" in studio.tab.text(".look .run-column .refusal")
    write(studio, "a dog")
    studio.tab.wait("document.querySelector('.look .run-column .refusal').hidden", "an answer again")
    assert_quiet(studio)


@needs_browser
def test_the_answer_of_another_run_does_not_stay(studio: Studio) -> None:
    """A GPT answers at every token, a ViT once: what the GPT said does not stand under the digit."""
    studio.open(run="gpt")
    studio.tab.wait("!!document.querySelector('.look .next-symbol')", "what comes next")
    studio.tab.run("studio.choose({ run: 'vit' })")
    studio.wait_for_run(0, "vit")
    studio.tab.settle()
    assert studio.tab.text(".look .places") == studio.tab.text(".look .next-room") == ""
    assert studio.says() in studio.run("vit").classes
    assert_quiet(studio)


@needs_browser
@pytest.mark.slow
def test_a_source_token_has_no_answer(studio: Studio) -> None:
    """The encoder of a T5 reads, its decoder answers: a token of the source is not one of the target."""
    studio.open(run="t5")
    for layer, answers in (("decoder.blocks.0.attn", True), ("encoder.blocks.0.attn", False)):
        studio.tab.run(f"studio.asking.set({{ layer: {json.dumps(layer)} }})")
        studio.point(0, 1)
        assert ("token 1: the model\u2019s answer" in studio.tab.text(".look .places")) == answers
        assert "token 1" in studio.tab.text(".look .caption")
    assert_quiet(studio)


@needs_browser
@pytest.mark.slow
def test_a_text_grows_token_by_token(studio: Studio) -> None:
    """As `glassformer generate` writes it with the same seed; the attention is that of the longer text each time."""
    studio.open(run="gpt")
    run, prompt = studio.run("gpt"), "the dog"
    write(studio, prompt)
    studio.tab.wait(f"studio.columns[0].trace().sequences.tokens.join('') === {json.dumps(prompt)}", "the tokens")
    writer = Writer(run, notice=lambda _: None)
    texts = ((seed, generate(writer, [prompt], Writing(4, seed=seed))[0].text) for seed in range(100))
    seed, whole = next(both for both in texts if len(both[1]) == 4)  # no token without a text, such as <pad>
    studio.tab.run(f"document.querySelector('.look .how input[type=number]').value = {seed}")
    for length in range(1, 5):
        # not by pointer: what is drawn anew between its going down and up has another button
        studio.tab.run("document.querySelector('.look .next-symbol .plain-button').click()")
        grown = f"document.querySelector('.writing').value.length === {len(prompt) + length}"
        studio.tab.wait(grown, f"{length} tokens more")
        text = studio.tab.run("document.querySelector('.writing').value")
        assert (prompt + whole).startswith(text)
        studio.tab.wait(f"studio.columns[0].trace().sequences.tokens.join('') === {json.dumps(text)}", "its attention")
    assert studio.tab.run("document.querySelector('.writing').value") == prompt + whole
    context = run.recipe.model.input.context  # pyright: ignore[reportAttributeAccessIssue]
    full = ("the dog " * context)[:context]
    write(studio, full)
    studio.tab.wait(f"studio.columns[0].trace().sequences.tokens.join('') === {json.dumps(full)}", "a full context")
    studio.tab.run("document.querySelector('.look .next-symbol .plain-button').click()")
    last = json.dumps(full[-(context // 2) :])
    studio.tab.wait(f"studio.columns[0].trace().sequences.tokens.slice(0, -1).join('') === {last}", "its last half")
    assert_quiet(studio)


def write(studio: Studio, text: str) -> None:
    studio.tab.run("(() => { const field = document.querySelector('.writing'); field.focus(); field.select(); })()")
    studio.tab.type(text)


@needs_browser
def test_what_if_is_worked_out_by_the_server(studio: Studio) -> None:
    studio.open(run=SHIPPED)
    tab = studio.tab
    tab.click_on(".studio-tabs [data-value=every]")
    tab.wait("studio.every.page()?.trace.input.name === 'test:0'", "the page of the sample")
    tab.run("studio.every.page().state.set({ tab: 'what-if' })")
    tab.wait("document.querySelector('.what-if .said')?.textContent === 'Nothing is changed yet.'", "the answer")
    tab.click_on(".head-buttons .toggle")
    tab.wait("document.querySelector('.what-if .said').textContent.includes('Loss')", "the answer without the head")
    run = studio.run(SHIPPED)
    test = run.load_data().test
    off = lens.what_if(
        run.model, run.params, test.images[:1], [lens.HeadOff("blocks.0.attn", 0)], labels=test.labels[:1]
    )
    assert f"→ {off.after.loss:.4g}" in tab.text(".what-if .said")
    assert tab.problems == []


@needs_browser
def test_every_number_follows_what_is_drawn(studio: Studio) -> None:
    studio.open(run=SHIPPED)
    studio.tab.click_on(".studio-tabs [data-value=every]")
    studio.tab.wait("studio.every.page()?.trace.input.name === 'test:0'", "the page of the sample")
    studio.draw(DIGITS["3"])
    expected = json.dumps(base64.b64encode(studio.pixels().tobytes()).decode())
    studio.tab.wait(f"studio.every.page()?.trace.input.pixels === {expected}", "the page of the drawing")
    run = studio.run(SHIPPED)
    found = traced(run, image_input(run, "", studio.pixels()))
    for name in ("blocks.0.attn.q", "blocks.0.ff.hidden", "blocks.0.attn.dz"):
        shown = studio.tab.run(f"[...studio.every.page().trace.tensor({json.dumps(name)}).data]")
        np.testing.assert_allclose(shown, found[name].ravel(), rtol=1e-4, atol=1e-6)
    assert studio.tab.text(".inside h2")
    studio.tab.click_on(".studio-tabs [data-value=look]")
    assert studio.tab.run("studio.every.page()") is None
    studio.tab.key("b")  # the page's own keys are gone with it
    assert studio.tab.run("studio.asking.settings().mode") == "backward"
    assert_quiet(studio)


# ---- watching


@needs_browser
@pytest.mark.slow
def test_a_run_is_watched_as_it_trains(studio: Studio) -> None:
    epochs = 6
    studio.open(run=SHIPPED, tab="watch")
    studio.tab.wait("document.querySelectorAll('.run-button').length === 6", "the list of runs")
    train = subprocess.Popen(
        [*COMMAND, "train", "vit-nano", "--epochs", str(epochs), "--out", str(studio.runs / "young")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    studio.tab.wait("!!document.querySelector('[data-run=young]')", "the run in the list")
    studio.tab.click_on("[data-run=young]")
    studio.tab.wait("!!document.querySelector('.watched header .state.training')", "its state")
    studio.tab.wait("!!document.querySelector('.watched header .state.finished')", "its end")
    assert train.wait(timeout=60) == 0
    studio.tab.wait(f"document.querySelector('.epoch').textContent === 'epoch {epochs}'", "the last look")
    studio.tab.settle()
    last = (studio.runs / "young" / "log.csv").read_text().splitlines()[-1].split(",")
    told = studio.tab.run("[...document.querySelectorAll('.reading strong')].map((one) => Number(one.dataset.value))")
    assert told[:2] == [epochs, float(last[1])]
    assert told[-2] == pytest.approx(float(last[3]) / 100)
    frames = studio.tab.run("[...document.querySelectorAll('.frame span')].map((one) => Number(one.textContent))")
    assert frames == sorted(set(frames))
    assert len(frames) > 1
    studio.tab.run(
        "(() => { const slider = document.querySelector('.film-bar input'); slider.value = 0;"
        " slider.dispatchEvent(new Event('input')); })()"
    )
    assert studio.tab.text(".epoch") == f"epoch {frames[0]}"
    for canvas in (".curve canvas.base", ".frame canvas.base", ".film .looked-part canvas.base"):
        assert studio.tab.run(
            f"(() => {{ const canvas = document.querySelector({json.dumps(canvas)});"
            f" return ({COPIED})(canvas).getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean); }})()"
        ), canvas
    assert_quiet(studio)


# ---- small windows, fingers, and the end


@needs_browser
def test_on_a_phone_it_is_drawn_with_a_finger(studio: Studio) -> None:
    studio.open(run=SHIPPED, compare="vit")
    tab = studio.tab
    tab.size(390, 844, mobile=True)
    assert tab.box(".pad")[1] < tab.box(".asking")[1]
    left, top, width, height = tab.box("canvas.pad")
    tab.key("c")
    for stroke in DIGITS["7"]:
        for i in range(60):
            part, share = divmod(i / 60 * (len(stroke) - 1), 1)
            (ax, ay), (bx, by) = stroke[int(part)], stroke[int(part) + 1]
            finger = {"x": left + (ax + (bx - ax) * share) * width, "y": top + (ay + (by - ay) * share) * height}
            tab.send("Input.dispatchTouchEvent", type="touchMove" if i else "touchStart", touchPoints=[finger])
        tab.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    studio.wait_for_answer()
    assert studio.says() == "7"
    assert tab.run("scrollY") == 0  # the page stays where it is while a finger draws
    for name in ("look", "every", "watch"):
        tab.run(f"studio.choose({{ tab: '{name}' }})")
        if name == "every":
            tab.wait("!!studio.every.page()", "the page")
        tab.settle()
        assert tab.run("document.documentElement.scrollWidth") <= 390, name
    tab.size(1440, 900)
    assert_quiet(studio)


@needs_browser
def test_every_control_is_reached_by_the_keyboard(studio: Studio) -> None:
    studio.open(run="vit", compare=SHIPPED)
    tab = studio.tab
    reached: list[str] = []
    for _ in range(40):
        tab.send("Input.dispatchKeyEvent", type="rawKeyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
        name = "document.activeElement"
        reached.append(tab.run(f"{name}.id || {name}.getAttribute('aria-label') || {name}.title || {name}.textContent"))
    wanted = {"run", "compare", "Look", "Light or dark", "Pen", "Undo (z)", "Clear (c)", "Choose an image file"}
    wanted |= {"Number of the test sample", "Next test sample (])", "Any test sample (r)", "head 0", "Forward"}
    wanted |= {"the input, the answer, the attention", "draw", "the attention weights of a patch or token"} - wanted
    assert wanted - {"Look", "Pen", "Forward"} - set(reached) == set()
    assert any(one.startswith("The input") for one in reached)  # the picture itself, from patch to patch


@needs_browser
def test_what_the_server_refuses_is_said(studio: Studio) -> None:
    studio.tab.open("about:blank")
    studio.tab.open(studio.address.partition("?")[0] + "?token=wrong")
    assert "glassformer studio" in studio.tab.text("body")


@needs_browser
@pytest.mark.slow
def test_the_page_comes_back_when_the_studio_does(tab: Tab, tmp_path: Path) -> None:
    with served(tmp_path / "none") as (process, address):
        studio = Studio(tab, address, tmp_path, process)
        studio.open(run=SHIPPED)  # no runs: the model that comes along
        assert_quiet(studio)
        tab.run("studio.choose({ tab: 'watch' })")
        tab.wait("!!document.querySelector('.empty')", "what to do without runs")
        assert "glassformer train" in tab.text(".empty")
        tab.run("studio.choose({ tab: 'look' })")
        process.kill()
        process.wait(timeout=30)
        tab.wait("!document.querySelector('.banner').hidden", "the banner")
        assert tab.text(".banner").startswith("The studio has stopped")
    tab.key("c")
    with served(tmp_path / "none") as (_, again):
        assert again == address
        tab.wait("document.querySelector('.banner').hidden", "the studio again")
        studio.draw(DIGITS["7"])
        studio.wait_for_answer()
        assert studio.says() == "7"
