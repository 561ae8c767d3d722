"""A stack of blocks in C (native/c/text_stack.h), with its weights where they are read fastest: tokens in, logits out.

What a token costs is reading every weight once. So the weights are copied once, in the order in which they are read and
in the layout that is read fastest (native/c/panels.h), and all rows of a batch share one pass over them.
"""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.cores import cores
from glassformer.native import build
from glassformer.native.engine import address, aligned, must_mirror
from glassformer.native.packed_weights import KINDS, Kind, packed
from glassformer.native.text_model import ACTIVATIONS, NORMS, TextModel

SOURCE = '/* A text model of any size. */\n#include "text_stack.h"\n'
ALONE = 4_000_000  # weights: one thread has read them, or used them for 8 tokens, before it had help from another


class TextWork(ctypes.Structure):
    """text_work.h's `text_work`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("weights", "parts", "rotations", "keys", "values", "x", "y", "space")),
        *((name, ctypes.c_void_p) for name in ("owner", "place", "wanted", "length")),
        *((name, ctypes.c_int32) for name in ("tokens", "wants", "sequences", "slots")),
        *((name, ctypes.c_int32) for name in ("width", "heads", "key_heads", "head_width", "hidden")),
        *((name, ctypes.c_int32) for name in ("depth", "vocabulary", "kind", "cache_kind", "cache_layers")),
        *((name, ctypes.c_int32) for name in ("norm", "post_norm", "window", "activation", "threads")),
        *((name, ctypes.c_float) for name in ("eps", "head_eps", "scale")),
    )


class Room:
    """Memory to compute in, kept from one call to the next. Calls at the same time need a room each."""

    def __init__(self) -> None:
        self.space = aligned(0)

    def at_least(self, floats: int) -> np.ndarray:
        if floats > self.space.size:
            self.space = aligned(floats)
        return self.space


class TextStack:
    """The blocks of a text model and what stands around them, but for the tables that are looked up in."""

    def __init__(
        self,
        text: TextModel,
        leaves: dict[str, Any],
        *,
        kind: Kind = "float32",
        folder: Path | None = None,
        threads: int = 0,  # one for each core, where it pays
        notice: build.Notice = print,
    ) -> None:
        self.text, self.kind, self.threads = text, kind, threads
        self.library = build.load(SOURCE, notice)
        self.library.gf_text_space.restype, self.library.gf_text_stack.restype = ctypes.c_int64, None
        must_mirror(TextWork, self.library.gf_text_work_size())
        self.panel: int = self.library.gf_panel()
        self.weights, self.parts, self.matrices = packed(self.library, text, leaves, kind, folder, notice)
        self.room = Room()

    @property
    def is_narrow(self) -> bool:
        """Whether keys and values are kept as bf16: beside narrow weights float32 would be most of what is read."""
        return self.kind != "float32"

    def cache(self, layers: int, texts: int, slots: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values of so many texts. Memory is taken as they grow."""
        own, panel = self.text.settings, self.panel
        heads = (layers, texts, own.key_heads)
        shapes = (
            (*heads, slots // panel, own.head_width, panel),
            (*heads, in_panels(own.head_width, panel), slots, panel),
        )
        keys, values = (aligned_halves(*shape) if self.is_narrow else aligned(*shape) for shape in shapes)
        return keys, values

    def run(
        self,
        x: np.ndarray,
        owner: np.ndarray,
        place: np.ndarray,
        wanted: np.ndarray,
        cache: tuple[np.ndarray, np.ndarray],
        *,
        rotations: np.ndarray | None = None,
        length: np.ndarray | None = None,  # of each text, where all its tokens see all of them
        room: Room | None = None,  # of a caller who computes beside others, each on one thread
    ) -> np.ndarray:
        """Embedded tokens (N, C), each of one text and at its place there, through all blocks: the logits (W, V) of
        those that are wanted, or their values (W, C)."""
        text, own, (keys, values) = self.text, self.text.settings, cache
        columns = in_panels(text.vocabulary, self.panel) * self.panel or own.width
        y = np.empty((len(wanted), columns), np.float32)
        work = TextWork(
            weights=address(self.weights),
            parts=address(self.parts),
            rotations=address(rotations),
            keys=address(keys),
            values=address(values),
            x=address(x),
            y=address(y),
            owner=address(owner),
            place=address(place),
            wanted=address(wanted),
            length=address(length),
            tokens=len(x),
            wants=len(wanted),
            sequences=keys.shape[1],
            slots=values.shape[-2],
            width=own.width,
            heads=own.heads,
            key_heads=own.key_heads,
            head_width=own.head_width,
            hidden=own.hidden,
            depth=text.depth,
            vocabulary=text.vocabulary,
            kind=KINDS.index(self.kind),
            cache_kind=int(self.is_narrow),
            cache_layers=keys.shape[0],
            norm=NORMS[own.norm],
            post_norm=text.post_norm,
            window=own.window or 0,
            activation=ACTIVATIONS[type(own.activation)],
            threads=1 if room else self.threads_for(len(x)),
            eps=own.eps,
            head_eps=own.head_eps,
            scale=own.scale,
        )
        work.space = address((room or self.room).at_least(self.library.gf_text_space(ctypes.byref(work))))
        self.library.gf_text_stack(ctypes.byref(work))
        return y[:, : text.vocabulary or own.width]

    def threads_for(self, tokens: int) -> int:
        return self.threads or (1 if self.matrices * -(-tokens // 8) < ALONE else cores())


def aligned_halves(*shape: int) -> np.ndarray:
    """Zeros of two bytes each, on a line of memory."""
    size = int(np.prod(shape, dtype=np.int64))
    return aligned(-(-size // 2)).view(np.uint16)[:size].reshape(shape)


def in_panels(n: int, panel: int) -> int:
    return -(-n // panel)
