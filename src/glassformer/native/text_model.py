"""A language model as text_stack.h computes it, read from its structure: whose class it is does not matter.

ids -> embedding [+ learned positions] -> pre-norm blocks of causal attention and feed-forward -> norm -> tied head

Norms are layer or RMS norms; heads may share their keys, be normed and rotated; the feed-forward may be gated.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import EngineError
from glassformer.layers import (
    GELU,
    Attention,
    CausalSelfAttention,
    Embedding,
    FeedForward,
    GatedFeedForward,
    GELUTanh,
    GroupedQueryAttention,
    Layer,
    LayerNorm,
    Mask,
    MultiHeadAttention,
    Positions,
    ReLU,
    RMSNorm,
    Rotary,
    ScaledRotary,
    SiLU,
    TiedHead,
)
from glassformer.structure import Node, Sum, Value, structure

NORMS = {LayerNorm: 0, RMSNorm: 1}  # as text_norm.h counts them
ACTIVATIONS = {GELU: 0, GELUTanh: 1, ReLU: 2, SiLU: 3}  # text_activation.h
FEED_FORWARD = (FeedForward, GatedFeedForward)
WHOLE = (Embedding, Positions, *NORMS, CausalSelfAttention, *FEED_FORWARD, TiedHead)
ENDLESS = 2**31 - 1
PARTS = (  # of a block, as text_work.h counts them
    *("gain1", "bias1", "w_qkv", "b_qkv", "gain_q", "gain_k", "w_o", "b_o"),
    *("gain2", "bias2", "w_gate", "b_gate", "w_up", "b_up", "w_down", "b_down"),
)


class Weight(NamedTuple):
    """A matrix (K, O), or one of one row, by the name of its leaf; without a name zeros: a bias that is left out."""

    name: str
    shape: tuple[int, ...]
    transposed: bool = False

    def of(self, leaves: dict[str, Any]) -> np.ndarray:
        leaf = np.asarray(leaves[self.name], np.float32) if self.name else np.zeros(self.shape, np.float32)
        return np.atleast_2d(leaf.T if self.transposed else leaf)


Parts = dict[str, tuple[Weight, ...]]  # of a block; several lie side by side


@dataclass(frozen=True)
class Settings:
    """What all blocks share."""

    width: int  # C
    heads: int  # H
    key_heads: int  # J
    head_width: int  # D
    hidden: int  # F
    eps: float  # of the norms
    head_eps: float  # of those of q and k
    scale: float  # of the scores
    norm: type[Layer]
    activation: Layer
    activation_name: str
    rotary: Rotary | ScaledRotary | None
    window: int | None  # how far a token sees, itself counted


@dataclass(frozen=True)
class TextModel:
    settings: Settings
    context: int  # tokens that a text can have
    vocabulary: int  # 0: there is no head
    emb: str  # the table of the embedding, by its name in params
    pos: str | None  # that of learned positions
    blocks: tuple[Parts, ...]
    others: Parts  # of the norm and the head behind the last block; of an encoder: of the norm before the first
    post_norm: bool = False

    @property
    def depth(self) -> int:
        return len(self.blocks)

    @property
    def longest(self) -> int:
        """Without end where tokens are forgotten and no table of positions ends."""
        return ENDLESS if self.settings.window and self.pos is None else self.context

    def rotations(self, places: int) -> np.ndarray | None:
        """Cosines and sines of every place, (places, D): what rotary positions make of the pairs (1, 0)."""
        if self.settings.rotary is None:
            return None
        D, rotary = self.settings.head_width, self.settings.rotary
        ones = np.tile(np.arange(D) < D // 2, (1, places, 1, 1)).astype(np.float32)
        y = jax.jit(lambda x: rotary.forward(None, x)[0])(ones)  # one program, not one for each operation
        return np.ascontiguousarray(y, np.float32).reshape(places, D)


class Block(NamedTuple):
    norm1: Node
    attn: Node
    norm2: Node
    ff: Node


def text_model(model: Any) -> TextModel:
    """Refuses, by name, what has no C twin."""
    x = model.example(1)
    if not isinstance(x, jax.ShapeDtypeStruct) or x.ndim != 2 or not jnp.issubdtype(x.dtype, jnp.integer):
        raise EngineError(
            f"the native decoder has no {type(model).__name__} yet: it reads one text a row, and nothing else"
        )
    graph = structure(model)
    steps = deque(steps_of(graph))
    embed = take(steps, (Embedding,), graph.x)
    positions = take(steps, (Positions,), embed.y) if is_a(steps[0], (Positions,)) else None
    stream, blocks = (positions or embed).y, list[Block]()
    while len(steps) > 2 or not blocks:
        norm1 = take(steps, (*NORMS,), stream)
        attn = take(steps, (CausalSelfAttention,), norm1.y)
        stream = take_sum(steps, stream, attn)
        norm2 = take(steps, (*NORMS,), stream)
        ff = take(steps, FEED_FORWARD, norm2.y)
        stream = take_sum(steps, stream, ff)
        blocks.append(Block(norm1, attn, norm2, ff))
    norm = take(steps, (*NORMS,), stream)
    head = take(steps, (TiedHead,), norm.y)
    must_be_plain(head, positions)
    emb = head.x.emb
    return TextModel(
        settings=settings_of_all(blocks, [norm]),
        context=x.shape[1],
        vocabulary=head.y.shape[-1],
        emb=embed.params.emb.param,
        pos=None if positions is None else positions.params.pos.param,
        blocks=tuple(map(parts_of, blocks)),
        others=norm_parts(norm, "1") | {"w_qkv": (Weight(emb.param, emb.shape, transposed=True),)},
    )


def steps_of(node: Node, whole: tuple[type, ...] = WHOLE) -> Iterator[Node | Sum]:
    """Layers in their order, and sums; without those that hand on what they were given: dropout, in evaluation."""
    for part in node.parts:
        if isinstance(part, Node) and part.y is part.x:
            continue
        if isinstance(part, Node) and part.is_composite and not isinstance(part.layer, whole):
            yield from steps_of(part, whole)
        else:
            yield part


def is_a(step: Node | Sum, kinds: tuple[type, ...]) -> bool:
    return isinstance(step, Node) and type(step.layer) in kinds


def take(steps: deque[Node | Sum], kinds: tuple[type, ...], x: Value, who: str = "decoder") -> Node:
    """The next step, which must be a layer of one of these kinds at work on x and on nothing else."""
    step = steps.popleft() if steps else None
    if isinstance(step, Node) and type(step.layer) in kinds:
        kind = type(step.layer).__name__
        given = step.x.x if isinstance(step.layer, TiedHead) else step.x
        if keywords := [name for name, value in step.keywords.items() if not is_known(name, value)]:
            raise EngineError(f"the native {who} has no {kind} with {' and '.join(keywords)} yet ({step.name})")
        if given is x:
            return step
        raise EngineError(f"the native {who} has {kind} behind the layer before it only ({step.name})")
    raise refused(step, " or ".join(kind.__name__ for kind in kinds), who)


def is_known(name: str, value: Any) -> bool:
    """Of a layer's keywords: left out, or a mask of a window and nothing else."""
    return value is None or (name == "mask" and value == Mask(window=getattr(value, "window", None)))


