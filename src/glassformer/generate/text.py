"""Text in, text out: prompts are read, tokens chosen one by one, and told as text as they come.

continue_text   goes on where each prompt ends: GPT, recurrent
answer_text     reads each prompt and writes an answer: T5
best_answers    the same by beam search

A row ends at the end token, before a stop string, or at its length, and is not extended while others go on. A text may
grow longer than the context: when it is full, the model reads the last half of it anew and goes on from there.
"""

from collections.abc import Callable, Sequence
from functools import partial

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
    """What follows each prompt, without the prompt: `length` tokens at most. `behind` comes between the two."""
    read = to_continue(decoder, tokeniser, prompts, length, behind)
    rows = write(decoder, tokeniser, read, length=length, sampling=sampling, seed=seed, stop=stop, on_text=on_text)
    return [row.text for row in rows]


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
    rows = write(decoder, tokeniser, read, length=length, sampling=sampling, seed=seed, stop=stop, on_text=on_text)
    return [row.text for row in rows]


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
    rows = [Row(tokeniser, prompt, checked(stop)) for prompt in read]
    end = tokeniser.id_of("end")
    found = search.find(decoder, [prompt.read for prompt in read], length=length, end=end, symbols=tokeniser.size)
    for row, tokens in zip(rows, found, strict=True):
        for token in tokens:
            row.add(token)
        row.close()
    return [row.text for row in rows]


def silent(piece: str) -> None:
    """Told to nobody."""


class Row:
    """A text that is being written."""

    def __init__(self, tokeniser: Tokeniser, prompt: Prompt, stop: Sequence[str], say: Say = silent) -> None:
        self.ids, self.text, self.open = list(prompt.before), "", True
        self.first, self.ended = len(self.ids), False  # of what is written; whether by the end token
        self.end = tokeniser.id_of("end")
        self.characters, self.until, self.say = WholeCharacters(tokeniser, prompt.before), UntilStop(stop), say

    def add(self, token: int) -> None:
        if not self.open:
            return
        self.ids.append(token)
        if token == self.end:
            self.ended = True
            self.close()
            return
        self.tell(self.until.feed(self.characters.feed(token)))
        self.open = not self.until.found

    @property
    def written(self) -> list[int]:
        """Its tokens, less the end token."""
        return self.ids[self.first : len(self.ids) - self.ended]

    def close(self) -> None:
        if self.open:
            self.tell(self.until.rest())
        self.open = False

    def tell(self, piece: str) -> None:
        self.text += piece
        if piece:
            self.say(piece)


def write(
    decoder: Decoder,
    tokeniser: Tokeniser,
    prompts: list[Prompt],
    *,
    length: int,
    sampling: Sampling,
    seed: int = 0,
    stop: Sequence[str] = (),
    on_text: OnText | None = None,
) -> list[Row]:
    """The loop: scores, a token for each row that is open, and again."""
    at_least("generate", 0, seed=seed)
    stop = checked(stop)
    rows = [
        Row(tokeniser, prompt, stop, partial(on_text, i) if on_text else silent) for i, prompt in enumerate(prompts)
    ]
    if not rows:
        return []
    generators = [np.random.default_rng((seed, i)) for i in range(len(rows))]
    scores = decoder.start(*as_array([prompt.read for prompt in prompts]))
    begun = [0] * len(rows)  # where in its tokens each row is read from
    for left in reversed(range(length)):
        active = [i for i, row in enumerate(rows) if row.open]
        known = scores[active, : tokeniser.size]
        chosen = sampling.choose(known, [rows[i].ids for i in active], [generators[i] for i in active])
        for i, token in zip(active, chosen.tolist(), strict=True):
            rows[i].add(token)
        if not left or not any(row.open for row in rows):
            break
        slid = [first_in_view(len(row.ids), decoder.context) for row in rows]
        if slid == begun:
            scores = decoder.step(np.array([row.ids[-1] for row in rows], np.int32))
        else:
            begun, scores = slid, decoder.start(*as_array([row.ids[at:] for row, at in zip(rows, slid, strict=True)]))
    for row in rows:
        row.close()
    return rows


def first_in_view(tokens: int, context: int) -> int:
    """Where the model begins to read a row of so many tokens: it depends on no other row.

    >>> [first_in_view(tokens, context=8) for tokens in (1, 8, 9, 12, 13)]
    [0, 0, 4, 4, 8]
    """
    half = max(1, context // 2)
    return 0 if tokens <= context else -(-(tokens - context) // half) * half


def checked(stop: Sequence[str]) -> Sequence[str]:
    if isinstance(stop, str) or not all(stop):
        raise SettingError(f"generate: {stop!r} came as the stop strings, expected a list of texts that are not empty")
    return stop
