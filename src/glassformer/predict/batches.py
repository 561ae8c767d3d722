"""Texts are read in batches, padded to one length. No token sees the padding, so that an answer is the same whatever
else is asked."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from glassformer.layers.contract import keywords, keywords_for
from glassformer.predict.encoding import head_of, native_encoder
from glassformer.predict.reading import Reading, check_lengths, context_of, tokeniser_of
from glassformer.train.tasks.sequences import filled, framed

if TYPE_CHECKING:
    from glassformer.predict.run import Run

AT_ONCE = 2048  # tokens read together


def framed_logits(run: "Run", readings: list[Reading]) -> list[np.ndarray]:
    tokeniser = tokeniser_of(run)
    return logits_of(run, readings, [framed(tokeniser, reading.ids) for reading in readings])


def inside(reading: Reading) -> slice:
    """The text's own tokens between <start> and <end>."""
    return slice(1, 1 + len(reading.ids))


def logits_of(run: "Run", readings: list[Reading], rows: list[list[int]]) -> list[np.ndarray]:
    """What the model makes of each row; places behind its end are there, and mean nothing."""
    encoder = native_encoder(run)
    if encoder is None:
        return computed(run, readings, rows, forward, context_of(run))
    check_lengths(readings, rows, context_of(run))
    values, make, found = encoder.encode(rows), head_of(encoder), list[Any]([None] * len(rows))
    for numbers, copies in in_batches(rows, partial(room, most=context_of(run))):
        longest = room(max(len(rows[i]) for i in numbers), context_of(run))
        padded = np.stack([np.pad(values[i], ((0, longest - len(values[i])), (0, 0))) for i in copies])
        for i, one in zip(numbers, np.asarray(make(run.params, padded)), strict=False):  # there may be copies behind
            found[i] = one
    return found


def computed(
    run: "Run",
    readings: list[Reading],
    rows: list[list[int]],
    compute: Callable[..., Any],
    most: int,
    listener: Callable[[int], None] = lambda count: None,
) -> list[np.ndarray]:
    """What `compute(model, params, ids, keep)` makes of each row, of at most so many tokens; in their order."""
    check_lengths(readings, rows, most)
    found: list[Any] = [None] * len(rows)
    pad = tokeniser_of(run).id_of("pad") or 0
    length = partial(room, most=most) if "keep" in keywords(run.model) else int  # else it cannot be told of padding
    for numbers, copies in in_batches(rows, length):
        ids, keep = filled([rows[i] for i in copies], pad)
        behind = ((0, 0), (0, length(ids.shape[1]) - ids.shape[1]))
        ids, keep = np.pad(ids, behind, constant_values=pad), np.pad(keep, behind)
        results = np.asarray(compute(run.model, run.params, ids, keep))
        for i, one in zip(numbers, results, strict=False):  # there may be copies behind
            found[i] = one
        listener(len(numbers))
    return found


def in_batches(rows: list[list[int]], padded: Callable[[int], int]) -> Iterator[tuple[list[int], list[int]]]:
    """Numbers of rows of one padded length; and the same with some of them twice, as many as a power of two.

    With lengths that are powers of two as well, a few compiled programs serve all.
    """
    by_length: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        by_length.setdefault(padded(len(row)), []).append(i)
    for length, same in by_length.items():
        most = max(1, AT_ONCE // length)
        for at in range(0, len(same), most):
            numbers = same[at : at + most]
            yield numbers, np.resize(numbers, room(len(numbers), most)).tolist()


def room(count: int, most: int) -> int:
    """The next power of two, but not above `most`."""
    return min(most, 1 << (count - 1).bit_length())


@partial(jax.jit, static_argnames="model")
def forward(model: Any, params: Any, x: Any, keep: Any) -> Any:
    return model.forward(params, x, **keywords_for(model, keep=keep))[0]
