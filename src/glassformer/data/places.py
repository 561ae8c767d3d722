"""places: the name of a country, region or city, and the language it is written in.

Names are those of CLDR, by way of Babel: territories, and the city that stands for each time zone. Half of the
languages share the Latin script, others the Arabic, Cyrillic or Devanagari, so letters alone do not tell. A name that
two of them spell alike has no one answer and is left out. The names of a place are on one side in all languages: a
test name is new, and so is its place. They stand place by place, so that the last tenth of the training names, which
is held out to choose by, is of places of its own too.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

from glassformer.data.text_extra import text_package
from glassformer.data.texts import Example, Texts

# Far enough apart that most names differ: not Danish beside Swedish and Norwegian.
LATIN = ("az", "de", "es", "fr", "ga", "hu", "is", "lt", "lv", "pl", "so", "sq", "tr", "zu")
OTHERS = ("ar", "el", "fa", "hi", "ja", "ka", "ko", "ne", "ru", "uk", "ur", "zh")
LANGUAGES = (*LATIN, *OTHERS)
NOT_PLACES = {"XA", "XB", "ZZ", "Etc/Unknown"}  # two made for testing programs, and those that mean `unknown`
SETTING = "[\u00ad\u200e\u200f]"  # where a word may be broken, and the direction of writing
HELD_OUT = 10  # one place of ten is for testing


def load_places(name: str, cache: Path | None = None) -> Texts:
    babel = text_package("babel", name)
    locales = [babel.Locale.parse(language) for language in LANGUAGES]
    names = [names_of(locale) for locale in locales]
    languages = Counter(spelling for places in names for spelling in set(map(key, places.values())))
    train: dict[str, Example] = {}
    test: dict[str, Example] = {}
    for code in sorted(set().union(*names), key=lot):
        side = test if lot(code) % HELD_OUT == 0 else train
        for label, places in enumerate(names):
            spelled = places.get(code, "")
            if languages[key(spelled)] == 1:
                side[key(spelled)] = Example(spelled, label=label)
    return Texts(
        name=name,
        train=tuple(example for spelled, example in train.items() if spelled not in test),
        test=tuple(test.values()),
        classes=tuple(locale.get_language_name("en") for locale in locales),
    )


def names_of(locale: Any) -> dict[str, str]:
    """By the code of the territory, DE, or of the time zone, Europe/Berlin."""
    cities = {zone: names["city"] for zone, names in locale.time_zones.items() if "city" in names}
    names = dict(locale.territories) | cities
    return {code: plain(name) for code, name in names.items() if code not in NOT_PLACES}


def plain(name: str) -> str:
    """Composed, and without what only tells a page how to be set."""
    return re.sub(SETTING, "", unicodedata.normalize("NFC", name))


def key(spelled: str) -> str:
    """What makes two spellings the same."""
    return spelled.casefold()


def lot(code: str) -> int:
    """A place's turn, the same whatever other places come or go; their order has nothing to do with language."""
    return int.from_bytes(hashlib.sha256(code.encode()).digest())
