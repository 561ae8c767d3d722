"""Text from a language model at the speed of memory: keys and values of past tokens are kept, the next token is C.

start(ids, lengths) -> logits after each prompt      step(tokens) -> logits one token later      reorder(rows)

What a token costs is reading every weight once. So the weights are copied once, in the order in which they are read and
in the layout that is read fastest (native/c/panels.h), and all rows of a batch share one pass over them. A prompt is
taken in groups of tokens; only its last token asks for logits. docs/native.md, "Generating text".
"""

import ctypes
from math import prod
from typing import Any

import numpy as np

from glassformer.cores import cores
from glassformer.errors import EngineError, ShapeError
from glassformer.layers import GELU, GELUTanh, Layer, ReLU, SiLU
from glassformer.names import named_leaves
from glassformer.native import build
from glassformer.native.engine import address, aligned, must_mirror
from glassformer.native.text_model import text_model

SOURCE = '/* Generation with a language model of any size. */\n#include "decode.h"\n'
ACTIVATIONS = {GELU: 0, GELUTanh: 1, ReLU: 2, SiLU: 3}
GROUP = 128  # tokens of prompts that share a pass over the weights
ALONE = 4_000_000  # weights: one thread has read them, or used them for 8 tokens, before it had help from another


class Decoding(ctypes.Structure):
    """decode.h's `decoding`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weights", "rotations", "keys", "values", "x", "logits", "space")),
        *((name, ctypes.c_void_p) for name in ("owner", "place", "wanted")),
        *((name, ctypes.c_int32) for name in ("tokens", "wants", "sequences", "slots")),
        *((name, ctypes.c_int32) for name in ("width", "heads", "hidden", "depth", "vocabulary", "activation")),
        ("threads", ctypes.c_int32),
        *((name, ctypes.c_float) for name in ("eps", "scale")),
    )


class NativeDecoder:
    """Lets texts of a language model go on, several at once; they may differ in length."""

    def __init__(self, model: Layer, params: Any, *, threads: int = 0, notice: build.Notice = print) -> None:
        text = text_model(model)
        if type(text.activation) not in ACTIVATIONS:
            raise EngineError(
                f"the native decoder has no {type(text.activation).__name__} yet ({text.activation_name})"
            )
        self.model, self.text, self.threads = model, text, threads  # 0: one for each core, where it pays
        self.context, self.vocabulary = text.context, text.vocabulary
        self.library = build.load(SOURCE, notice)
        self.library.gf_decode_space.restype, self.library.gf_decode.restype = ctypes.c_int64, None
        must_mirror(Decoding, self.library.gf_decoding_size())
        self.panel: int = self.library.gf_panel()
        leaves = named_leaves(params)
        self.emb = np.asarray(leaves[text.emb], np.float32)
        self.pos = None if text.pos is None else np.asarray(leaves[text.pos], np.float32)
        self.rotations = text.rotations()
        self.weights = packed([tuple(weight.of(leaves) for weight in side) for side in text.weights], self.panel)
        self.space = aligned(0)
        self.places = np.zeros(0, np.int32)  # (B): how many tokens each text has had
        self.lanes = np.zeros(0, np.int32)  # (B): where in the caches it lies
        self.make_room(0)

    def make_room(self, lanes: int) -> None:
        """Caches for so many texts. Memory is taken as they grow."""
        text, panel = self.text, self.panel
        slots, D = in_panels(self.context, panel) * panel, text.width // text.heads
        heads = (text.depth, lanes, text.heads)
        self.keys = aligned(*heads, slots // panel, D, panel)
        self.values = aligned(*heads, in_panels(D, panel), slots, panel)

    def start(self, ids: Any, lengths: Any) -> np.ndarray:
        """Read prompts (B, T), padded at the end, of which `lengths` (B) are real: the logits after each, (B, V)."""
        ids, lengths = np.asarray(ids, np.int32), np.asarray(lengths, np.int32)
        self.check_prompts(ids, lengths)
        real = np.arange(ids.shape[1]) < lengths[:, None]
        owner, place = (indices.astype(np.int32) for indices in np.nonzero(real))
        tokens, last, logits = ids[real], place == lengths[owner] - 1, []
        self.check_tokens(tokens)
        if len(ids) > self.keys.shape[1]:
            self.make_room(len(ids))
        for begin in range(0, len(tokens), GROUP):
            group = slice(begin, begin + GROUP)
            wanted = np.flatnonzero(last[group]).astype(np.int32)
            logits.append(self.decode(tokens[group], owner[group], place[group], wanted))
        self.places, self.lanes = lengths.copy(), np.arange(len(ids), dtype=np.int32)
        return np.concatenate(logits)

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
        panels = in_panels(used, self.panel)
        self.make_room(lanes)
        self.keys[:, :had, :, :panels] = keys[:, :, :, :panels]
        self.values[:, :had, :, :, :used] = values[:, :, :, :, :used]

    def copy_text(self, lane: int, to: int, place: int) -> None:
        panels = in_panels(place, self.panel)
        self.keys[:, to, :, :panels] = self.keys[:, lane, :, :panels]
        self.values[:, to, :, :, :place] = self.values[:, lane, :, :, :place]

    def decode(self, tokens: np.ndarray, lanes: np.ndarray, places: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Tokens, each of one text and at its place there, through all blocks; the logits of those that are wanted."""
        text, vocabulary, threads = self.text, self.vocabulary, self.threads_for(len(tokens))
        x = np.ascontiguousarray(self.emb[tokens] if self.pos is None else self.emb[tokens] + self.pos[places])
        logits = np.empty((len(wanted), in_panels(vocabulary, self.panel) * self.panel), np.float32)
        work = Decoding(
            weights=address(self.weights),
            rotations=address(self.rotations),
            keys=address(self.keys),
            values=address(self.values),
            x=address(x),
            logits=address(logits),
            owner=address(lanes),
            place=address(places),
            wanted=address(wanted),
            tokens=len(tokens),
            wants=len(wanted),
            sequences=self.keys.shape[1],
            slots=self.values.shape[-2],
            width=text.width,
            heads=text.heads,
            hidden=text.hidden,
            depth=text.depth,
            vocabulary=vocabulary,
            activation=ACTIVATIONS[type(text.activation)],
            threads=threads,
            eps=text.eps,
            scale=text.scale,
        )
        needed = self.library.gf_decode_space(ctypes.byref(work))
        if needed > self.space.size:
            self.space = aligned(needed)
        work.space = address(self.space)
        self.library.gf_decode(ctypes.byref(work))
        return logits[:, :vocabulary]

    def threads_for(self, tokens: int) -> int:
        return self.threads or (1 if self.weights.size * -(-tokens // 8) < ALONE else cores())

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


def packed(matrices: list[tuple[Any, ...]], panel: int) -> np.ndarray:
    """Each matrix (K, O) as panels (O / panel, K, panel), padded with zeros, one after the other."""
    shapes = [shape_in_panels(parts, panel) for parts in matrices]
    whole, begin = aligned(sum(map(prod, shapes))), 0
    for parts, shape in zip(matrices, shapes, strict=True):
        w = np.atleast_2d(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1))
        into = whole[begin : begin + prod(shape)].reshape(shape)
        full = w.shape[1] // panel
        into[:full] = w[:, : full * panel].reshape(len(w), full, panel).swapaxes(0, 1)
        into[full:, :, : w.shape[1] % panel] = w[:, full * panel :]
        begin += into.size
    return whole


def shape_in_panels(parts: tuple[Any, ...], panel: int) -> tuple[int, int, int]:
    """Of parts that lie side by side; a bias is a matrix of one row."""
    columns = sum(part.shape[-1] for part in parts)
    return in_panels(columns, panel), prod(parts[0].shape[:-1]), panel


def in_panels(n: int, panel: int) -> int:
    return -(-n // panel)
