"""Texts by name and by path: what is in them, that test and training share nothing, and what bad input is told."""

import functools
import hashlib
import http.server
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel import Locale

from glassformer.data import download, shakespeare
from glassformer.data.places import LANGUAGES
from glassformer.data.pydoc import tidy, unrepeated
from glassformer.data.text_sources import KNOWN_TEXTS, is_text, lasting_text_name, load_texts
from glassformer.data.texts import Texts
from glassformer.errors import DataError, UnknownNameError

NOWHERE = "http://127.0.0.1:9/"  # port 9: nothing listens there


def characters(texts: Texts) -> tuple[int, int]:
    train, test = (sum(len(each.text) for each in part) for part in (texts.train, texts.test))
    return train, test


def test_pydoc_has_prose_and_code_and_no_rows_of_stars() -> None:
    texts = load_texts("pydoc")
    assert texts.name == "pydoc"
    train, test = characters(texts)
    assert train > 250_000
    assert 0.05 < test / (train + test) < 0.2
    written = "\n".join(example.text for example in (*texts.train, *texts.test))
    assert 'The "while" statement' in written
    assert "   >>> " in written
    assert not re.search(r"^(\*+|=+|-+)$", written, re.MULTILINE)
    assert not re.search(r"[ \t]$", written, re.MULTILINE)


def test_pydoc_tests_on_paragraphs_that_are_not_in_training() -> None:
    texts = load_texts("pydoc")
    paragraphs = [
        {paragraph for example in part for paragraph in example.text.split("\n\n") if len(paragraph) >= 40}
        for part in (texts.train, texts.test)
    ]
    assert len(paragraphs[1]) > 50
    assert paragraphs[0] & paragraphs[1] == set()


def test_a_paragraph_stays_in_the_shortest_topic_that_has_it() -> None:
    quoted, own = "a paragraph that stands in two of the topics", "another that stands only in the longer of the two"
    kept = unrepeated(
        {"long": f"Long\n\n{quoted}\n\n{own}", "short": f"Short\n\n{quoted}", "copy": f"Copy\n\n{quoted}"}
    )
    assert kept == {"copy": f"Copy\n\n{quoted}", "short": "", "long": f"Long\n\n{own}"}


def test_tidy_takes_markup_and_leaves_code() -> None:
    code, row = "   >>> '-' * 7\n   -------", "| a        | b        |"
    came = f"Heading\n*******\n\n\n\ntext  \n\n{code}\n\n+----------+----------+\n{row}\n"
    assert tidy(came) == f"Heading\n\ntext\n\n{code}\n\n{row}"


@pytest.fixture(scope="module")
def places() -> Texts:
    return load_texts("places")


