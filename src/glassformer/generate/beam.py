"""Beam search: write several beginnings side by side, keep the likeliest, and return the best that came to an end.

score of a text      the sum of the log-probabilities of its tokens, divided by (number of tokens) ** length_penalty
at each step         of all continuations of a prompt's beams, the 2 x beams likeliest are looked at: those among the
                     first `beams` that end are finished texts; the best that do not end are the new beams
a prompt is done     when it has `beams` finished texts and no beam, ended now, would beat the worst of them;
                     with early_stopping as soon as it has them; at `length` tokens every beam counts as finished

The end token counts as a token. The same texts as the transformers library with num_beams and do_sample=False.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.errors import SettingError, at_least
from glassformer.generate.decoder import Decoder, as_array, must_be_numbers
from glassformer.probabilities import log_softmax


class Beam(NamedTuple):
    score: float = 0.0
    tokens: tuple[int, ...] = ()
    parent: int = 0  # the beam of the step before that it continues


class Search(NamedTuple):
    """How far the search for one prompt has come."""

    beams: list[Beam]
    finished: list[Beam]  # the best first; their scores are divided by the length
    done: bool


@dataclass(frozen=True)
class BeamSearch:
    beams: int = 4
    length_penalty: float = 1.0  # above 0 longer texts gain, below 0 they lose
    early_stopping: bool = False

    def __post_init__(self) -> None:
        at_least("beam search", 1, beams=self.beams)
        if not np.isfinite(self.length_penalty):
            raise SettingError(f"beam search: length_penalty is {self.length_penalty}, expected a number; 1 is usual")

    def find(
        self, decoder: Decoder, prompts: list[list[int]], *, length: int, end: int | None, symbols: int = 0
    ) -> list[list[int]]:
        """The tokens of the best text for each prompt, less the end token.

        Where the model's table is padded, only the first `symbols` of its scores count.
        """
        at_least("beam search", 1, length=length)
        vocabulary: int = symbols or decoder.model.input.vocabulary
        if 2 * self.beams > vocabulary:
            raise SettingError(
                f"beam search: {self.beams} beams are too many for {vocabulary} symbols; {vocabulary // 2} at most"
            )
        if not prompts:
            return []
        searches = [Search(beams=[Beam()], finished=[], done=False) for _ in prompts]
        scores = np.repeat(decoder.start(*as_array(prompts)), self.beams, axis=0)
        decoder.reorder(np.repeat(np.arange(len(prompts)), self.beams))
        for written in range(1, length + 1):
            must_be_numbers(scores)
            steps = log_softmax(scores[:, :vocabulary]).reshape(len(prompts), self.beams, vocabulary)
            searches = [
                search if search.done else self.advanced(search, step, end, written, written == length)
                for search, step in zip(searches, steps, strict=True)
            ]
            if all(search.done for search in searches):
                break
            parents = [i * self.beams + beam.parent for i, search in enumerate(searches) for beam in search.beams]
            decoder.reorder(np.array(parents))
            scores = decoder.step(np.array([beam.tokens[-1] for search in searches for beam in search.beams]))
        best = [search.finished[0].tokens for search in searches]
        return [list(tokens[:-1] if tokens[-1] == end else tokens) for tokens in best]

    def advanced(self, search: Search, step: np.ndarray, end: int | None, written: int, last: bool) -> Search:
        """One token further: `step` are the log-probabilities of the next token behind each beam, (beams, V)."""
        candidates = likeliest(search.beams, step, 2 * self.beams)
        ended = [beam for beam in candidates[: self.beams] if last or beam.tokens[-1] == end]
        counted = [beam._replace(score=self.counted(beam.score, written)) for beam in ended]
        finished = sorted(search.finished + counted, key=lambda beam: -beam.score)[: self.beams]
        beams = [beam for beam in candidates if beam.tokens[-1] != end][: self.beams]
        done = last or (
            len(finished) == self.beams
            and (self.early_stopping or self.counted(beams[0].score, written) <= finished[-1].score)
        )
        return Search(beams=beams, finished=finished, done=done)

    def counted(self, score: float, written: int) -> float:
        return score / written**self.length_penalty


def likeliest(beams: list[Beam], step: np.ndarray, count: int) -> list[Beam]:
    """The best continuations of all beams by one token, the best first."""
    totals = np.array([[beam.score] for beam in beams]) + step[: len(beams)]
    best = np.argpartition(-totals, count - 1, axis=None)[:count]
    best = best[np.argsort(-totals.flat[best], kind="stable")]
    chosen = zip(*np.unravel_index(best, totals.shape), strict=True)
    return [Beam(float(totals[i, token]), (*beams[i].tokens, int(token)), int(i)) for i, token in chosen]