def take_sum(steps: deque[Node | Sum], stream: Value, branch: Node, who: str = "decoder") -> Value:
    step = steps.popleft() if steps else None
    if isinstance(step, Sum) and {step.a, step.b} == {stream, branch.y}:
        return step.y
    raise refused(step, f"a residual sum behind {branch.name}", who)


def refused(step: Node | Sum | None, expected: str, who: str) -> EngineError:
    found = f"{type(step.layer).__name__} yet ({step.name})" if isinstance(step, Node) else "such a sum yet"
    return EngineError(f"the native {who} has no {found}: it expects {expected} there")


def must_be_plain(head: Node, positions: Node | None) -> None:
    layer: Any = head.layer
    if head.params is not None or layer.scale != 1:
        raise EngineError(f"the native decoder has a head without bias and scale only ({head.name})")
    if positions is not None and positions.params.pos is None:
        raise EngineError(f"the native decoder has trained positions only ({positions.name})")


def settings_of_all(blocks: list[Block], norms: list[Node], who: str = "decoder") -> Settings:
    """Those that all blocks share, and the norms outside of them."""
    first = settings_of(blocks[0], who)
    every = [settings_of(block, who) for block in blocks]
    every += [replace(first, norm=type(norm.layer), eps=of(norm).eps) for norm in norms]
    every += [replace(first, norm=type(block.norm2.layer), eps=of(block.norm2).eps) for block in blocks]
    if any(replace(one, activation_name="") != replace(first, activation_name="") for one in every):
        raise EngineError(f"the native {who} has blocks and norms of one kind only, and these have different settings")
    return first


