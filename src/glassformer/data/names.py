"""names: what a country, language, currency or script is called in one language, and in another: Germany, Allemagne.

Names are those of CLDR, by way of Babel, in the 26 languages of `places`. The languages of a thing, in an order of its
own, form a ring: each name is paired with that of the next language, so that it is once a first text and once a second.
Names that both spell alike are left out, and long ones. All names of a thing are on one side: of a test thing no name
is in training, and its names make one pair, so that there is one partner to find.
"""

from pathlib import Path
from typing import Any

from glassformer.data.places import LANGUAGES, NOT_PLACES, key, lot, plain
from glassformer.data.text_extra import text_package
from glassformer.data.texts import Example, Texts

HELD_OUT = 5  # one thing of five is for testing
LONGEST = 24  # characters of a name: of twenty, one is longer
KINDS = ("territories", "languages", "currencies", "scripts")  # of a locale of Babel


def load_names(name: str, cache: Path | None = None) -> Texts:
    babel = text_package("babel", name)
    names = [names_of(babel.Locale.parse(language)) for language in LANGUAGES]
    train, test = [], []
    for code in sorted(set().union(*names), key=lot):
        spelled = [places[code] for places in names if code in places]
        ring = pairs_in(sorted(dict.fromkeys(spelled), key=lambda one: lot(f"{code} {one}")))
        if lot(code) % HELD_OUT == 0:
            test += ring[:1]
        else:
            train += ring
    known = {key(text) for pair in test for text in (pair.text, pair.target)}
    kept = [pair for pair in train if not {key(pair.text), key(pair.target)} & known]
    return Texts(name=name, train=tuple(kept), test=tuple(test))


def names_of(locale: Any) -> dict[str, str]:
    """By kind and code: `territories DE`."""
    return {
        f"{kind} {code}": plain(spelled)
        for kind in KINDS
        for code, spelled in getattr(locale, kind).items()
        if code not in NOT_PLACES
        and len(spelled) <= LONGEST
        and key(spelled) != key(code)  # what has no name is called by its code
    }


def pairs_in(ring: list[str]) -> list[Example]:
    following = [*ring[1:], *ring[:1]]
    return [Example(a, target=b) for a, b in zip(ring, following, strict=True) if key(a) != key(b)]
