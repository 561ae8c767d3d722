"""How a tokeniser is made from texts: one symbol for each character, or byte pairs.

Characters   the alphabet of the training texts; any other character is <unk>
BytePairs    the 256 bytes, then again and again the commonest neighbours become one symbol, until there are `size`

Both keep every space, line end and combining mark, so decode(encode(text)) is the text. The words <pad>, <unk>, <start>
and <end> in a text are read as plain characters; <mask> and the marks of a data set as the symbols they are.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.data.text_extra import text_package
from glassformer.data.tokeniser import OWN, Tokeniser, refuse_half_characters
from glassformer.errors import DataError, SettingError
from glassformer.registry import register

BYTES = 256


@register.part("characters")
@dataclass(frozen=True)
class Characters:
    def train(self, texts: Iterable[str], marks: tuple[str, ...] = ()) -> Tokeniser:
        library = text_package("tokenizers", "a tokeniser of characters")
        check(marks)
        alphabet = sorted(set().union(*between(texts, marks)))
        if not alphabet:
            raise DataError("a tokeniser of characters: the training texts are empty; expected some text")
        vocabulary = {symbol: number for number, symbol in enumerate((*OWN, *marks, *alphabet))}
        inner = library.Tokenizer(library.models.WordLevel(vocabulary, unk_token="<unk>"))
        inner.pre_tokenizer = library.pre_tokenizers.Split(library.Regex(r"[\s\S]"), "isolated")
        inner.decoder = library.decoders.Fuse()
        return recognising(marks, inner)


@register.part("byte-pairs")
@dataclass(frozen=True)
class BytePairs:
    size: int = 1024  # symbols in all; fewer where the texts have no more pairs

    def train(self, texts: Iterable[str], marks: tuple[str, ...] = ()) -> Tokeniser:
        library = text_package("tokenizers", "a tokeniser of byte pairs")
        check(marks)
        least = len(OWN) + len(marks) + BYTES
        if self.size < least:
            raise SettingError(
                f"a tokeniser of byte pairs: size is {self.size}, expected {least} or more: "
                f"{BYTES} bytes, {len(OWN)} roles, {len(marks)} marks"
            )
        inner = library.Tokenizer(library.models.BPE())
        inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=self.size,
            special_tokens=[*OWN, *marks],
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        inner.train_from_iterator(between(texts, marks), trainer)
        return recognising(marks, inner)


def recognising(marks: tuple[str, ...], inner: Any) -> Tokeniser:
    """With <mask> and the marks as the only words that are found in a text before it is cut up."""
    library = text_package("tokenizers", "a tokeniser")
    inner = library.Tokenizer.from_str(json.dumps(json.loads(inner.to_str()) | {"added_tokens": []}))
    inner.add_special_tokens([library.AddedToken("<mask>", normalized=False, special=True)])
    inner.add_tokens([library.AddedToken(mark, normalized=False, special=False) for mark in marks])
    return Tokeniser(inner)


def between(texts: Iterable[str], marks: tuple[str, ...]) -> Iterator[str]:
    """The texts without their marks, which are symbols already: they shall not add to the alphabet or the pairs."""
    cuts = re.compile("|".join(map(re.escape, (*marks, "<mask>"))))
    for text in texts:
        refuse_half_characters(text)
        yield from cuts.split(text)


def check(marks: tuple[str, ...]) -> None:
    for mark in marks:
        if not re.fullmatch(r"[!-~]{2,}", mark):
            raise SettingError(f"a tokeniser: the mark {mark!r} cannot be used; expected ASCII without spaces: <de>")
        if mark in OWN or marks.count(mark) > 1:
            raise SettingError(f"a tokeniser: the mark {mark!r} is there already; choose another word")
