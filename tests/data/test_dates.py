"""Dates in sixty languages: what they say, where their parts are, and that no test day was seen."""

import hashlib
import itertools
import re
import subprocess
import sys
from collections import Counter
from datetime import date

import pytest

from glassformer.data import dates
from glassformer.data.dates import FORMATS, LANGUAGES, PARTS, TEST, TRAIN, load_dates
from glassformer.data.texts import Example, Texts
from glassformer.errors import DataError

babel_dates = pytest.importorskip("babel.dates")


@pytest.fixture(scope="module")
def data() -> Texts:
    return load_dates()


def parts(example: Example) -> dict[str, str]:
    return {part.name: example.text[part.start : part.end] for part in example.parts}


def test_sizes_and_names(data: Texts) -> None:
    assert data.name == "dates"
    assert (len(data.train), len(data.test)) == (TRAIN, TEST)
    assert data.parts == ("day", "month", "year")
    assert data.marks == tuple(f"<{language}>" for language in LANGUAGES)
    assert len(set(data.marks)) == 60
    assert data.classes == ()
    assert {example.label for example in (*data.train, *data.test)} == {-1}


def test_babel_itself_writes_the_target_as_the_text(data: Texts) -> None:
    """By its own road, from the target back: the whole test set, and training in steps."""
    for example in (*data.test, *data.train[::7]):
        tag, _, written = example.text.partition(" ")
        day = date.fromisoformat(example.target)
        assert written in {babel_dates.format_date(day, length, locale=tag.strip("<>")) for length in FORMATS}


def test_the_parts_cut_out_day_month_and_year(data: Texts) -> None:
    for example in (*data.test, *data.train):
        year, month, day = example.target.split("-")
        found = parts(example)
        assert sorted(found) == sorted(PARTS)
        assert len(example.parts) == 3
        assert found["year"] == year
        assert found["day"] in (day, day.lstrip("0"))
        name = found["month"]
        assert name in (month, month.lstrip("0")) or not name.isdecimal()
        assert name == name.strip(), "nothing around it"


def test_a_month_is_cut_out_as_the_name_that_the_language_has_for_it(data: Texts) -> None:
    for language in LANGUAGES:
        names = {width: babel_dates.get_month_names(width, locale=language) for width in ("wide", "abbreviated")}
        for example in data.test:
            if example.text.startswith(f"<{language}> "):
                month = date.fromisoformat(example.target).month
                expected = {names["wide"][month], names["abbreviated"][month], f"{month}", f"{month:02}"}
                assert parts(example)["month"] in expected


KNOWN = {  # written out by hand
    "<de> Donnerstag, 5. September 2024": {"day": "5", "month": "September", "year": "2024"},
    "<zh> 2024年9月5日星期四": {"day": "5", "month": "9", "year": "2024"},
    "<es> jueves, 5 de septiembre de 2024": {"day": "5", "month": "septiembre", "year": "2024"},
    "<hu> 2024. szeptember 5., csütörtök": {"day": "5", "month": "szeptember", "year": "2024"},
    "<he> יום חמישי, 5 בספטמבר 2024": {"day": "5", "month": "ספטמבר", "year": "2024"},
    "<th> วันพฤหัสบดีที่ 5 กันยายน ค.ศ. 2024": {"day": "5", "month": "กันยายน", "year": "2024"},
}


@pytest.mark.parametrize("text", KNOWN)
def test_dates_written_by_hand(text: str) -> None:
    language = text[1:3]
    full = dates.forms_of(language, babel_dates)[0]
    example = dates.write(date(2024, 9, 5), full, babel_dates)
    assert (example.text, example.target, parts(example)) == (text, "2024-09-05", KNOWN[text])


def test_the_day_is_found_where_it_looks_like_the_month() -> None:
    chinese, german = (dates.forms_of(language, babel_dates)[-1] for language in ("zh", "de"))
    for form, order in ((chinese, ["year", "month", "day"]), (german, ["day", "month", "year"])):
        example = dates.write(date(2011, 11, 11), form, babel_dates)
        assert [part.name for part in sorted(example.parts, key=lambda part: part.start)] == order
        assert set(parts(example).values()) == {"11", "2011"}


