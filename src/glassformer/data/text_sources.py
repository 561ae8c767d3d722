"""Every source of text by one word: a known name, or the path of a text file, of pairs or of conversations."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from glassformer.data import shakespeare
from glassformer.data.conversations import holds_conversations, load_conversations
from glassformer.data.names import load_names
from glassformer.data.places import load_places
from glassformer.data.pydoc import load_pydoc
from glassformer.data.sources import KNOWN, always, own_reader
from glassformer.data.text_extra import INSTALL
from glassformer.data.text_file import load_text_file
from glassformer.data.text_pairs import ENDINGS, holds_pairs, load_text_pairs
from glassformer.data.texts import Texts
from glassformer.errors import DataError, UnknownNameError
from glassformer.reading import expanded

ACCEPTED = "a text file in UTF-8, pairs of texts (.csv, .tsv, .jsonl) or conversations (.jsonl)"
NOT_TEXT = {".npz": "arrays"}


def load_dates(name: str, cache: Path | None = None) -> Texts:
    from glassformer.data.dates import load_dates

    return load_dates(name, cache)


def with_babel(name: str, cache: Path | None = None) -> bool:
    return importlib.util.find_spec("babel") is not None


class KnownText(NamedTuple):
    about: str
    where: str  # it comes from; nothing: a folder of the cache
    otherwise: str  # how to get it
    load: Callable[[str, Path | None], Texts]
    is_here: Callable[[str, Path | None], bool]  # so that `load` needs no network


KNOWN_TEXTS = {
    "pydoc": KnownText("English and code: the chapters of Python's help", "Python", "", load_pydoc, always),
    "tiny-shakespeare": KnownText(
        "English: plays",
        "",
        "`glassformer data get tiny-shakespeare` fetches 1 MB",
        shakespeare.load_shakespeare,
        shakespeare.in_cache,
    ),
    "dates": KnownText("dates in 60 languages, to be made ISO dates", "Babel", INSTALL, load_dates, with_babel),
    "places": KnownText("names of places, in which of 26 languages", "Babel", INSTALL, load_places, with_babel),
    "names": KnownText("pairs: a name in one of 26 languages, in another", "Babel", INSTALL, load_names, with_babel),
}


def load_texts(name: str, *, cache: Path | None = None) -> Texts:
    """A known name, fetched into the cache folder where it is not there yet, or the path of a text file.

    >>> texts = load_texts("pydoc")
    >>> texts.train[0].text.splitlines()[0]
    'The "assert" statement'
    """
    if read := own_reader(name):
        return read(name)
    if name in KNOWN_TEXTS:
        return KNOWN_TEXTS[name].load(name, cache)
    if name in KNOWN:
        raise DataError(f"{name}: it holds images, not text; of text there are {', '.join(KNOWN_TEXTS)}, or a path")
    path = existing(name)
    if path is None:
        raise unknown(name)
    if path.is_dir():
        raise DataError(f"{name}: it is a folder; expected {ACCEPTED}")
    if path.suffix in NOT_TEXT:
        raise DataError(f"{name}: it holds {NOT_TEXT[path.suffix]}, not text; expected {ACCEPTED}")
    if path.suffix == ".jsonl" and holds_conversations(path):
        return load_conversations(name, path)
    return (load_text_pairs if path.suffix in ENDINGS else load_text_file)(name, path)


def is_text(name: str) -> bool:
    """Whether the word is one for `load_texts`, rather than for `load`."""
    if name in KNOWN or name in KNOWN_TEXTS:
        return name in KNOWN_TEXTS
    path = existing(name)
    if path is None or not path.is_file() or path.suffix in NOT_TEXT:
        return False
    return path.suffix != ".csv" or holds_pairs(path)


def existing(name: str) -> Path | None:
    """The file or folder of that path; none for words that cannot be a path, or that name nobody's home."""
    try:
        path = expanded(name)
        return path if name and path.exists() else None
    except (OSError, ValueError):  # too long, or with NUL in it
        return None


def lasting_text_name(name: str) -> str:
    """The word that a run writes down: it means the same from any folder."""
    return name if name in KNOWN_TEXTS else str(expanded(name).absolute())


def unknown(name: str) -> Exception:
    from glassformer.names import nearest  # here, because it brings JAX along

    if "/" in name or Path(name).suffix:
        return DataError(f"{name}: there is no such file; expected {ACCEPTED}")
    return UnknownNameError(
        f"no text is called {name!r}{nearest(name, list(KNOWN_TEXTS))}; known: {', '.join(KNOWN_TEXTS)}; "
        f"or a path: {ACCEPTED}"
    )
