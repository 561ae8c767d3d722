"""Text from a language model at the speed of memory: keys and values of past tokens are kept, the next token is C.

start(ids, lengths) -> logits after each prompt      step(tokens) -> logits one token later      reorder(rows)

A prompt is taken in groups of tokens; only its last token asks for logits. With a window the cache is a ring, and a
text has no end. docs/native.md, "Generating text".
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import ShapeError
from glassformer.layers import Layer
from glassformer.names import named_leaves
from glassformer.native import build
from glassformer.native.packed_weights import Kind
from glassformer.native.text_model import text_model
from glassformer.native.text_stack import TextStack, in_panels

GROUP = 128  # tokens of prompts that share a pass over the weights


class NativeDecoder:
    """Lets texts of a language model go on, several at once; they may differ in length.

    `weights` is what they are made of; int8 ones are kept in `folder`.
    """

    def __init__(
        self,
        model: Layer,
        params: Any,
        *,
        weights: Kind = "float32",
        folder: Path | None = None,
        threads: int = 0,
        notice: build.Notice = print,
    ) -> None:
        self.model, self.text = model, text_model(model)
        leaves = named_leaves(params)
        self.stack = TextStack(self.text, leaves, kind=weights, folder=folder, threads=threads, notice=notice)
        self.context, self.vocabulary = self.text.longest, self.text.vocabulary
        self.emb = np.asarray(leaves[self.text.emb], np.float32)
        self.pos = None if self.text.pos is None else np.asarray(leaves[self.text.pos], np.float32)
        self.rotations = self.text.rotations(self.text.context)
        self.places = np.zeros(0, np.int32)  # (B): how many tokens each text has had
        self.lanes = np.zeros(0, np.int32)  # (B): where in the caches it lies
        self.make_room(0)

    @property
    def slots(self) -> int:
        """Places in a cache. A ring has room for the window and for a group that is read."""
        window, panel = self.text.settings.window, self.stack.panel
        places = self.text.context if window is None else window + GROUP
        return in_panels(min(places, self.context), panel) * panel

    def make_room(self, lanes: int) -> None:
        self.keys, self.values = self.stack.cache(self.text.depth, lanes, self.slots)

    def start(self, ids: Any, lengths: Any) -> np.ndarray:
        """Read prompts (B, T), padded at the end, of which `lengths` (B) are real: the logits after each, (B, V)."""
        ids, lengths = np.asarray(ids, np.int32), np.asarray(lengths, np.int32)
        last = (np.arange(ids.shape[-1]) == lengths[..., None] - 1) if ids.ndim == 2 and lengths.ndim == 1 else ids
        return np.concatenate(list(self.read(ids, lengths, last)))

    def logits(self, ids: Any) -> Iterator[np.ndarray]:
        """Read whole texts (B, T): the logits at every place, a group of tokens after the other, text by text."""
        ids = np.asarray(ids, np.int32)
        return self.read(ids, np.full(len(ids), ids.shape[1], np.int32), np.ones(ids.shape, bool))

    def read(self, ids: np.ndarray, lengths: np.ndarray, asked: np.ndarray) -> Iterator[np.ndarray]:
        """Prompts, group by group: the logits of the tokens (B, T) that are asked for."""
        self.check_prompts(ids, lengths)
        real = np.arange(ids.shape[1]) < lengths[:, None]
        owner, place = (indices.astype(np.int32) for indices in np.nonzero(real))
        tokens, asked = ids[real], asked[real]
        self.check_tokens(tokens)
        if len(ids) > self.keys.shape[1]:
            self.make_room(len(ids))
        for begin in range(0, len(tokens), GROUP):
            group = slice(begin, begin + GROUP)
            wanted = np.flatnonzero(asked[group]).astype(np.int32)
            yield self.decode(tokens[group], owner[group], place[group], wanted)
        self.places, self.lanes = lengths.copy(), np.arange(len(ids), dtype=np.int32)

    def step(self, tokens: Any) -> np.ndarray:
        """One more token for each text, (B): the logits after it, (B, V)."""
        tokens = np.asarray(tokens, np.int32)
        if tokens.shape != self.lanes.shape:
            raise ShapeError(
                f"decoder: tokens of shape {tokens.shape} came, expected {self.lanes.shape}: one for each text"
            )
        if self.places.max(initial=0) >= self.context:
            raise ShapeError(f"decoder: a text has {self.context} tokens already, as many as the context; end it there")
        self.check_tokens(tokens)
        logits = self.decode(tokens, self.lanes, self.places, np.arange(len(tokens), dtype=np.int32))
        self.places = self.places + 1
        return logits

    def reorder(self, rows: Any) -> None:
        """Row i goes on as row `rows[i]` would have; there may be more rows than before, or fewer.

        A text stays where it lies. Only where it goes on twice is it copied, into a lane that nobody has.
        """
        rows = np.asarray(rows)
        wanted, self.places = self.lanes[rows].tolist(), self.places[rows]
        if len(rows) > self.keys.shape[1]:
            self.make_more_room(len(rows))
        free = sorted(set(range(self.keys.shape[1])) - set(wanted), reverse=True)
        taken: list[int] = []
        for lane, place in zip(wanted, self.places, strict=True):
            if lane in taken:
                self.copy_text(lane, free[-1], place)
            taken.append(free.pop() if lane in taken else lane)
        self.lanes = np.array(taken, np.int32)

    def make_more_room(self, lanes: int) -> None:
        """Texts keep their lanes."""
        keys, values, had, used = self.keys, self.values, self.keys.shape[1], int(self.places.max(initial=0))
        panels = in_panels(used, self.stack.panel)
        self.make_room(lanes)
        self.keys[:, :had, :, :panels] = keys[:, :, :, :panels]
        self.values[:, :had, :, :, :used] = values[:, :, :, :, :used]

    def copy_text(self, lane: int, to: int, place: int) -> None:
        panels = in_panels(place, self.stack.panel)
        self.keys[:, to, :, :panels] = self.keys[:, lane, :, :panels]
        self.values[:, to, :, :, :place] = self.values[:, lane, :, :, :place]

    def decode(self, tokens: np.ndarray, lanes: np.ndarray, places: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Tokens, each of one text and at its place there, through all blocks; the logits of those that are wanted."""
        x = np.ascontiguousarray(self.emb[tokens] if self.pos is None else self.emb[tokens] + self.pos[places])
        if self.rotations is not None and (last := int(places.max(initial=0))) >= len(self.rotations):
            self.rotations = self.text.rotations(2 * (last + 1))
        return self.stack.run(x, lanes, places, wanted, (self.keys, self.values), rotations=self.rotations)

    def check_tokens(self, tokens: np.ndarray) -> None:
        wrong = tokens[(tokens < 0) | (tokens >= self.vocabulary)]
        if wrong.size:
            raise ShapeError(
                f"decoder: token {wrong[0]} came, the vocabulary has {self.vocabulary}: 0 to {self.vocabulary - 1}"
            )

    def check_prompts(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        if ids.ndim != 2 or lengths.shape != ids.shape[:1] or not len(ids):
            raise ShapeError(
                f"decoder: prompts of shape {ids.shape} and lengths of shape {lengths.shape} came, "
                "expected (batch, tokens) and (batch,)"
            )
        most = min(ids.shape[1], self.context)
        if lengths.min() < 1 or lengths.max() > most:
            raise ShapeError(
                f"decoder: prompts of {lengths.min()} to {lengths.max()} tokens came, expected 1 to {most}; "
                f"the context is {self.context}"
            )
