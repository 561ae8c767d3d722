"""A decoder that wants to write what it was told to: what text is made of it can be checked to the letter."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from glassformer.models import Text

LIKELY, UNLIKELY = 9.0, -9.0


class Script:
    """Row i wants to write scripts[i]; once it has, its last token again and again."""

    def __init__(self, vocabulary: int, scripts: list[list[int]], context: int = 64) -> None:
        self.model: Any = SimpleNamespace(input=Text(vocabulary, context), tasks=("next-token",))
        self.context, self.scripts = context, scripts
        self.steps, self.prompts = -1, np.zeros((0, 0), int)  # -1: not started

    def start(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        self.prompts, self.steps = ids, 0
        assert lengths.shape == (len(ids),)
        return self.scores()

    def step(self, tokens: np.ndarray) -> np.ndarray:
        assert tokens.shape == (len(self.scripts),)
        self.steps += 1
        return self.scores()

    def reorder(self, rows: np.ndarray) -> None:
        self.scripts = [self.scripts[i] for i in rows]

    def scores(self) -> np.ndarray:
        scores = np.full((len(self.scripts), self.model.input.vocabulary), UNLIKELY, np.float32)
        for row, script in zip(scores, self.scripts, strict=True):
            row[script[min(self.steps, len(script) - 1)]] = LIKELY
        return scores
