"""Texts through an encoder in C: one vector for each token, whatever their lengths.

encode(rows) -> values (T, C) of each row

Tokens of all texts of a batch lie side by side and share one pass over the weights; only attention knows where a text
ends. So nothing is padded, and nothing is computed for padding. docs/native.md, "Reading texts".
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from glassformer.cores import cores
from glassformer.errors import ShapeError
from glassformer.layers import Layer
from glassformer.names import named_leaves
from glassformer.native import build
from glassformer.native.encoder_model import encoder_model
from glassformer.native.packed_weights import Kind
from glassformer.native.text_stack import Room, TextStack, in_panels

AT_ONCE = 512  # tokens: enough to use a panel of weights often, few enough to stay near the processor
WORTH_A_THREAD = 64  # tokens


class EncoderRoom(Room):
    """With room for the keys and values of one block: the next one has them anew."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: tuple[np.ndarray, np.ndarray] | None = None

    def cache_of(self, stack: TextStack, texts: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
        slots = in_panels(longest, stack.panel) * stack.panel
        if self.cache is None or self.cache[0].shape[1] < texts or self.cache[1].shape[-2] != slots:
            self.cache = stack.cache(1, texts, slots)
        return self.cache


class NativeEncoder:
    def __init__(
        self,
        model: Layer,
        params: Any,
        *,
        weights: Kind = "float32",
        threads: int = 0,
        notice: build.Notice = print,
    ) -> None:
        self.model = encoder_model(model)
        text, leaves = self.model.text, named_leaves(params)
        self.stack = TextStack(text, leaves, kind=weights, threads=threads, notice=notice)
        self.emb = np.asarray(leaves[text.emb], np.float32)
        assert text.pos is not None
        self.pos = np.asarray(leaves[text.pos], np.float32)[self.model.first :]
        if self.model.kinds is not None:
            self.pos = self.pos + np.asarray(leaves[self.model.kinds], np.float32)[0]
        self.rooms = [EncoderRoom() for _ in range(threads or cores())]

    def encode(
        self, rows: Sequence[Sequence[int]], listener: Callable[[int], None] = lambda count: None
    ) -> list[np.ndarray]:
        """What the last block gives, (T, C), of each row of token ids. The listener is told how many are done.

        Threads take batches as they are free, and meet only at the end; in a single batch they share each product.
        """
        self.check(rows)
        lengths = [len(row) for row in rows]
        found: list[Any] = [None] * len(rows)
        batches = list(self.batches(lengths, self.tokens_at_once(sum(lengths))))
        waiting = iter(batches)  # which threads share

        def read(room: EncoderRoom, *, beside_others: bool) -> None:
            for batch in waiting:
                values = self.encoded([rows[i] for i in batch], room, beside_others=beside_others)
                ends = np.cumsum([lengths[i] for i in batch])[:-1]
                for i, one in zip(batch, np.split(values, ends), strict=True):
                    found[i] = one
                listener(len(batch))

        if len(batches) < 2 or len(self.rooms) == 1:
            read(self.rooms[0], beside_others=False)
        else:
            with ThreadPoolExecutor(len(self.rooms)) as pool:
                try:
                    for done in [pool.submit(read, room, beside_others=True) for room in self.rooms]:
                        done.result()
                finally:
                    for _ in waiting:  # after an error or Ctrl-C nobody takes another batch
                        pass
        return found

    def tokens_at_once(self, tokens: int) -> int:
        """At most AT_ONCE, and as many batches for each thread as for the others, if it is worth it."""
        threads = max(1, min(len(self.rooms), tokens // WORTH_A_THREAD))
        batches = threads * -(-tokens // (threads * AT_ONCE))
        return -(-tokens // max(batches, 1))

    def batches(self, lengths: list[int], at_once: int) -> Iterator[list[int]]:
        """Rows of similar length, as many as have `at_once` tokens together, or one."""
        batch: list[int] = []
        for i in np.argsort(lengths, kind="stable").tolist():
            if batch and sum(lengths[j] for j in batch) + lengths[i] > at_once:
                yield batch
                batch = []
            batch.append(i)
        if batch:
            yield batch

    def encoded(self, rows: list[Sequence[int]], room: EncoderRoom, *, beside_others: bool) -> np.ndarray:
        """The values of all tokens, text by text."""
        lengths = np.array([len(row) for row in rows], np.int32)
        owner = np.repeat(np.arange(len(rows), dtype=np.int32), lengths)
        place = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
        x = self.emb[np.concatenate([np.asarray(row) for row in rows])] + self.pos[place]
        every, cache = np.arange(len(x), dtype=np.int32), room.cache_of(self.stack, len(rows), int(lengths.max()))
        return self.stack.run(x, owner, place, every, cache, length=lengths, room=room if beside_others else None)

    def check(self, rows: Sequence[Sequence[int]]) -> None:
        context, vocabulary = self.model.text.context, len(self.emb)
        for i, row in enumerate(rows):
            if not 1 <= len(row) <= context:
                raise ShapeError(f"encoder: text {i + 1} has {len(row)} tokens, expected 1 to {context}: its context")
            if min(row) < 0 or max(row) >= vocabulary:
                wrong = next(token for token in row if not 0 <= token < vocabulary)
                raise ShapeError(f"encoder: token {wrong} came, the vocabulary has {vocabulary}: 0 to {vocabulary - 1}")
