"""The report says what the study says, in every format, whatever names the plan has; looked at in a real browser."""

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from glassformer.lab.analysis import analyse
from glassformer.lab.plan import parse
from glassformer.lab.record import Results
from glassformer.lab.report import summary as in_terminal
from glassformer.lab.report import write_report
from glassformer.lab.report.as_csv import as_csv
from glassformer.lab.report.as_json import as_json
from glassformer.lab.report.facts import apart, both_ways, closely, comparators, pairs, ranked, seeds
from glassformer.lab.report.latex import latex
from glassformer.lab.report.learning import curve
from glassformer.lab.report.markdown import markdown
from glassformer.lab.report.page import page
from glassformer.lab.report.palette import COLOURS, SIGNED, ink_on
from glassformer.lab.report.scale import marks
from glassformer.lab.report.terminal import cells_of
from glassformer.lab.study import Effect, Rank, Study

from ..lens.browser import Tab, browser, missing
from .studies import EFFECTS, PLAN, study

needs_browser = pytest.mark.skipif(bool(missing()), reason=missing() or "a browser is here")

EVIL = "</script><img src=x onerror=alert(1)>|`*_$&%#{}~^\\\\ \\u001b[31m 漢字 [a](b)"  # as TOML writes it
READ = EVIL.replace("\\\\", "\\").replace("\\u001b", "\x1b")
PLAIN = str.maketrans("\N{MINUS SIGN}\N{EN DASH}\N{NO-BREAK SPACE}", "-- ")


@pytest.fixture(scope="module")
def whole() -> Study:
    return study()


@pytest.fixture(scope="module")
def hostile() -> Study:
    text = PLAN.replace("wide", EVIL).replace("as-published", "evil-group").replace("The earlier study", EVIL)
    text = text.replace("gradients are too noisy", EVIL).replace("Why is the accuracy only 38 %?", EVIL)
    effects = {name.replace("wide", READ): value for name, value in EFFECTS.items()}
    made = study(
        text, effects, (Rank(READ, 1, 2, 1), Rank("rate 0.1", 1, 2, 2)), (READ, "rate 0.1"), (), (READ, "rate 0.1")
    )
    return replace(made, answer=READ, notes=(READ,), command=READ, machines={READ: 3})


@pytest.fixture(scope="module")
def bare() -> Study:
    """Nothing but a baseline and one factor, three seeds, no target, no pairs, nothing held out."""
    text = """
question = ""
seeds = 3
[baseline]
preset = "attention-pool"
set = { "validation.share" = 0.1 }
[factors.only]
set = { "model.width" = 32 }
"""
    made = study(text, {"only": (5.0, 1.0, "not decided")}, (), (), (), (), "")
    cells = tuple(
        replace(one, records=tuple(replace(record, validation=(), inside={}, machine="") for record in one.records))
        for one in made.cells
    )
    return replace(made, cells=cells, baseline=cells[0], machines={}, command="")


