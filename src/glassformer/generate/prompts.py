"""Prompts as a model reads them, and everything that can be wrong with them, before anything is computed."""

from collections.abc import Sequence
from typing import NamedTuple

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import DataError, SettingError, ShapeError, at_least
from glassformer.generate.decoder import Decoder, answers
from glassformer.generate.jax_decoder import JaxDecoder

FILLED = 128  # tables are padded to a multiple of this, for the sake of speed: T5 has 28 rows without a symbol
USUAL = 200  # tokens to write, where nobody says how many
SHOWN = 5  # unknown characters in a message


class Prompt(NamedTuple):
    read: list[int]
    before: list[int]  # what stands before the first token that is written


def to_continue(
    decoder: Decoder, tokeniser: Tokeniser, prompts: Sequence[str], length: int, behind: Sequence[int] = ()
) -> list[Prompt]:
    """For a model that goes on where the prompt ends, or `behind`: what divides a prompt from its answer."""
    check_vocabulary(decoder, tokeniser)
    at_least("generate", 1, length=length)
    rows = []
    for where, text in named(prompts):
        ids = symbols(tokeniser, where, text)
        ids = [*ids, *behind] or [first_symbol(tokeniser, where)]
        fits(where, len(ids), decoder.context)
        rows.append(Prompt(read=ids, before=ids))
    return rows


def to_answer(decoder: JaxDecoder, tokeniser: Tokeniser, prompts: Sequence[str], length: int) -> list[Prompt]:
    """For a model that reads the whole prompt, with an end token behind it as in training, and then writes."""
    check_vocabulary(decoder, tokeniser)
    at_least("generate", 1, length=length)
    if length > decoder.context:
        raise SettingError(
            f"generate: length is {length}, the model's context is {decoder.context}; ask for {decoder.context} at most"
        )
    end = tokeniser.id_of("end")
    rows = []
    for where, text in named(prompts):
        ids = symbols(tokeniser, where, text)
        if not ids:
            raise DataError(f"{where}: it is empty, and there is nothing to answer; write some text")
        ids = ids if end is None else [*ids, end]
        fits(where, len(ids), decoder.context)
        rows.append(Prompt(read=ids, before=[decoder.start_token]))
    return rows


def usual_length(decoder: Decoder) -> int:
    """How many tokens to write where nobody says: an answer has no more room than the context."""
    return min(USUAL, decoder.context) if answers(decoder.model) else USUAL


def named(prompts: Sequence[str]) -> list[tuple[str, str]]:
    if isinstance(prompts, str):
        raise SettingError("generate: one text came as the prompts, expected a list of texts: [text]")
    return [("the prompt" if len(prompts) == 1 else f"prompt {i + 1}", text) for i, text in enumerate(prompts)]


def check_vocabulary(decoder: Decoder, tokeniser: Tokeniser) -> None:
    vocabulary = decoder.model.input.vocabulary
    if not tokeniser.size <= vocabulary <= -(-tokeniser.size // FILLED) * FILLED:
        raise ShapeError(
            f"generate: the tokeniser has {tokeniser.size:,} symbols, the model {vocabulary:,}; "
            "use the tokeniser that the model was trained with"
        )


def symbols(tokeniser: Tokeniser, where: str, text: str) -> list[int]:
    unknown = tokeniser.unknown_in(text)
    if unknown:
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise DataError(
            f"{where}: the model's tokeniser does not know {', '.join(map(repr, unknown[:SHOWN]))}{more}: "
            "its training text has none; leave that out"
        )
    return tokeniser.encode(text)


def first_symbol(tokeniser: Tokeniser, where: str) -> int:
    """What stands before a text that has not begun: the end of another, as documents are divided in training."""
    for role in ("end", "start"):
        found = tokeniser.id_of(role)
        if found is not None:
            return found
    raise DataError(
        f"{where}: it is empty, and the tokeniser has no start or end token to begin from; write at least one character"
    )


def fits(where: str, tokens: int, context: int) -> None:
    if tokens > context:
        raise DataError(
            f"{where}: {tokens:,} tokens, the model's context is {context:,}; "
            f"shorten it by {tokens - context:,} or more"
        )
