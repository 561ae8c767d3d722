"""Tokenisers: text that comes back unchanged, roles and marks, files that are not what they should be."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tokenizers

from glassformer.data.tokeniser import Tokeniser, load_tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError, FileError, SettingError, UnknownNameError

TEXTS = [
    "To be, or not to be:\n\tthat is  the question.\r\n\r\n",
    "<de> 3. März 2024 → 2024-03-03",
    "naïve cafe\u0301 \u00a0\u200b ﬁ Ǆ İ 日本語 हिन्दी 👩‍👩‍👧 \u2028\x00\x1c end ",
    "it says <pad> <unk> <start> <end> </s> [CLS] and <mask> here",
]
MARKS = ("<de>", "<en>")
MAKERS = [Characters(), BytePairs(size=300)]


@pytest.fixture(params=MAKERS, ids=lambda maker: type(maker).__name__)
def tokeniser(request: pytest.FixtureRequest) -> Tokeniser:
    return request.param.train(TEXTS, MARKS)


@pytest.mark.parametrize("text", [*TEXTS, "", " ", "\n\n\n", "e\u0301", "it ends "])
def test_text_comes_back_unchanged(tokeniser: Tokeniser, text: str) -> None:
    assert tokeniser.decode(tokeniser.encode(text)) == text


def test_bytes_know_every_character() -> None:
    tokeniser = BytePairs().train(["only these letters"])
    text = "".join(map(chr, [*range(0x3000), *range(0x1F300, 0x1F700), 0x10FFFF]))
    assert tokeniser.decode(tokeniser.encode(text)) == text
    assert tokeniser.unknown_in(text) == []
    assert tokeniser.size < 300, "no more pairs than the text has"


def test_characters_are_one_symbol_each() -> None:
    tokeniser = Characters().train(["ab\nba", " e\u0301"])
    assert tokeniser.size == 5 + len({"a", "b", "\n", " ", "e", "\u0301"})
    ids, spans = tokeniser.offsets("a\nb\u0301")
    assert ids == [7, 5, 8, 10], "after the roles, in the order of Unicode"
    assert spans == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert [tokeniser.symbol(number) for number in ids] == ["a", "\n", "b", "\u0301"]


def test_unknown_characters_are_named_once_and_in_order() -> None:
    tokeniser = Characters().train(["abc <de>"], ("<de>",))
    assert tokeniser.unknown_in("zab<de>yz") == ["z", "y"]
    assert tokeniser.unknown_in("d"), "the letters of a mark are no letters of the text"
    assert tokeniser.encode("z") == [tokeniser.id_of("unknown")]
    assert tokeniser.decode(tokeniser.encode("azc")) == "a<unk>c"


def test_byte_pairs_join_the_commonest_neighbours() -> None:
    """By hand: of `aaab aaab aaac` the pair `aa` is the commonest, so it is the first symbol after the bytes."""
    tokeniser = BytePairs(size=5 + 256 + 1).train(["aaab aaab aaac"])
    assert tokeniser.size == 262
    assert tokeniser.symbol(261) == "aa"
    assert tokeniser.encode("aaaa") == [261, 261]


def test_byte_pairs_have_places_in_characters() -> None:
    tokeniser = BytePairs(size=300).train(TEXTS)
    text = "日本 the"
    ids, spans = tokeniser.offsets(text)
    assert len(ids) == len(spans)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert {at for start, end in spans for at in range(start, end)} == set(range(len(text)))


def test_roles_are_the_first_five_and_marks_follow(tokeniser: Tokeniser) -> None:
    assert [tokeniser.id_of(role) for role in ("pad", "unknown", "start", "end", "mask")] == [0, 1, 2, 3, 4]
    assert tokeniser.encode("<de>") == [5]
    assert tokeniser.encode("<en>") == [6]
    assert tokeniser.encode("<mask>") == [4]
    with pytest.raises(UnknownNameError, match="no role is called 'begin'; known: pad, unknown, start, end, mask"):
        tokeniser.id_of("begin")


def test_decode_drops_padding_start_and_end_only(tokeniser: Tokeniser) -> None:
    word = tokeniser.encode("be")
    assert tokeniser.decode([2, 5, *word, 4, *word, 3, 0, 0]) == "<de>be<mask>be"


def test_a_text_cannot_forge_padding_or_an_end(tokeniser: Tokeniser) -> None:
    assert not {0, 2, 3} & set(tokeniser.encode("<pad><start><end>"))


def test_saved_and_read_again_it_is_the_same(tokeniser: Tokeniser, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokeniser.to_json())
    again = load_tokeniser(path)
    assert again.size == tokeniser.size
    for text in TEXTS:
        assert again.encode(text) == tokeniser.encode(text)
        assert again.decode(again.encode(text)) == text
    assert again.to_json() == tokeniser.to_json()


@pytest.mark.parametrize("maker", MAKERS, ids=str)
def test_training_again_gives_the_same_file(maker: Characters | BytePairs) -> None:
    assert maker.train(iter(TEXTS), MARKS).to_json() == maker.train(TEXTS, MARKS).to_json()


SPELLED = {
    "BERT": (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], [0, 1, 2, 3, 4]),
    "T5": (["<pad>", "</s>", "<unk>"], [0, 2, None, 1, None]),
    "GPT-2": (["<|endoftext|>"], [None, None, 0, 0, None]),
}


@pytest.mark.parametrize(("words", "expected"), SPELLED.values(), ids=SPELLED)
def test_the_roles_of_others_by_their_usual_spellings(words: list[str], expected: list[int | None]) -> None:
    vocabulary = {word: number for number, word in enumerate([*words, "hello"])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="hello"))
    tokeniser = Tokeniser(inner)
    assert [tokeniser.id_of(role) for role in ("pad", "unknown", "start", "end", "mask")] == expected


def test_files_of_others_that_cut_pad_or_wrap_texts_do_so_no_more() -> None:
    vocabulary = {"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "a": 4, "b": 5}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    inner.enable_truncation(3)
    inner.enable_padding(length=9)
    tokeniser = Tokeniser.from_json(inner.to_str(), "theirs")
    assert tokeniser.encode("a b a b a") == [4, 5, 4, 5, 4]
    assert tokeniser.unknown_in("a word or b word") == ["word", "or"]
    assert tokeniser.decode([1, 4, 5, 2, 0]) == "a b"


def test_whole_books_are_encoded_in_seconds(tokeniser: Tokeniser) -> None:
    text = "\n".join(TEXTS) * 2_500
    assert len(text) > 400_000
    start = time.process_time()
    ids = tokeniser.encode(text)
    assert time.process_time() - start < 5, "a cost that grows with the square would take minutes"
    assert tokeniser.decode(ids) == text


GOOD = Characters().train(TEXTS).to_json()
BAD = {
    "missing": (None, FileError, r"tokenizer\.json: there is no such file"),
    "empty": (b" \n", DataError, r"tokenizer\.json: it is empty; copy it again"),
    "cut short": (
        GOOD[: len(GOOD) // 2].encode(),
        DataError,
        r"damaged or cut short: not JSON .*line \d+ column .*copy it again",
    ),
    "not JSON": (b"<html>", DataError, r"not JSON .*line 1 column 1 .*; copy it again, or train one anew"),
    "a picture": (b"\x89PNG\xff", FileError, r"damaged: not UTF-8 text"),
    "deep": (b"[" * 100_000, DataError, r"not JSON .*maximum recursion depth exceeded"),
    "a list": (b"[1, 2]", DataError, r"not a tokeniser: it has no `model`; expected a tokenizer\.json"),
    "a model's config": (b'{"model_type": "bert"}', DataError, r"not a tokeniser: it has no `model`"),
    "another model": (b'{"model": {"type": "Magic"}}', DataError, r"not a tokeniser that can be read: "),
    "a newer one": (
        json.dumps(json.loads(GOOD) | {"version": "9.0"}).encode(),
        DataError,
        r"not a tokeniser that can be read: Unknown tokenizer version '9\.0'",
    ),
}


@pytest.mark.parametrize(("content", "error", "message"), BAD.values(), ids=BAD)
def test_files_that_are_no_tokeniser(content: bytes | None, error: type, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message) as caught:
        load_tokeniser(path)
    assert str(caught.value).startswith(str(path))


def test_a_folder_is_no_tokeniser(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read: Is a directory"):
        load_tokeniser(tmp_path)


@pytest.mark.parametrize("maker", MAKERS, ids=str)
@pytest.mark.parametrize(
    ("marks", "message"),
    [
        (("<pad>",), "the mark '<pad>' is there already; choose another word"),
        (("<a>", "<a>"), "the mark '<a>' is there already"),
        (("<ü>",), "the mark '<ü>' cannot be used; expected ASCII without spaces"),
        (("a b",), "the mark 'a b' cannot be used"),
        (("",), "the mark '' cannot be used"),
    ],
)
def test_marks_that_cannot_be_used(maker: Characters | BytePairs, marks: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        maker.train(TEXTS, marks)


def test_what_cannot_be_trained() -> None:
    with pytest.raises(SettingError, match="size is 262, expected 263 or more: 256 bytes, 5 roles, 2 marks"):
        BytePairs(size=262).train(TEXTS, MARKS)
    with pytest.raises(DataError, match="the training texts are empty"):
        Characters().train(["", ""])


def test_half_a_character_is_refused(tokeniser: Tokeniser) -> None:
    message = r"the text is not Unicode: character 2, '\\ud83d', is half of one; read the file as UTF-8"
    with pytest.raises(DataError, match=message):
        tokeniser.encode("ab\ud83d")
    for maker in MAKERS:
        with pytest.raises(DataError, match=message):
            maker.train(["ab\ud83d"])


def test_without_the_package_the_message_says_what_to_install() -> None:
    code = """
import sys
sys.modules["tokenizers"] = sys.modules["jax"] = None  # importing them now fails
from glassformer.data.tokeniser import Tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError
read = lambda: Tokeniser.from_json("{}", "here")
for attempt in (read, lambda: BytePairs().train([]), lambda: Characters().train([])):
    try:
        attempt()
    except DataError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.endswith("tokenizers is not installed; pip install 'glassformer[text]'") for line in lines)
