"""Text in, text out: prompts are read, tokens chosen one by one, and told as text as they come.

continue_text   goes on where each prompt ends: GPT, recurrent
answer_text     reads each prompt and writes an answer: T5
best_answers    the same by beam search

A row ends at the end token, before a stop string, or at its length, and is not extended while others go on. Each is
written by settings of its own: its text depends on its prompt, its settings and its seed, not on the rows beside it.
A text may grow longer than the context: when it is full, the model reads the last half of it anew and goes on from
there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import SettingError, at_least
from glassformer.generate.beam import BeamSearch
from glassformer.generate.decoder import Decoder, as_array
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.generate.prompts import Prompt, to_answer, to_continue
from glassformer.generate.sampling import Sampling
from glassformer.generate.text_stream import UntilStop, WholeCharacters

Say = Callable[[str], None]
OnText = Callable[[int, str], None]  # (row, the next piece of its text)
Why = Literal["end", "stop", "length"]  # the end token, a stop string, as long as asked for


@dataclass(frozen=True)
class Writing:
    """How one text is written."""

    length: int  # tokens at most
    sampling: Sampling = Sampling()
    seed: int = 0
    stop: Sequence[str] = ()

    def __post_init__(self) -> None:
        at_least("generate", 1, length=self.length)
        at_least("generate", 0, seed=self.seed)
        if isinstance(self.stop, str) or not all(self.stop):
            raise SettingError(
                f"generate: {self.stop!r} came as the stop strings, expected a list of texts that are not empty"
            )


def continue_text(
    decoder: Decoder,
    tokeniser: Tokeniser,
    prompts: Sequence[str],
    *,
    length: int,
    sampling: Sampling = Sampling(),
    seed: int = 0,
    stop: Sequence[str] = (),
    on_text: OnText | None = None,
    behind: Sequence[int] = (),
) -> list[str]:
    """What follows each prompt, without the prompt: `length` tokens at most. `behind` comes between the two.

    The seed of a row is `seed` plus its number: alone, with that seed, it has the same text.
    """
    read = to_continue(decoder, tokeniser, prompts, length, behind)
    how = [Writing(length, sampling, seed + i, stop) for i in range(len(read))]
    return [row.text for row in write(decoder, tokeniser, read, how, on_text)]


def answer_text(
    decoder: JaxDecoder,
    tokeniser: Tokeniser,
    prompts: Sequence[str],
    *,
    length: int,
    sampling: Sampling = Sampling(greedy=True),
    seed: int = 0,
    stop: Sequence[str] = (),
    on_text: OnText | None = None,
) -> list[str]:
    """What the model makes of each prompt: `length` tokens at most."""
    read = to_answer(decoder, tokeniser, prompts, length)
    how = [Writing(length, sampling, seed + i, stop) for i in range(len(read))]
    return [row.text for row in write(decoder, tokeniser, read, how, on_text)]


def best_answers(
    decoder: JaxDecoder,
    tokeniser: Tokeniser,
    prompts: Sequence[str],
    *,
    length: int,
    search: BeamSearch = BeamSearch(),
    stop: Sequence[str] = (),
) -> list[str]:
    """The likeliest answer to each prompt that beam search finds: `length` tokens at most."""
    read = to_answer(decoder, tokeniser, prompts, length)
    rows = [Row(tokeniser, prompt, Writing(length, stop=stop)) for prompt in read]
    end = tokeniser.id_of("end")
    found = search.find(decoder, [prompt.read for prompt in read], length=length, end=end, symbols=tokeniser.size)
    for row, tokens in zip(rows, found, strict=True):
        for token in tokens:
            row.add(token)
        if row.open:
            row.close("end")  # which `find` leaves out
    return [row.text for row in rows]


def silent(piece: str) -> None:
    """Told to nobody."""


class Row:
    """A text that is being written."""

    def __init__(self, tokeniser: Tokeniser, prompt: Prompt, how: Writing, say: Say = silent) -> None:
        self.ids, self.text, self.how = list(prompt.before), "", how
        self.first = len(self.ids)  # where what is written begins
        self.why: Why | None = None  # it ended
        self.sampling, self.random = how.sampling.of_tokens(tokeniser), np.random.default_rng((how.seed, 0))
        self.ends = tokeniser.ends
        self.characters, self.until, self.say = WholeCharacters(tokeniser, prompt.before), UntilStop(how.stop), say

    @property
    def open(self) -> bool:
        return self.why is None

    @property
    def ended(self) -> bool:
        return self.why == "end"

    @property
    def written(self) -> list[int]:
        """Its tokens, less the end token."""
        return self.ids[self.first : len(self.ids) - self.ended]

    def choose(self, scores: np.ndarray) -> None:
        """The next token, from the scores of all."""
        self.add(self.sampling.choose(scores, self.ids, self.random))

    def add(self, token: int) -> None:
        if not self.open:
            return
        self.ids.append(token)
        if token in self.ends:
            self.close("end")
            return
        self.tell(self.until.feed(self.characters.feed(token)))
        if self.until.found:
            self.why = "stop"
        elif len(self.ids) - self.first == self.how.length:
            self.close("length")

    def close(self, why: Why) -> None:
        self.tell(self.until.rest())
        self.why = why

    def tell(self, piece: str) -> None:
        self.text += piece
        if piece:
            self.say(piece)


def write(
    decoder: Decoder,
    tokeniser: Tokeniser,
    prompts: Sequence[Prompt],
    how: Sequence[Writing],
    on_text: OnText | None = None,
    on_row: Callable[[int, Row], None] = lambda i, row: None,
) -> list[Row]:
    """The loop: scores, a token for each row that is open, and again. `on_row` hears of rows as they end."""
    rows = [
        Row(tokeniser, prompt, one, partial(on_text, i) if on_text else silent)
        for i, (prompt, one) in enumerate(zip(prompts, how, strict=True))
    ]
    if not rows:
        return []
    scores = decoder.start(*as_array([prompt.read for prompt in prompts]))
    begun = [0] * len(rows)  # where in its tokens each row is read from
    while True:
        active = [i for i, row in enumerate(rows) if row.open]
        for i in active:
            rows[i].choose(scores[i, : tokeniser.size])
            if not rows[i].open:
                on_row(i, rows[i])
        going = [i for i in active if rows[i].open]
        if not going:
            return rows
        lanes = [i if row.open else going[0] for i, row in enumerate(rows)]  # what is over must not fill its context
        if len(going) < len(active):
            decoder.reorder(np.array(lanes))
        ids = [rows[i].ids for i in lanes]
        slid = [first_in_view(len(row), decoder.context) for row in ids]
        if slid == [begun[i] for i in lanes]:
            scores = decoder.step(np.array([row[-1] for row in ids], np.int32))
        else:
            scores = decoder.start(*as_array([row[at:] for row, at in zip(ids, slid, strict=True)]))
        begun = slid


def first_in_view(tokens: int, context: int) -> int:
    """Where the model begins to read a row of so many tokens: it depends on no other row.

    >>> [first_in_view(tokens, context=8) for tokens in (1, 8, 9, 12, 13)]
    [0, 0, 4, 4, 8]
    """
    half = max(1, context // 2)
    return 0 if tokens <= context else -(-(tokens - context) // half) * half
