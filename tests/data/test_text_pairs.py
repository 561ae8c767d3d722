"""Pairs of texts from files, and from Babel; every way in which a file can be wrong has its own words."""

from pathlib import Path

import pytest

from glassformer.data.names import LONGEST, load_names
from glassformer.data.places import key
from glassformer.data.text_sources import is_text, lasting_text_name, load_texts
from glassformer.errors import DataError


def written(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


CSV = 'prompt,answer\n"a, b",c\n\n d ,"e\nf"\ng,h\n'
TSV = '"a\tb\nc\td\n\ne\tf\n'
JSONL = '{"to": "b", "from": "a"}\n{"from": "c", "to": "d"}\n\n["e", "f"]\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("p.csv", CSV, [("a, b", "c"), ("d", "e\nf"), ("g", "h")]),
        ("p.csv", "Prompt,thing\nb,c\n", [("Prompt", "thing"), ("b", "c")]),
        ("p.csv", "\ufeffsource,target\r\na,b\r\nc,d\r\n", [("a", "b"), ("c", "d")]),
        ("p.tsv", TSV, [('"a', "b"), ("c", "d"), ("e", "f")]),
        ("p.jsonl", JSONL, [("b", "a"), ("d", "c"), ("e", "f")]),
    ],
)
def test_pairs_of_a_file(name: str, content: str, expected: list[tuple[str, str]], tmp_path: Path) -> None:
    path = written(tmp_path, name, content)
    texts = load_texts(path)
    assert [(one.text, one.target) for one in (*texts.train, *texts.test)] == expected
    assert len(texts.test) == 1
    assert is_text(path)
    assert lasting_text_name(path) == path


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (3, 1), (4, 2), (20, 2), (50, 5)])
def test_the_last_tenth_is_the_test_part(count: int, held_out: int, tmp_path: Path) -> None:
    texts = load_texts(written(tmp_path, "p.tsv", "".join(f"a{i}\tb{i}\n" for i in range(count))))
    assert [one.text for one in texts.test] == [f"a{i}" for i in range(count - held_out, count)]
    assert len(texts.train) == count - held_out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", "a,b\nc\n", "p.csv: line 2 has 1 column, expected two: a text and its partner"),
        ("p.csv", "a\nb\n", "p.csv: line 1 has 1 column, expected two"),
        ("p.csv", "a,b\nc,d, e\n", "line 2 has 3 columns, expected two: a text and its partner; a text with a comma"),
        ("p.csv", "a,b\n\nc,\n", "p.csv: line 3: its second text is empty; fill it in, or leave the line out"),
        ("p.tsv", "a\tb\n \td\n", "p.tsv: line 2: its first text is empty"),
        ("p.tsv", "a,b\nc,d\n", "p.tsv: line 1 has 1 column"),
        ("p.csv", "a,b\n", "p.csv: one pair of texts came, expected two or more, to train and to test"),
        ("p.csv", "prompt,answer\n", "p.csv: no pair of texts came, expected two or more"),
        ("p.csv", " \n", "p.csv: there is no text in it; expected two texts on each line"),
        ("p.csv", "a," + "b" * 200_000 + "\n", "p.csv: line 1: field larger than field limit"),
        ("p.jsonl", '["a", "b"]\n{"a": \n', "p.jsonl: line 2: damaged or cut short: not JSON"),
        ("p.jsonl", '{"a": "b", "c": 4}\n', 'line 1 holds {"a": "b", "c": 4}, expected two texts'),
        ("p.jsonl", '{"a": "b", "c": "d"}\n{"a": "b"}\n', "line 2 has 'a', the lines before 'a', 'c'; all must have"),
        ("p.jsonl", '"ab"\n', 'line 1 holds "ab", expected two texts'),
        ("p.jsonl", '["a", "b", "c"]\n', "line 1 has 3 columns, expected two"),
    ],
)
def test_what_is_no_file_of_pairs(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_texts(written(tmp_path, name, content))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "pairs"),
    [("a,b\nc,d\n", True), ("width,kind\n5.1,a\n", False), ("a,b,c\n", False), ("5,a\n6,b\n", False), ("", False)],
)
def test_a_table_of_numbers_is_no_text(content: str, pairs: bool, tmp_path: Path) -> None:
    assert is_text(written(tmp_path, "t.csv", content)) is pairs


def test_the_names_of_things() -> None:
    """No thing of the test part, and no spelling of it, is in training."""
    texts = load_names("names")
    assert len(texts.train) > 15_000
    assert 200 < len(texts.test) < 500
    sides = [{key(text) for one in part for text in (one.text, one.target)} for part in (texts.train, texts.test)]
    assert not sides[0] & sides[1]
    both = (*texts.train, *texts.test)
    assert all(one.text and one.target and key(one.text) != key(one.target) for one in both)
    assert max(len(text) for one in both for text in (one.text, one.target)) == LONGEST
