"""A tokeniser: text to the numbers of its symbols and back, as one tokenizer.json of the `tokenizers` package.

encode     text -> ids, exactly the text: nothing is put before or behind it
decode     ids -> text, less padding, start and end; marks, <mask> and <unk> are shown

Roles are the symbols with a duty of their own. Those that are trained here have all five, as ids 0 to 4; of others
the usual spellings are known. Training one: tokeniser_training.py.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.data.chat_template import ChatTemplate
from glassformer.data.text_extra import text_package
from glassformer.errors import DataError, FileError, UnknownNameError
from glassformer.reading import parse_json, read_text

OWN = ("<pad>", "<unk>", "<start>", "<end>", "<mask>")  # ids 0 to 4
SPELLINGS = {  # ours, BERT's, T5's and RoBERTa's, GPT-2's
    "pad": ("<pad>", "[PAD]"),
    "unknown": ("<unk>", "[UNK]"),
    "start": ("<start>", "[CLS]", "<s>", "<|endoftext|>"),
    "end": ("<end>", "[SEP]", "</s>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}
UNSEEN = ("pad", "start", "end")  # decode drops them
MOST_SYMBOLS = 1 << 24  # the largest tokenisers have a quarter of a million
AGAIN = "copy it again, or train one anew"
Spans = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Tokeniser:
    inner: Any = field(repr=False)  # a tokenizers.Tokenizer
    chat: ChatTemplate | None = field(default=None, repr=False)  # how conversations become text; None: nothing says

    def __post_init__(self) -> None:
        self.inner.no_truncation()  # files of others may ask for it: a text would lose its end without a word
        self.inner.no_padding()

    @property
    def size(self) -> int:
        """How many symbols there are; ids go from 0 to size - 1."""
        return self.inner.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        return self._encoding(text).ids

    def encode_long(self, text: str) -> list[int]:
        """The same in half the time, by threads of the library's own."""
        return self._encoding(text, lambda text, **how: self.inner.encode_batch_fast([text], **how)[0]).ids

    def offsets(self, text: str) -> tuple[list[int], Spans]:
        """The ids, and for each the characters it stands for: text[start:end].

        A byte pair may carry the space before it, and the bytes of one character all have that character's place.
        """
        encoding = self._encoding(text)
        return encoding.ids, encoding.offsets

    def decode(self, ids: Iterable[int]) -> str:
        shown = [number for number in map(int, ids) if number not in self._unseen]
        return self.inner.decode(shown, skip_special_tokens=False)

    def id_of(self, role: str) -> int | None:
        """The id of pad, unknown, start, end or mask; None where this tokeniser has no such symbol."""
        if role not in self._roles:
            raise UnknownNameError(f"tokeniser: no role is called {role!r}; known: {', '.join(SPELLINGS)}")
        return self._roles[role]

    @cached_property
    def ends(self) -> frozenset[int]:
        """The tokens by which writing ends: <end>, and those that end a turn of a conversation."""
        found = {self.id_of("end"), *(() if self.chat is None else self.chat.ends)}
        return frozenset(number for number in found if number is not None)

    def symbol(self, number: int) -> str:
        """How one symbol is spelled in text; a lone byte of a longer character shows as �."""
        return self.inner.decode([int(number)], skip_special_tokens=False)

    def unknown_in(self, text: str) -> list[str]:
        """The characters or words of the text that have no symbol, each once, in order."""
        unknown = self.id_of("unknown")
        ids, spans = self.offsets(text)
        missing = [text[start:end] for number, (start, end) in zip(ids, spans, strict=True) if number == unknown]
        return list(dict.fromkeys(missing))

    def to_json(self) -> str:
        return self.inner.to_str()

    @classmethod
    def from_json(cls, text: str, where: str, chat: ChatTemplate | None = None) -> "Tokeniser":
        """`where` is the file, or whatever else the text came from, for messages."""
        library = text_package("tokenizers", where)
        try:
            content = parse_json(text, where, DataError)
        except DataError as error:
            raise DataError(f"{error}; {AGAIN}") from None
        if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
            raise DataError(f"{where}: not a tokeniser: it has no `model`; expected a tokenizer.json")
        with library_errors(f"{where}: not a tokeniser that can be read", AGAIN):
            found = cls(library.Tokenizer.from_str(text), chat)
        if (largest := max(found.inner.get_vocab().values(), default=0)) >= MOST_SYMBOLS:
            raise DataError(
                f"{where}: a symbol has the number {largest:,}, expected less than {MOST_SYMBOLS:,}; {AGAIN}"
            )
        return found

    def _encoding(self, text: str, encode: Any = None) -> Any:
        refuse_half_characters(text)
        with library_errors("the tokeniser cannot encode this text", "bring one that has a symbol for the unknown"):
            return (encode or self.inner.encode)(text, add_special_tokens=False)

    @cached_property
    def _roles(self) -> dict[str, int | None]:
        found = {role: [self.inner.token_to_id(word) for word in words] for role, words in SPELLINGS.items()}
        return {role: next((number for number in ids if number is not None), None) for role, ids in found.items()}

    @cached_property
    def _unseen(self) -> set[int | None]:
        return {self._roles[role] for role in UNSEEN}


def load_tokeniser(path: Path, chat: ChatTemplate | None = None) -> Tokeniser:
    """From a tokenizer.json: of a run folder, or of a model from elsewhere."""
    text = read_text(path, error=FileError)
    if not text.strip():
        raise DataError(f"{path}: it is empty; {AGAIN}")
    return Tokeniser.from_json(text, str(path), chat)


@contextmanager
def library_errors(what: str, advice: str) -> Iterator[None]:
    """Say what went wrong, and what to do: the library raises nothing narrower than Exception."""
    try:
        yield
    except Exception as error:
        raise DataError(f"{what}: {error}; {advice}") from None


def refuse_half_characters(text: str) -> None:
    """Half of a surrogate pair is no character: no encoding of Unicode can write it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"the text is not Unicode: character {error.start}, {text[error.start]!a}, is half of one; "
            "read the file as UTF-8"
        ) from None
