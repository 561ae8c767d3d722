"""Which token is written next, from the scores of all: the best one, or one drawn at random.

logit bias           what is added to the scores of some tokens; -inf: never written
repetition penalty   a token that was written already has its score divided by the penalty (multiplied, where negative)
temperature          scores / temperature: below 1 the likely become likelier, above 1 all become more alike
top-k                only the k best scores stay
top-p                of those, the fewest that have a probability of p together
min-p                of those, the ones at least p times as likely as the likeliest
then                 probability = softmax(scores), and one is drawn

In this order, and in each of them as the transformers library does. Every row draws from a generator of its own, so
what is written in it does not depend on the rows beside it. Keskar et al., 2019; Holtzman et al., 2019;
Nguyen et al., 2024 (min-p).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import SettingError, at_least
from glassformer.generate.decoder import must_be_numbers
from glassformer.generate.logit_bias import by_id
from glassformer.probabilities import softmax


@dataclass(frozen=True)
class Sampling:
    temperature: float = 1.0
    top_k: int = 0  # 0: all stay
    top_p: float = 1.0  # 1: all stay
    min_p: float = 0.0  # 0: all stay
    repetition_penalty: float = 1.0  # 1: none
    logit_bias: Mapping[Any, float] = field(default_factory=dict)  # by id or text of a token, see logit_bias.py
    greedy: bool = False  # always the best one; of the others only the bias and the penalty count

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise SettingError(
                f"sampling: temperature is {self.temperature}, expected a number above 0, such as 0.8; "
                "to always take the likeliest token, use greedy"
            )
        at_least("sampling", 0, top_k=self.top_k)
        if not 0 < self.top_p <= 1:
            raise SettingError(f"sampling: top_p is {self.top_p}, expected a share above 0 and up to 1, such as 0.9")
        if not 0 <= self.min_p <= 1:
            raise SettingError(f"sampling: min_p is {self.min_p}, expected a share from 0 to 1, such as 0.05")
        if not (self.repetition_penalty > 0 and math.isfinite(self.repetition_penalty)):
            raise SettingError(
                f"sampling: repetition_penalty is {self.repetition_penalty}, expected a number above 0: "
                "1 changes nothing, 1.2 is usual"
            )

    def of_tokens(self, tokeniser: Tokeniser) -> Self:
        """With the tokens of the bias as ids, and checked."""
        return replace(self, logit_bias=by_id(tokeniser, self.logit_bias))

    def choose(self, scores: np.ndarray, written: Sequence[int], generator: np.random.Generator) -> int:
        """A token, from the scores (V,) of all. `written` is what stands in the row so far, its prompt included."""
        must_be_numbers(scores)
        scores = self.shaped(scores.astype(np.float64), written)
        return int(scores.argmax()) if self.greedy else drawn(scores, generator)

    def shaped(self, scores: np.ndarray, written: Sequence[int]) -> np.ndarray:
        """With -inf for what cannot be drawn."""
        scores = penalised(biased(scores, self.logit_bias), written, self.repetition_penalty)
        if self.greedy:
            return scores
        return min_p(top_p(top_k(scores / self.temperature, self.top_k), self.top_p), self.min_p)


def biased(scores: np.ndarray, bias: Mapping[int, float]) -> np.ndarray:
    if not bias:
        return scores
    scores = scores.copy()
    scores[[*bias]] += [*bias.values()]
    return scores


def penalised(scores: np.ndarray, written: Sequence[int], penalty: float) -> np.ndarray:
    if penalty == 1 or not len(written):
        return scores
    scores, again = scores.copy(), np.unique(written)
    scores[again] = np.where(scores[again] < 0, scores[again] * penalty, scores[again] / penalty)
    return scores


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """More than k stay where several are equal to the last of them."""
    if not 0 < k < len(scores):
        return scores
    return np.where(scores < np.partition(scores, -k)[-k], -np.inf, scores)


def top_p(scores: np.ndarray, p: float) -> np.ndarray:
    """From the unlikeliest up, as many go as have 1 - p or less together; the likeliest always stays."""
    if p == 1:
        return scores
    order = np.argsort(scores, kind="stable")
    gone = order[np.cumsum(softmax(scores)[order]) <= 1 - p]
    scores = scores.copy()
    scores[gone[gone != order[-1]]] = -np.inf
    return scores


def min_p(scores: np.ndarray, p: float) -> np.ndarray:
    if p == 0:
        return scores
    shares = softmax(scores)
    return np.where(shares < p * shares.max(), -np.inf, scores)


def drawn(scores: np.ndarray, generator: np.random.Generator) -> int:
    """One draw from 0 to 1 falls into the share of one token."""
    possible = np.flatnonzero(scores > -np.inf)
    shares = np.cumsum(softmax(scores[possible]))
    return int(possible[min(np.searchsorted(shares, generator.random(), side="right"), len(possible) - 1)])