class Page(HTMLParser):
    """Texts by element, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.texts.append(data)


def shown(effect: Effect) -> tuple[str, str]:
    """How a mean and its interval are to be spelt, by hand."""
    places = 1 if effect.high - effect.low >= 0.5 else 2
    mean, low, high = (f"{value:.{places}f}" for value in (effect.mean, effect.low, effect.high))
    zero = f"{0:.{places}f}"
    signed = f"+{mean}" if effect.mean > 0 else mean
    return (zero if float(mean) == 0 else signed), f"[{fixed(low, zero)}, {fixed(high, zero)}]"


def fixed(number: str, zero: str) -> str:
    return zero if float(number) == 0 else number


# ---- the same numbers everywhere


def test_all_files_are_written(whole: Study, tmp_path: Path) -> None:
    written = write_report(whole, tmp_path / "new")
    assert set(written) == {"report.html", "report.md", "results.csv", "results.json", "table.tex"}
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(written)
    assert all(path.stat().st_size > 500 for path in written.values())


def test_every_effect_stands_in_every_format(whole: Study) -> None:
    text = {
        "html": " ".join(Page(page(whole)).texts).translate(PLAIN),
        "markdown": markdown(whole).translate(PLAIN),
        "terminal": in_terminal(whole, 100),
    }
    tex = latex(whole)
    for found in whole.findings:
        if found.effect is None:
            continue
        mean, interval = shown(found.effect)
        for name, words in text.items():
            if name != "terminal" or found.comparison.kind in ("add", "top"):
                assert mean in words, (name, found.comparison.factors)
                assert interval in words, (name, found.comparison.factors)
        if found.comparison.kind in ("add", "top") and not found.comparison.group:
            (row,) = (line for line in tex.splitlines() if f"${mean}$ & ${interval}$" in line)
            assert f"& {found.comparison.factors[0]} &" in row
            assert row.endswith(rf"& {found.word} \\")


def test_what_helps_on_top_has_its_place_in_every_format(whole: Study) -> None:
    """Under a title that says on top of what, apart from what the same factor does alone."""
    alone, later = (
        next(f for f in whole.findings if (f.comparison.kind, f.comparison.factors[0]) == (kind, "label smoothing"))
        for kind in ("add", "top")
    )
    assert (alone.word, later.word) == ("not decided", "contributes")
    assert later.effect is not None
    mean, interval = shown(later.effect)
    title = "On top of positions sinusoidal + rate 0.1 + wide + batch 16"
    parsed = Page(page(whole))
    below = {
        "html": parsed.texts[parsed.texts.index(title) :],
        "markdown": markdown(whole).partition(f"### {title}\n")[2].splitlines(),
        "terminal": in_terminal(whole, 100).partition(f"{title}:\n")[2].splitlines(),
        "latex": latex(whole).partition(rf"{{{title}}} \\")[2].splitlines(),
    }
    for name, lines in below.items():
        section = " ".join(lines).translate(PLAIN).partition("Group as-published")[0]
        row = section.partition("label smoothing")[2]
        assert all(one in row for one in (mean, interval, later.word)), name
    assert "ranks" not in " ".join(below["terminal"][:3])  # nobody has one there
    findings = json.loads(as_json(whole))["findings"]
    assert [one["word"] for one in findings if one["kind"] == "top"] == [
        f.word for f in whole.findings if f.comparison.kind == "top"
    ]
    titles = {row["cell"] for row in csv.DictReader(io.StringIO(as_csv(whole)))}
    assert later.comparison.with_.title in titles


def test_the_answer_is_shown_by_paragraphs(whole: Study) -> None:
    first, second = whole.answer.split("\n\n")
    assert {first, second} <= {words.translate(PLAIN) for words in Page(page(whole)).texts}
    assert f"\n\n{first}\n\n{second}\n\n" in markdown(whole)
    assert len(in_terminal(whole, 100).split("\n\n")[1].split()) == len(first.split())


def test_ranks_ties_and_verdicts_stand_in_their_row(whole: Study) -> None:
    rows = in_terminal(whole, 100).splitlines()
    for rank in whole.ranks:
        row = next(line for line in rows if rank.factor in line and line[0].isdigit())
        start = str(rank.best) if rank.best == rank.worst else f"{rank.best}-{rank.worst} ="
        assert row.split("  ")[0].strip() == start
        finding = next(f for f in whole.findings if f.comparison.factors == (rank.factor,))
        assert row.endswith(finding.word)
    order = [line.name for line in ranked(whole)]
    assert order == [*(rank.factor for rank in whole.ranks), "rate 3"]
    assert [line.name for line in comparators(whole)] == ["MLP of the same size"]


def test_json_is_everything_and_has_no_nan(whole: Study) -> None:
    first = whole.findings[0]
    assert first.effect is not None
    endless = replace(first, effect=replace(first.effect, size=math.inf))
    text = as_json(replace(whole, findings=(endless, *whole.findings[1:])))
    plain = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert plain["findings"][0]["effect"]["size"] is None
    for found, written in zip(whole.findings, plain["findings"], strict=True):
        assert (written["kind"], written["word"]) == (found.comparison.kind, found.word)
        if found.effect is None:
            assert written["effect"] is None
        else:
            assert written["effect"]["differences"] == list(found.effect.differences)
            assert (written["effect"]["low"], written["effect"]["p_holm"]) == (found.effect.low, found.effect.p_holm)
    assert [cell["mean"] for cell in plain["cells"]] == [one.mean for one in whole.cells]
    record = whole.cells[3].records[4]
    assert tuple(plain["cells"][3]["records"][4]["validation"]) == record.validation
    assert plain["cells"][0]["recipe"]["model"]["kind"] == "patch_attention"
    assert plain["plan"] == PLAN


def test_csv_has_every_run_to_the_last_bit(whole: Study) -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(whole))))
    records = {record.place: record for one in whole.cells for record in one.records}
    assert len(rows) == len(records)
    for row in rows:
        record = records[row["key"], int(row["seed"])]
        assert row["failed"] == record.failed
        if not record.failed:
            assert float(row["test"]) == record.test
            assert float(row["inside.entropy"]) == record.inside["entropy"]
            last = record.validation[-1] if record.validation else record.test
            assert float(row["score"]) == pytest.approx(100 * last, abs=1e-12)  # type: ignore[operator]
        else:
            assert (float(row["score"]), row["test"]) == (10.0, "")  # it counts as chance


def test_a_run_in_two_groups_is_one_row(whole: Study) -> None:
    again = replace(whole.cells[0], cell=replace(whole.cells[0].cell, group="as-published"))
    twice = replace(whole, cells=(*whole.cells, again))
    assert as_csv(twice) == as_csv(whole)


def test_every_dot_is_its_seed(whole: Study) -> None:
    for found in whole.findings:
        if found.effect and found.comparison.kind != "pair":
            told = seeds(whole, found)
            assert [one.seed for one in told] == list(whole.plan.seeds)
            for one in told:
                assert one.with_ is not None
                assert one.without is not None
                assert one.with_ - one.without == pytest.approx(one.difference)
    dots = re.findall(r'<circle cx="[^"]*" cy="[^"]*" r="2.5"[^>]*data-seed="(\d+)"', page(whole))
    drawn = sum(len(found.seeds) for found in (*ranked(whole), *comparators(whole)))
    drawn += sum(len(one.add.seeds) + len(one.remove.seeds) for one in both_ways(whole))
    drawn += sum(len(one.seeds) for section in apart(whole) for one in section.lines)
    assert len(dots) == 2 * drawn  # wide and narrow


def test_differences_that_are_of_other_seeds_are_not_told_as_theirs(whole: Study) -> None:
    found = whole.findings[0]
    assert found.effect is not None
    other = replace(found, effect=replace(found.effect, differences=found.effect.differences[:-1]))
    assert {one.seed for one in seeds(whole, other)} == {None}


def test_bands_are_student_intervals(whole: Study) -> None:
    one = closely(whole)[1]
    found = curve(one.label, one.summary)
    assert found is not None
    values = 100 * np.array([record.validation for record in one.summary.records])
    for epoch in (0, 5, 11):
        expected = stats.ttest_1samp(values[:, epoch], 0).confidence_interval(0.95)  # pyright: ignore[reportAttributeAccessIssue]
        assert (found.low[epoch], found.high[epoch]) == pytest.approx((expected.low, expected.high))
    shorter = replace(one.summary.records[0], validation=one.summary.records[0].validation[:4])
    cut = curve(one.label, replace(one.summary, records=(shorter, *one.summary.records[1:])))
    assert cut is not None
    assert len(cut.mean) == 4
    np.testing.assert_allclose(cut.mean, found.mean[:4])


def test_closely_looked_at_are_one_of_each_subject(whole: Study) -> None:
    labels = [one.label for one in closely(whole)]
    assert labels == ["baseline", "rate 0.1", "positions sinusoidal", "batch 16", "wide", "best combination"]


def test_a_real_analysis_can_be_reported(whole: Study, tmp_path: Path) -> None:
    """Records of the made-up study, analysed by the lab itself, not by hand."""
    results = Results(tmp_path)
    results.add(record for one in whole.cells for record in one.records)
    real = analyse(parse(PLAN, "attention-accuracy"), results)
    write_report(real, tmp_path / "report")
    words = " ".join(" ".join(Page(page(real)).texts).split())
    assert all(part in words for part in real.answer.split("\n\n"))
    assert all(found.evidence in words for found in real.findings if found.comparison.kind in ("add", "top"))
    assert "wide + batch 16, label smoothing (+2." in real.answer
    assert real.best is not None
    assert "label smoothing" in real.best.cell.factors
    assert all(note in words for note in real.notes)
    assert pairs(real)
    assert all(one.seed is not None for found in real.findings[:8] for one in seeds(real, found))


def test_each_sentence_tells_its_test(whole: Study, tmp_path: Path) -> None:
    """In the JSON with its numbers, on the page under the pointer."""
    results = Results(tmp_path)
    results.add(record for one in whole.cells for record in one.records)
    real = analyse(parse(PLAN, "attention-accuracy"), results)
    spans = [attrs for tag, attrs in Page(page(real)).tags if tag == "span" and attrs.get("class") == "sentence"]
    assert len(spans) == len(real.sentences) > 5
    assert all(attrs["title"] for attrs in spans)
    assert any("share of the gap from" in (attrs["title"] or "") for attrs in spans)
    plain = json.loads(as_json(real))
    assert [one["text"] for one in plain["sentences"]] == [one.text for one in real.sentences]
    for one in plain["sentences"]:
        for claim in one["claims"]:
            assert claim["kind"] in plain["rules"]
            assert claim["said"]
    begun = Page(page(replace(real, answer=f"Incomplete: 3 of 9 runs.\n\n{real.answer}")))
    assert "Incomplete: 3 of 9 runs." in begun.texts
    assert sum(attrs.get("class") == "sentence" for _, attrs in begun.tags) == len(spans)
    warnings = [words for words in Page(page(real)).texts if "gave no usable model" in words]
    assert len(warnings) >= 1


def test_an_empty_study_is_a_report_too(tmp_path: Path) -> None:
    nothing = analyse(parse(PLAN, "attention-accuracy"), Results(tmp_path))
    write_report(nothing, tmp_path / "report")
    assert json.loads((tmp_path / "report/results.json").read_text())["cells"] == []
    assert "not run" in page(nothing)
    assert len(in_terminal(nothing).splitlines()) > 3


# ---- what it is made of


def test_the_page_parses_and_needs_nothing(whole: Study) -> None:
    text = page(whole)
    parsed = Page(text)
    assert parsed.open == []
    assert "http" not in text.replace("http-equiv", "")
    assert not any(tag == "script" and "src" in attrs for tag, attrs in parsed.tags)
    assert not any("style" in attrs or any(name.startswith("on") for name in attrs) for _, attrs in parsed.tags)
    for picture in re.findall(r"<svg.*?</svg>", text):
        ElementTree.fromstring(picture)
    names = [attrs["id"] for _, attrs in parsed.tags if "id" in attrs]
    assert len(set(names)) == len(names)


def test_parts_that_are_empty_say_so(bare: Study) -> None:
    words = " ".join(Page(page(bare)).texts)
    for sentence in (
        "There is no answer yet",
        "No validation accuracy was recorded",
        "No factor was taken away",
        "No two factors were tried together",
        "The trained models were not looked into",
        "Nothing failed and nothing was skipped",
    ):
        assert sentence in words
        assert sentence in markdown(bare)
    assert "This repeats it" not in words
    assert "epochs to target" in words


def test_names_from_outside_are_only_ever_text(hostile: Study, tmp_path: Path) -> None:
    write_report(hostile, tmp_path)
    parsed = Page((tmp_path / "report.html").read_text())
    assert not any(tag == "img" for tag, _ in parsed.tags)
    assert sum(tag == "script" for tag, _ in parsed.tags) == 1
    assert READ in parsed.texts
    in_markdown = (tmp_path / "report.md").read_text().rpartition("```toml")[0].rpartition("```sh")[0]
    assert "<img" not in in_markdown
    for table in re.findall(r"(?:^\|.*\n)+", in_markdown, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1
    tex = (tmp_path / "table.tex").read_text().partition("\n")[2]
    free = re.sub(r"\\[&%$#_{}]|\\\\|\\[a-z]+", "", tex)
    assert not set("#_%~^<>|\x1b") & set(re.sub(r"\$[^$]*\$", "", free))
    assert free.count("{") == free.count("}")
    assert json.loads((tmp_path / "results.json").read_text())["answer"] == READ


def test_a_spreadsheet_does_not_compute_names(whole: Study) -> None:
    made = whole.cells[0]
    record = replace(made.records[0], machine="=HYPERLINK(1)", failed="@SUM(1)")
    text = as_csv(replace(whole, cells=(replace(made, records=(record,)),)))
    row = next(csv.DictReader(io.StringIO(text)))
    assert (row["machine"], row["failed"]) == ("'=HYPERLINK(1)", "'@SUM(1)")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 300])
def test_the_terminal_is_never_too_narrow(whole: Study, hostile: Study, width: int) -> None:
    for one in (whole, hostile):
        text = in_terminal(one, width)
        assert max(cells_of(line) for line in text.splitlines()) <= min(width, 100)
        assert "\x1b" not in text
    assert "rate 0.1" in in_terminal(whole, width)
    said = " ".join(f"{whole.plan.question} {whole.answer}".split())
    assert " ".join(in_terminal(whole, width).split()).startswith(said)


def test_marks_of_an_axis_are_round() -> None:
    assert marks(-0.3, 0.31, 6) == [-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3]
    assert marks(0, 1000, 5) == [0, 200, 400, 600, 800, 1000]
    for low, high in ((0, 1e-6), (-3, 97), (12.3, 12.4)):
        found = marks(low, high, 6)
        assert 3 <= len(found) <= 10
        assert all(low - 1e-9 <= one <= high + 1e-9 for one in found)


def light(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    bright, dark = sorted((light(a), light(b)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_all_words_can_be_read_on_their_ground() -> None:
    for theme in (0, 1):
        for name, both in COLOURS.items():
            if name not in ("ground", "card", "soft", "rule", "axis"):
                for ground in ("card", "ground") if name in ("text", "quiet", "accent") else ("card",):
                    assert contrast(both[theme], COLOURS[ground][theme]) >= 4.5, (name, ground, theme)
    for colours in SIGNED.values():
        assert min(contrast(colour, ink_on(colour)) for colour in colours) >= 4.5


# ---- in a browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, whole: Study, hostile: Study, bare: Study) -> Path:
    path = tmp_path_factory.mktemp("reports")
    for name, one in {"whole": whole, "hostile": hostile, "bare": bare}.items():
        write_report(one, path / name)
    return path


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


def opened(tab: Tab, folder: Path, name: str, width: int = 1280) -> Tab:
    tab.size(width, 900, mobile=width < 500)
    tab.problems.clear()
    tab.open(f"file://{folder}/{name}/report.html")
    tab.settle()
    return tab


STICKS_OUT = """(() => {
  const wide = document.documentElement.clientWidth;
  const free = (e) => e.checkVisibility() && !e.closest('.scroll, pre');
  const out = (b) => b.width && (b.right > wide + 0.5 || b.left < -0.5);
  return [...document.querySelectorAll('main *, footer, .theme')].filter(free)
    .filter((e) => out(e.getBoundingClientRect())).map((e) => `${e.tagName} ${e.textContent.slice(0, 30)}`);
})()"""


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["whole", "hostile", "bare"])
def test_nothing_sticks_out(tab: Tab, folder: Path, name: str, width: int) -> None:
    opened(tab, folder, name, width)
    assert tab.run("document.documentElement.scrollWidth") == width
    assert tab.run(STICKS_OUT) == []
    shown = tab.run(
        "[...document.querySelectorAll('.picture')].filter((e) => e.checkVisibility()).map((e) => e.classList[1])"
    )
    assert set(shown) == {"narrow" if width < 500 else "wide"}
    assert tab.problems == []
    assert [one for one in tab.requests if not one.startswith("file:")] == []


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_words_do_not_lie_on_words(tab: Tab, folder: Path, width: int) -> None:
    opened(tab, folder, "whole", width)
    met = tab.run(
        """[...document.querySelectorAll('.picture')].filter((e) => e.checkVisibility()).flatMap((picture) => {
          const boxes = [...picture.querySelectorAll('text')].map((e) => [e.getBoundingClientRect(), e.textContent]);
          return boxes.flatMap(([a, one], i) => boxes.slice(i + 1).filter(([b]) =>
            Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4).map(([, other]) => `${one} / ${other}`));
        })"""
    )
    assert met == []


@needs_browser
def test_intervals_are_drawn_where_the_axis_says(tab: Tab, folder: Path, whole: Study) -> None:
    """Read back from the picture: two marks of the axis give the scale, the widest line of a row its interval."""
    opened(tab, folder, "whole")
    read: dict[str, Any] = tab.run(
        """(() => {
          const picture = document.querySelector('#causes .wide');
          const x = (e) => e.getBoundingClientRect().x + e.getBoundingClientRect().width / 2;
          const texts = [...picture.querySelectorAll('text')];
          const at = (words) => x(texts.find((e) => e.textContent === words));
          const lines = [...picture.querySelectorAll('line[stroke-width="2.2"]')].map((e) => e.getBoundingClientRect())
            .filter((b) => b.width > b.height).map((b) => [b.left, b.right, b.y]).sort((a, b) => a[2] - b[2]);
          return { zero: at('0'), ten: at('+10'), lines };
        })()"""
    )
    effects = [line.effect for line in (*ranked(whole), *comparators(whole)) if line.effect]
    unit = (read["ten"] - read["zero"]) / 10
    assert len(read["lines"]) == len(effects)
    for (left, right, _), effect in zip(read["lines"], effects, strict=True):
        ends = ((left - read["zero"]) / unit, (right - read["zero"]) / unit)
        assert ends == pytest.approx((effect.low, effect.high), abs=0.15)


@needs_browser
def test_a_seed_under_the_pointer_is_shown_in_all_rows(tab: Tab, folder: Path, whole: Study) -> None:
    opened(tab, folder, "whole")
    place = tab.middle('#causes .wide .seed[data-seed="7"]')
    tab.settle()  # it scrolls, which takes the tip away
    tab.mouse(*place)
    tab.settle()
    assert tab.run("document.getElementById('tip').classList.contains('on')")
    first = next(line for line in ranked(whole) if line.effect)
    chosen = next(seed for seed in first.seeds if seed.seed == 7)
    assert tab.text("#tip").translate(PLAIN) == (
        f"{first.name}, seed 7: {chosen.difference:+.2f} points ({chosen.without:.1f} → {chosen.with_:.1f})"
    )
    same = tab.run("[...document.querySelectorAll('#causes .wide .seed.same')].map((e) => e.dataset.seed)")
    assert same == ["7"] * sum(bool(line.effect) for line in (*ranked(whole), *comparators(whole)))
    tab.mouse(5, 5)
    tab.settle()
    assert not tab.run("document.getElementById('tip').classList.contains('on')")


@needs_browser
def test_the_table_is_sorted_by_number(tab: Tab, folder: Path, whole: Study) -> None:
    opened(tab, folder, "whole")
    titles = "[...document.querySelectorAll('.sortable tbody tr')].map((e) => e.cells[0].textContent)"
    written = tab.run(titles)
    best_first = sorted(whole.cells, key=lambda one: -one.mean)
    tab.click_on(".sortable th:nth-child(3) button")
    assert tab.run(titles)[0] == best_first[0].cell.title
    assert tab.run("document.querySelector('.sortable th:nth-child(3)').ariaSort") == "descending"
    tab.click_on(".sortable th:nth-child(3) button")
    assert tab.run(titles)[0] == best_first[-1].cell.title
    tab.click_on(".sortable th:nth-child(3) button")
    assert tab.run(titles) == written


@needs_browser
def test_a_saved_picture_stands_by_itself_and_is_light(tab: Tab, folder: Path, tmp_path: Path) -> None:
    tab.scheme("dark")
    opened(tab, folder, "whole")
    tab.downloads_to(tmp_path)
    tab.click_on("#causes .save")
    path = tmp_path / "effects.svg"
    tab.wait(path.exists, "the picture")
    tab.scheme("light")
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert float(root.get("width", "0")) == 1080
    for element in root.iter():
        if element.tag.endswith(("text", "circle", "polygon", "rect")):
            assert element.get("fill")
    inks = {element.get("fill") for element in root.iter() if element.tag.endswith("text")}
    assert inks <= {both[0] for both in COLOURS.values()}


@needs_browser
def test_light_dark_and_paper(tab: Tab, folder: Path) -> None:
    opened(tab, folder, "whole")
    lightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    ink = "getComputedStyle(document.querySelector('.picture text')).fill"
    tab.scheme("light")
    assert tab.run(lightness) > 700
    before = tab.run(ink)
    tab.scheme("dark")
    assert tab.run(lightness) < 120
    assert tab.run(ink) != before
    tab.click_on(".theme")
    assert tab.run(lightness) > 700
    tab.size(390, 900)
    tab.send("Emulation.setEmulatedMedia", media="print")
    assert tab.run("document.querySelector('#causes .wide').checkVisibility()")
    assert not tab.run("document.querySelector('#causes .narrow').checkVisibility()")
    tab.send("Emulation.setEmulatedMedia", media="")
    tab.scheme("light")


@needs_browser
def test_it_reads_without_javascript(tab: Tab, folder: Path, whole: Study) -> None:
    tab.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.open(f"file://{folder}/whole/report.html")
        assert tab.text(".answer").translate(PLAIN) == whole.answer.partition("\n\n")[0]
        assert tab.run("document.querySelector('#causes .save').checkVisibility()") is False
        assert "rate 0.1, seed " in tab.text("#causes .wide .seed title")
    finally:
        tab.send("Emulation.setScriptExecutionDisabled", value=False)
