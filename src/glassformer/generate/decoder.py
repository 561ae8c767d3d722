"""The common face of everything that can say which token comes next: JAX, or C.

start      reads the prompts and gives the scores of the first token to write
step       is told what was written, one token a row, and gives the scores of the next
reorder    row i goes on from where row rows[i] stood: beam search keeps what is good several times and drops the rest

A decoder remembers between the calls what it has read, so that a step costs the same however long the text is.
"""

from typing import Any, Protocol

import numpy as np

from glassformer.errors import CheckpointError, ShapeError
from glassformer.models.model import Network

WRITING = ("next-token", "translate")  # tasks of models that write: go on from a prompt, or answer it


class Decoder(Protocol):
    model: Any  # a text model: `model.input.vocabulary` is V
    context: int  # the most tokens that fit

    def start(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Int32 (B, T), rows padded at the end, of which (B,) are real -> float32 (B, V)."""
        ...

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """(B,) -> float32 (B, V)."""
        ...

    def reorder(self, rows: np.ndarray) -> None:
        """(B',), which need not be as many as before."""
        ...


def writes(model: Network) -> bool:
    return any(task in WRITING for task in model.tasks)


def answers(model: Network) -> bool:
    """Whether it reads a prompt whole and then writes, as T5 does; else it goes on where the prompt ends."""
    return "translate" in model.tasks


def check_prompts(ids: np.ndarray, lengths: np.ndarray, context: int) -> None:
    """What every decoder refuses to start with."""
    if ids.ndim != 2 or lengths.shape != ids.shape[:1] or not np.issubdtype(ids.dtype, np.integer):
        raise ShapeError(
            f"decoder: {ids.dtype} of shape {ids.shape} with lengths of shape {lengths.shape} came, expected integers "
            "(batch, tokens): one row of token ids per prompt, and for each how many are real"
        )
    if lengths.min(initial=1) < 1 or lengths.max(initial=1) > min(ids.shape[1], context):
        raise ShapeError(
            f"decoder: prompts of {lengths.min()} to {lengths.max()} tokens came in rows of {ids.shape[1]}, "
            f"expected 1 to {min(ids.shape[1], context)}; the context is {context}"
        )


def check_step(tokens: np.ndarray, rows: int, place: int, context: int) -> None:
    """Refuse tokens for other rows than were started, and to write beyond the last place."""
    if tokens.shape != (rows,):
        raise ShapeError(f"decoder: tokens of shape {tokens.shape} came for {rows} rows, expected one for each row")
    if place >= context:
        raise ShapeError(
            f"decoder: the context of {context} tokens is full and another token came; start anew with a shorter prompt"
        )


def must_be_numbers(scores: np.ndarray) -> None:
    if np.isnan(scores).any():
        raise CheckpointError(
            "decoder: the model's scores are not numbers (NaN): its weights are damaged, or training went astray"
        )


def filled_up(ids: np.ndarray, context: int) -> np.ndarray:
    """Int32 rows of the next power of two, so that prompts of many lengths share a few compiled programs."""
    wanted = min(1 << (ids.shape[1] - 1).bit_length(), context)
    rows = ids[:, :wanted].astype(np.int32)
    return np.pad(rows, [(0, 0), (0, wanted - rows.shape[1])])


def as_array(prompts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows padded at the end, and how much of each is real."""
    lengths = np.array([len(ids) for ids in prompts])
    rows = np.zeros((len(prompts), lengths.max()), np.int32)
    for row, ids in zip(rows, prompts, strict=True):
        row[: len(ids)] = ids
    return rows, lengths