def of(node: Node) -> Any:
    """Its layer, whose settings depend on its class."""
    return node.layer


def settings_of(block: Block, who: str) -> Settings:
    heads, ff, name = of(block.attn).multi_head, of(block.ff), block.attn.name
    mask, attend, rotary, norm = block.attn.keywords.get("mask"), heads.attend.plain, None, None
    if not isinstance(attend, Attention):
        raise EngineError(f"the native {who} has no {attend.called} yet ({name})")
    if attend.scale is not None and attend.scale <= 0:
        raise EngineError(f"the native {who} has attention with a scale above 0 only ({name})")
    if type(ff.activation) not in ACTIVATIONS:
        raise EngineError(f"the native {who} has no {type(ff.activation).__name__} yet ({block.ff.name}.activation)")
    if isinstance(heads, GroupedQueryAttention):
        key_heads, D, rotary, norm = heads.key_heads, heads.per_head, heads.rotary, heads.norm
    elif isinstance(heads, MultiHeadAttention) and heads.output:
        key_heads, D = heads.heads, heads.joined // heads.heads
    else:
        raise EngineError(f"the native {who} has heads with w_o only ({name})")
    if rotary is not None and rotary.by_length:
        raise EngineError(f"the native {who} has no rotary positions that change with the length yet ({name})")
    return Settings(
        width=heads.width,
        heads=heads.heads,
        key_heads=key_heads,
        head_width=D,
        hidden=ff.hidden,
        eps=of(block.norm1).eps,
        head_eps=0.0 if norm is None else norm.eps,
        scale=D**-0.5 if attend.scale is None else attend.scale,
        norm=type(block.norm1.layer),
        activation=ff.activation,
        activation_name=f"{block.ff.name}.activation",
        rotary=rotary,
        window=None if mask is None else mask.window,
    )


def parts_of(block: Block) -> Parts:
    attn, ff = block.attn.params, block.ff.params
    parts = norm_parts(block.norm1, "1") | norm_parts(block.norm2, "2")
    parts |= side_by_side("qkv", (attn.w_q, attn.b_q), (attn.w_k, attn.b_k), (attn.w_v, attn.b_v))
    parts |= side_by_side("o", (attn.w_o, attn.b_o))
    for side in ("q", "k"):
        norm = getattr(attn, f"norm_{side}", None)
        parts |= {} if norm is None else {f"gain_{side}": (weight(norm.gain),)}
    if isinstance(block.ff.layer, GatedFeedForward):
        parts |= side_by_side("gate", (ff.w_gate, ff.b_gate))
    return parts | side_by_side("up", (ff.w_up, ff.b_up)) | side_by_side("down", (ff.w_down, ff.b_down))


def side_by_side(name: str, *pairs: tuple[Value, Value | None]) -> Parts:
    """Matrices and their biases; a bias that only some have is 0 for the others."""
    matrices: Parts = {f"w_{name}": tuple(weight(w) for w, _ in pairs)}
    if all(b is None for _, b in pairs):
        return matrices
    return matrices | {f"b_{name}": tuple(Weight("", w.shape[1:]) if b is None else weight(b) for w, b in pairs)}


def norm_parts(norm: Node, number: str) -> Parts:
    gain, bias = norm.params.gain, getattr(norm.params, "bias", None)
    return {f"gain{number}": (weight(gain),)} | ({} if bias is None else {f"bias{number}": (weight(bias),)})


def weight(value: Value) -> Weight:
    return Weight(value.param, value.shape)
