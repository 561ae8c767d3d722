"""The tokeniser of a Hugging Face folder, as the text of one tokenizer.json, in and out.

Older folders have its parts in files of their own: vocab.json and merges.txt (byte pairs, GPT-2 and RoBERTa), or
vocab.txt (pieces of words, BERT and DistilBERT). They are put together as transformers does it.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data.text_extra import text_package
from glassformer.data.tokeniser import MOST_SYMBOLS, Tokeniser
from glassformer.errors import CheckpointError, GlassformerError, SettingError
from glassformer.hub import settings
from glassformer.hub.safe_files import file_in, json_in, read_json, read_text

TOKENISER, CONFIG = "tokenizer.json", "tokenizer_config.json"
PIECES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
CONVERT = "load it with transformers and save it again, with save_pretrained, as tokenizer.json"
END = "<|endoftext|>"  # GPT-2's only symbol with a duty
UNKNOWN, START, STOP, OTHERS = "[UNK]", "[CLS]", "[SEP]", ("[PAD]", "[MASK]")  # BERT's
ROBERTA = ("<s>", "</s>", "<pad>", "<unk>", "<mask>")


class Frame(NamedTuple):
    """The special symbols around texts: templates as the library has them, with roles in braces."""

    single: str
    pair: str
    roles: tuple[str, ...]


BERT_FRAME = Frame("{start}:0 $A:0 {end}:0", "{start}:0 $A:0 {end}:0 $B:1 {end}:1", ("start", "end"))
ROBERTA_FRAME = Frame("{start}:0 $A:0 {end}:0", "{start}:0 $A:0 {end}:0 {end}:0 $B:0 {end}:0", ("start", "end"))


@dataclass(frozen=True)
class SpecialTokens:
    """How a format calls the symbols of a tokeniser that have a role."""

    numbers: dict[str, str]  # in config.json: the role of each
    names: dict[str, str] = field(default_factory=lambda: {"bos_token": "start", "eos_token": "end"})
    frame: Frame | None = None  # None: texts stand alone
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    padding: Callable[[Any], int | None] = lambda model: None  # its number, where the model's positions begin behind it

    def check(self, model: Any, tokeniser: Tokeniser) -> None:
        """Refuse a tokeniser that pads with another symbol than the model counts with."""
        came, expected = tokeniser.id_of("pad"), self.padding(model)
        if None not in (came, expected) and came != expected:
            raise SettingError(
                f"pad_token_id: the tokeniser pads with {came}, the model with {expected}, behind which its positions "
                "begin (model.first_position is one more); take the tokeniser that belongs to it"
            )


def read_tokeniser(folder: Path) -> Tokeniser | None:
    """None where the folder has none."""
    whole = file_in(folder, TOKENISER)
    if whole is not None:
        return Tokeniser.from_json(read_text(whole), str(whole))
    vocabulary, merges = file_in(folder, "vocab.json"), file_in(folder, "merges.txt")
    words = file_in(folder, "vocab.txt")
    if (vocabulary is None) != (merges is None):
        raise CheckpointError(f"{folder}: of vocab.json and merges.txt only one is there; byte pairs need both")
    if vocabulary is None and words is None:
        refuse_pieces(folder)
        return None
    if json_in(folder, "added_tokens.json"):
        raise CheckpointError(f"{folder / 'added_tokens.json'}: adds symbols to the tokeniser; {CONVERT}")
    config = json_in(folder, CONFIG) or {}
    library = text_package("tokenizers", str(folder))
    try:
        if vocabulary is not None and merges is not None:
            return Tokeniser(byte_pairs(library, vocabulary, merges, config))
        assert words is not None
        return Tokeniser(word_pieces(library, words, config))
    except GlassformerError:
        raise
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(f"{vocabulary or words}: not a vocabulary that can be read: {error}") from None


def refuse_pieces(folder: Path) -> None:
    for name in PIECES:
        if file_in(folder, name) is not None:
            raise CheckpointError(f"{folder / name}: a tokeniser of sentence pieces, which is not read; {CONVERT}")


def byte_pairs(library: Any, vocabulary: Path, merges: Path, config: dict[str, Any]) -> Any:
    numbers, lines = read_json(vocabulary), read_text(merges).split("\n")
    pairs = [tuple(line.rstrip("\r").split(" ")) for line in lines if line.strip() and not line.startswith("#version")]
    for pair in pairs:
        if len(pair) != 2:
            raise CheckpointError(f"{merges}: {settings.shown(' '.join(pair))} came, expected two symbols in a line")
    for word, number in numbers.items():
        if type(number) is not int or not 0 <= number < MOST_SYMBOLS:
            came = f"{settings.shown(word)} has the number {settings.shown(number)}"
            raise CheckpointError(f"{vocabulary}: {came}, expected a whole one below {MOST_SYMBOLS:,}")
    inner = library.Tokenizer(library.models.BPE(numbers, pairs))
    spaced = settings.yes(config, "add_prefix_space", False)
    inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    inner.decoder = library.decoders.ByteLevel()
    inner.post_processor = library.processors.ByteLevel(trim_offsets=False)
    if numbers.keys() >= {*ROBERTA}:
        inner.add_special_tokens([library.AddedToken(word, normalized=False, special=True) for word in ROBERTA])
        inner.post_processor = framing(library, ROBERTA_FRAME, ROBERTA[:2], numbers.__getitem__)
    elif END in numbers:
        inner.add_special_tokens([library.AddedToken(END, normalized=True, special=True)])
    return inner


def word_pieces(library: Any, words: Path, config: dict[str, Any]) -> Any:
    lines = [line.rstrip("\r") for line in read_text(words).split("\n")]
    numbers = {line: number for number, line in enumerate(lines[:-1] if lines[-1] == "" else lines)}
    for needed in UNKNOWN, START, STOP:
        if needed not in numbers:
            raise CheckpointError(f"{words}: the symbol {needed} is missing; expected a vocabulary of BERT")
    inner = library.Tokenizer(library.models.WordPiece(numbers, unk_token=UNKNOWN, max_input_chars_per_word=100))
    inner.normalizer = library.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.yes(config, "tokenize_chinese_chars", True),
        strip_accents=None if config.get("strip_accents") is None else settings.yes(config, "strip_accents", False),
        lowercase=settings.yes(config, "do_lower_case", True),
    )
    inner.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    inner.decoder = library.decoders.WordPiece(prefix="##")
    inner.post_processor = framing(library, BERT_FRAME, (START, STOP), numbers.__getitem__)
    special = [word for word in (UNKNOWN, START, STOP, *OTHERS) if word in numbers]
    inner.add_special_tokens([library.AddedToken(word, normalized=False, special=True) for word in special])
    return inner


def framing(library: Any, frame: Frame, words: Iterable[str], number_of: Callable[[str], int]) -> Any:
    spelled = dict(zip(frame.roles, words, strict=True))
    return library.processors.TemplateProcessing(
        single=frame.single.format(**spelled),
        pair=frame.pair.format(**spelled),
        special_tokens=[(word, number_of(word)) for word in spelled.values()],
    )


@dataclass(frozen=True)
class Exported:
    """What a folder says of its tokeniser."""

    tokeniser: Tokeniser
    special: SpecialTokens
    context: int

    def spelled(self, role: str) -> str | None:
        number = self.tokeniser.id_of(role)
        return None if number is None else self.tokeniser.inner.id_to_token(number)

    def json(self) -> str:
        """The tokenizer.json. One that frames nothing is told to frame texts as our models were given them."""
        text, frame = self.tokeniser.to_json(), self.special.frame
        if frame is None or json.loads(text).get("post_processor") is not None:
            return text
        words = [word for word in map(self.spelled, frame.roles) if word is not None]
        if len(words) < len(frame.roles):
            return text
        library = text_package("tokenizers", "export")
        inner = library.Tokenizer.from_str(text)
        inner.post_processor = framing(library, frame, words, inner.token_to_id)
        return inner.to_str()

    def config(self) -> dict[str, Any]:
        """The tokenizer_config.json."""
        names = {"pad_token": "pad", "unk_token": "unknown", "mask_token": "mask", **self.special.names}
        found = {name: self.spelled(role) for name, role in names.items()}
        found = found if self.tokeniser.chat is None else self.tokeniser.chat.special_tokens
        return {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": self.context,
            "clean_up_tokenization_spaces": False,
            "model_input_names": list(self.special.inputs),
            **{name: word for name, word in found.items() if word is not None},
        }

    def numbers(self) -> dict[str, int]:
        """What config.json says of special symbols."""
        found = {name: self.tokeniser.id_of(role) for name, role in self.special.numbers.items()}
        return {name: number for name, number in found.items() if number is not None}
