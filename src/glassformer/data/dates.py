"""Dates in sixty languages, to be made ISO dates: `<de> Donnerstag, 5. September 2024` -> `2024-09-05`.

Words and order are those of CLDR, by way of Babel: the Gregorian formats full, long and medium of each language. The
tag tells whether 05/09/2024 is in May or in September. A day is written once, in one language and one format, so that
no test day is in training in any language. Days are dealt out by a hash of their ISO form: a new Babel may spell them
differently, but no day changes sides.
"""

import hashlib
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data.text_extra import text_package
from glassformer.data.texts import Example, Part, Texts
from glassformer.errors import DataError

TRAIN, TEST = 48_000, 2_400  # 800 and 40 of each language
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
FORMATS = ("full", "long", "medium")

# Widely spoken languages whose months CLDR has names for, chosen so that most scripts in daily use are among them.
SIXTY = (
    "am ar az bg bn cs da de el en es fa fi fil fr gu ha he hi hu hy id it ja ka kk km kn ko lo lt ml mn mr ms my nb "
    "ne nl or pa pl pt ro ru si sk sr sv sw ta te th tr uk ur uz vi zh zu"
)
LANGUAGES = tuple(SIXTY.split())

PARTS = ("day", "month", "year")
PART_OF = {"d": "day", "M": "month", "L": "month", "y": "year"}  # letters of a CLDR pattern


class Piece(NamedTuple):
    literal: str  # or nothing
    field: str = ""  # MMMM


class Form(NamedTuple):
    """One way to write a date."""

    language: str
    locale: Any  # babel's
    pieces: tuple[Piece, ...]


def load_dates(name: str = "dates", cache: Path | None = None) -> Texts:
    """Text, target and parts; there are no classes."""
    dates = text_package("babel.dates", name)
    forms = [forms_of(language, dates) for language in LANGUAGES]
    days = shuffled_days()
    return Texts(
        name=name,
        train=write_all(days[TEST : TEST + TRAIN], forms, dates),
        test=write_all(days[:TEST], forms, dates),
        parts=PARTS,
        marks=tuple(map(mark, LANGUAGES)),
    )


def shuffled_days() -> list[date]:
    days = [FIRST + timedelta(days=i) for i in range((LAST - FIRST).days + 1)]
    return sorted(days, key=lambda day: hashlib.sha256(day.isoformat().encode()).digest())


def write_all(days: Sequence[date], forms: Sequence[Sequence[Form]], dates: Any) -> tuple[Example, ...]:
    """The languages take turns, and in each language its forms."""
    written = []
    for i, day in enumerate(days):
        turn, language = divmod(i, len(forms))
        written.append(write(day, forms[language][turn % len(forms[language])], dates))
    return tuple(written)


def write(day: date, form: Form, dates: Any) -> Example:
    fields = dates.DateTimeFormat(day, form.locale)
    text, parts = f"{mark(form.language)} ", []
    for literal, field in form.pieces:
        start = len(text)
        text += fields[field] if field else literal
        if field[:1] in PART_OF:
            parts.append(Part(PART_OF[field[0]], start, len(text)))
    return Example(text=text, target=day.isoformat(), parts=tuple(parts))


def forms_of(language: str, dates: Any) -> list[Form]:
    """The usable ones, each once: where a language has no short names of months, medium may be what long is."""
    locale = dates.Locale.parse(language)
    different = {}
    for length in FORMATS:
        pattern = dates.get_date_format(length, locale=locale).pattern
        form = Form(language, locale, tuple(map(piece, dates.tokenize_pattern(pattern))))
        written = [write(date(2024, month, 5), form, dates) for month in range(1, 13)]
        if all(map(is_usable, written)):
            different.setdefault(tuple(example.text for example in written), form)
    if not different:
        raise DataError(
            f"dates: the installed Babel writes no date of {language!r} with a month and a year of four digits; "
            "pip install --upgrade babel"
        )
    return list(different.values())


def is_usable(example: Example) -> bool:
    """Day, month and year of four digits, each once, and the month not as M09: what Babel says for want of a name.

    Babel 2.18 also says M09 for a short name that is the long one by reference, if its locale `root` was in use before
    that of the language. Such a form is what long is: it would have been left out anyway, and the data stay the same.
    """
    found = {part.name: example.text[part.start : part.end] for part in example.parts}
    year, month, _ = example.target.split("-")
    return len(example.parts) == len(found) == 3 and found["year"] == year and found["month"] != f"M{month}"


def piece(token: tuple[str, Any]) -> Piece:
    """Of what Babel's `tokenize_pattern` gives: ("chars", "de") or ("field", ("M", 4))."""
    kind, value = token
    return Piece(literal="", field=value[0] * value[1]) if kind == "field" else Piece(literal=value)


def mark(language: str) -> str:
    return f"<{language}>"