def test_the_year_stands_once_and_nothing_else_has_four_digits(data: Texts) -> None:
    for example in (*data.train, *data.test):
        assert re.findall(r"\d{4,}", example.text) == [example.target[:4]]


def test_no_test_day_is_in_training_and_no_day_comes_twice(data: Texts) -> None:
    train, test = ([example.target for example in side] for side in (data.train, data.test))
    assert not set(train) & set(test)
    assert len(set(train)) == TRAIN
    assert len(set(test)) == TEST
    assert min(train + test) >= "1900-01-01"
    assert max(train + test) <= "2099-12-31"


def test_every_language_has_its_share_in_both_and_uses_all_its_forms(data: Texts) -> None:
    for side, count in ((data.train, TRAIN), (data.test, TEST)):
        tags = Counter(example.text.partition(" ")[0] for example in side)
        assert tags == dict.fromkeys(data.marks, count // 60)
    tail = {example.text.partition(" ")[0] for example in data.train[-TRAIN // 100 :]}
    assert tail == set(data.marks), "validation is taken from the end"
    lengths = [
        {length for length in FORMATS if example.text == f"<de> {german(example, length)}"}
        for example in data.test
        if example.text.startswith("<de> ")
    ]
    assert set().union(*lengths) == set(FORMATS)


def german(example: Example, length: str) -> str:
    return babel_dates.format_date(date.fromisoformat(example.target), length, locale="de")


def test_a_text_means_one_date() -> None:
    """In every language and form: months are told apart, and no two forms disagree about order."""
    days = [date(2024, month, day) for month in range(1, 13) for day in range(1, 29)]
    for language in LANGUAGES:
        meaning: dict[str, str] = {}
        for form, day in itertools.product(dates.forms_of(language, babel_dates), days):
            example = dates.write(day, form, babel_dates)
            assert meaning.setdefault(example.text, example.target) == example.target


def test_forms_with_unnamed_months_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(dates.forms_of("de", babel_dates)) == 3
    monkeypatch.setattr(babel_dates, "get_month_names", lambda *_: {month: f"M{month:02}" for month in range(1, 13)})
    (form,) = dates.forms_of("de", babel_dates)
    assert dates.write(date(2024, 9, 5), form, babel_dates).text == "<de> 05.09.2024"


def test_forms_that_are_alike_count_once() -> None:
    texts = {babel_dates.format_date(date(2024, 9, 5), length, locale="zh") for length in FORMATS}
    assert len(texts) == len(dates.forms_of("zh", babel_dates)) == 2


@pytest.mark.parametrize("pattern", ["d MMMM", "d MMMM yy", "d MMMM y y", "d d MMMM y", "MMMM y", "d y"])
def test_a_language_with_no_usable_form_is_refused(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.setattr(babel_dates, "get_date_format", lambda *_, **__: babel_dates.parse_pattern(pattern))
    with pytest.raises(DataError, match="the installed Babel writes no date of 'de' with a month and a year of four"):
        dates.forms_of("de", babel_dates)


def digest(data: Texts) -> str:
    return hashlib.sha256(repr(data).encode()).hexdigest()


@pytest.mark.slow
def test_the_same_in_another_process_whatever_babel_was_asked_before(data: Texts) -> None:
    code = """
import hashlib
from babel import Locale, dates
root = Locale.parse("root")
for names in (dates.get_month_names, dates.get_day_names):
    for width in ("wide", "abbreviated", "narrow"):
        for context in ("format", "stand-alone"):
            names(width, context, root)[1]
dates.format_date(format="full", locale=root)
from glassformer.data.dates import load_dates
print(hashlib.sha256(repr(load_dates()).encode()).hexdigest())
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == digest(data)


def test_which_days_are_for_testing_is_pinned() -> None:
    """Another choice would make earlier results incomparable; no version of Babel has a say."""
    days = [day.isoformat() for day in dates.shuffled_days()]
    assert len(days) == len(set(days)) == 73_049
    assert days[:4] == ["2026-08-18", "1981-04-10", "1970-03-11", "1909-08-28"]


def test_without_babel_the_way_to_get_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("babel", "babel.dates"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError, match=re.escape("pip install 'glassformer[text]'")):
        load_dates()