def test_places_have_enough_names_of_every_language(places: Texts) -> None:
    assert places.classes == tuple(Locale.parse(language).get_language_name("en") for language in LANGUAGES)
    assert len(places.classes) == 26
    assert {"German", "Russian", "Hindi", "Zulu"} < set(places.classes)
    last_tenth = places.train[len(places.train) * 9 // 10 :]  # what training holds out to choose by
    for part, least in ((places.train, 150), (places.test, 20), (last_tenth, 8)):
        counts = Counter(example.label for example in part)
        assert sorted(counts) == list(range(26))
        assert min(counts.values()) >= least
    assert 0.05 < len(places.test) / len(places.train) < 0.2


def test_a_name_of_a_place_has_one_answer_and_is_on_one_side(places: Texts) -> None:
    train, test = ([example.text.casefold() for example in part] for part in (places.train, places.test))
    assert max(Counter(train + test).values()) == 1


def test_a_place_is_on_one_side_in_all_languages(places: Texts) -> None:
    """Asked of Babel itself: the territories whose names come in the test, in any language, and in training."""
    sides: dict[str, set[str]] = {"train": set(), "test": set()}
    for side, part in (("train", places.train), ("test", places.test)):
        spelled = {(LANGUAGES[example.label], example.text) for example in part}
        for language in LANGUAGES:
            locale = Locale.parse(language)
            cities = {names["city"] for names in locale.time_zones.values() if "city" in names}
            names = {code: name for code, name in locale.territories.items() if name not in cities}
            sides[side] |= {code for code, name in names.items() if (language, name) in spelled}
    assert len(sides["test"]) > 20
    assert sides["train"] & sides["test"] == set()


def test_places_come_from_babel_as_it_spells_them(places: Texts) -> None:
    found = {example.text: places.classes[example.label] for example in (*places.train, *places.test)}
    assert found["Österreich"] == "German"
    assert found["Niemcy"] == "Polish"
    assert found["ドイツ"] == "Japanese"
    assert "Unbekannte Region" not in found
    assert "Japan" not in found or found["Japan"] == "German"


def test_the_about_of_the_dates_says_how_many_languages_there_are() -> None:
    texts = load_texts("dates")
    assert KNOWN_TEXTS["dates"].about.startswith(f"dates in {len(texts.marks)} languages")


PLAYS = "".join(f"First Citizen:\nSpeak, speak {i}.\n\n" for i in range(40))


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A mirror with another, small file, whose checksum is taken for the published one."""
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "input.txt").write_text(PLAYS)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(shakespeare, "SHA256", hashlib.sha256(PLAYS.encode()).hexdigest())
    handler = functools.partial(Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def mirrors(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    monkeypatch.setitem(download.MIRRORS, "tiny-shakespeare", addresses)


def test_shakespeare_is_fetched_once_and_divided_at_nine_tenths(address, monkeypatch, tmp_path) -> None:
    cache = tmp_path / "cache"
    mirrors(monkeypatch, NOWHERE, address)
    assert not KNOWN_TEXTS["tiny-shakespeare"].is_here("tiny-shakespeare", cache)
    texts = load_texts("tiny-shakespeare", cache=cache)
    assert texts.train[0].text + texts.test[0].text == PLAYS
    assert len(texts.train[0].text) == int(0.9 * len(PLAYS))
    assert KNOWN_TEXTS["tiny-shakespeare"].is_here("tiny-shakespeare", cache)
    mirrors(monkeypatch, NOWHERE)
    assert load_texts("tiny-shakespeare", cache=cache) == texts


def test_another_file_than_the_published_one_is_refused(address, monkeypatch, tmp_path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    mirrors(monkeypatch, address)
    with pytest.raises(DataError) as caught:
        load_texts("tiny-shakespeare", cache=tmp_path / "cache")
    came = hashlib.sha256(PLAYS.encode()).hexdigest()
    assert str(caught.value).splitlines() == [
        "tiny-shakespeare: input.txt could not be fetched:",
        f"  {address}input.txt: sha256 {came}, expected {shakespeare.SHA256}: not the published text",
        f"Without a network, put input.txt into {tmp_path / 'cache/tiny-shakespeare'}",
        "or use pydoc, which comes with Python",
    ]
    mine = tmp_path / "cache/tiny-shakespeare/input.txt"
    mine.write_text(PLAYS)
    with pytest.raises(DataError, match=r"input\.txt: sha256 .* delete it to fetch it, or give its path to use it"):
        load_texts("tiny-shakespeare", cache=tmp_path / "cache")
    assert mine.read_text() == PLAYS


def test_a_text_file_keeps_its_last_lines_for_testing(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    text = "".join(f"line {i}: größer\n" for i in range(100))
    path.write_text(text)
    texts = load_texts(str(path))
    assert texts.name == str(path)
    assert texts.train[0].text + texts.test[0].text == text
    assert texts.train[0].text.endswith("\n")
    assert 0.08 < len(texts.test[0].text) / len(text) < 0.12


def test_files_from_windows_and_files_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"\xef\xbb\xbf" + b"first\r\nsecond\r\n" * 20)
    texts = load_texts(str(path))
    assert texts.train[0].text + texts.test[0].text == "first\nsecond\n" * 20
    path.write_text("word " * 200)
    assert [len(part[0].text) for part in (load_texts(str(path)).train, load_texts(str(path)).test)] == [900, 100]


BAD = {
    "empty": (b"", r"there is no text in it; expected 100 characters or more"),
    "blank": (b" \n\t\n" * 100, r"there is no text in it"),
    "too short": (b"hello\n", r"6 characters are too short to learn from; expected 100 or more"),
    "not UTF-8": ("größer\n".encode("latin1") * 100, r"not UTF-8: byte 2 is 0xf6; expected a text file in UTF-8: save"),
    "cut in a character": (("ö" * 100).encode()[:-1], r"not UTF-8: byte 198 is 0xc3"),
    "a program": (b"\x7fELF" + bytes(200), r"not a text: character 4 is NUL"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_files_that_are_no_text(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load_texts(str(path))
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "pydco",
            UnknownNameError,
            "no text is called 'pydco' (did you mean 'pydoc'?); known: pydoc, tiny-shakespeare",
        ),
        ("", UnknownNameError, "no text is called ''; known: pydoc"),
        ("a" * 5000, UnknownNameError, "no text is called 'aaa"),
        ("~nobody-of-this-name", UnknownNameError, "no text is called '~nobody-of-this-name'"),
        ("gone.txt", DataError, "gone.txt: there is no such file; expected a text file in UTF-8"),
        ("./pydoc", DataError, "./pydoc: there is no such file"),
        (
            "mnist",
            DataError,
            "mnist: it holds images, not text; of text there are pydoc, tiny-shakespeare, dates, places",
        ),
    ],
)
def test_words_that_lead_to_no_text(name: str, error: type, message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        load_texts(name)
    assert not is_text(name)


def test_folders_and_arrays_are_no_texts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"it is a folder; expected a text file in UTF-8"):
        load_texts(str(tmp_path))
    path = tmp_path / "data.npz"
    path.write_text("1,2\n" * 100)
    with pytest.raises(DataError, match=r"it holds arrays, not text"):
        load_texts(str(path))
    assert not is_text(str(path))


def test_what_a_run_writes_down_means_the_same_from_any_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("line\n" * 100)
    assert is_text("notes.txt")
    assert is_text("pydoc")
    assert lasting_text_name("notes.txt") == str(tmp_path / "notes.txt")
    assert lasting_text_name("pydoc") == "pydoc"


def test_the_texts_import_without_jax_babel_or_tokenizers() -> None:
    code = """
import sys
for name in ("jax", "pooch", "babel", "tokenizers", "typer", "rich", "pydantic"):
    sys.modules[name] = None  # importing it now fails
from glassformer.data.text_sources import KNOWN_TEXTS, load_texts
from glassformer.errors import DataError
assert len(load_texts("pydoc").train) > 20
assert not KNOWN_TEXTS["places"].is_here("places", None)
try:
    load_texts("places")
except DataError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    message = "places: the Python package babel is not installed; pip install 'glassformer[text]'\n"
    assert done.stdout == message
