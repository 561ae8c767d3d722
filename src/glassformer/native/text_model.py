"""A language model as decode.h computes it, read from its structure: whose class it is does not matter.

ids -> embedding [+ learned positions] -> pre-norm blocks of causal attention and feed-forward -> norm -> tied head
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import EngineError
from glassformer.layers import (
    Attention,
    CausalSelfAttention,
    Embedding,
    FeedForward,
    GroupedQueryAttention,
    Layer,
    LayerNorm,
    MultiHeadAttention,
    Positions,
    Rotary,
    TiedHead,
)
from glassformer.structure import Node, Sum, Value, structure

WHOLE = (Embedding, Positions, LayerNorm, CausalSelfAttention, FeedForward, TiedHead)


class Weight(NamedTuple):
    """A matrix (K, O), or one of one row, by the name of its leaf; without a name zeros: a bias that is left out."""

    name: str
    shape: tuple[int, ...]
    transposed: bool = False

    def of(self, leaves: dict[str, Any]) -> np.ndarray:
        leaf = np.asarray(leaves[self.name]) if self.name else np.zeros(self.shape, np.float32)
        return leaf.T if self.transposed else leaf


@dataclass(frozen=True)
class TextModel:
    context: int
    vocabulary: int
    width: int  # C
    heads: int  # H
    hidden: int  # F
    depth: int  # L
    eps: float  # of the norms
    scale: float  # of the scores
    activation: Layer
    activation_name: str
    rotary: Rotary | None
    emb: str  # the table of the embedding, by its name in params
    pos: str | None
    weights: tuple[
        tuple[Weight, ...], ...
    ]  # all but the tables looked up in, as decode.h reads them; a tuple side by side

    def rotations(self) -> np.ndarray | None:
        """Cosines and sines of every place, (context, D): what rotary positions make of the pairs (1, 0)."""
        if self.rotary is None:
            return None
        half = self.width // self.heads // 2
        ones = jnp.concatenate([jnp.ones(half), jnp.zeros(half)])
        y, _ = self.rotary.forward(None, jnp.tile(ones, (1, self.context, 1, 1)))
        return np.ascontiguousarray(y, np.float32)


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
    embed = take(steps, Embedding, graph.x)
    positions = take(steps, Positions, embed.y) if is_a(steps[0], Positions) else None
    stream, blocks = (positions or embed).y, list[Block]()
    while len(steps) > 2 or not blocks:
        norm1 = take(steps, LayerNorm, stream)
        attn = take(steps, CausalSelfAttention, norm1.y)
        stream = take_sum(steps, stream, attn)
        norm2 = take(steps, LayerNorm, stream)
        ff = take(steps, FeedForward, norm2.y)
        stream = take_sum(steps, stream, ff)
        blocks.append(Block(norm1, attn, norm2, ff))
    norm = take(steps, LayerNorm, stream)
    head = take(steps, TiedHead, norm.y)
    must_be_plain(head, positions)
    settings = {settings_of(block) for block in blocks} | {settings_of(blocks[0])._replace(eps=norm.layer.eps)}  # pyright: ignore[reportAttributeAccessIssue]
    if len(settings) > 1:
        raise EngineError("the native decoder has blocks and norms of one kind only, and these have different settings")
    (same,) = settings
    weights = [side for block in blocks for side in weights_of(block)]
    weights += [*norm_weights(norm), (Weight(head.x.emb.param, head.x.emb.shape, transposed=True),)]
    return TextModel(
        context=x.shape[1],
        vocabulary=head.y.shape[-1],
        depth=len(blocks),
        **same._asdict(),
        activation_name=f"{blocks[0].ff.name}.activation",
        emb=embed.params.emb.param,
        pos=None if positions is None else positions.params.pos.param,
        weights=tuple(weights),
    )


def steps_of(node: Node) -> Iterator[Node | Sum]:
    """Layers in their order, and sums; without those that hand on what they were given: dropout, in evaluation."""
    for part in node.parts:
        if isinstance(part, Node) and part.y is part.x:
            continue
        if isinstance(part, Node) and part.is_composite and not isinstance(part.layer, WHOLE):
            yield from steps_of(part)
        else:
            yield part


def is_a(step: Node | Sum, kind: type) -> bool:
    return isinstance(step, Node) and type(step.layer) is kind


def take(steps: deque[Node | Sum], kind: type, x: Value) -> Node:
    """The next step, which must be a layer of this kind at work on x and on nothing else."""
    step = steps.popleft() if steps else None
    if isinstance(step, Node) and type(step.layer) is kind:
        given = step.x.x if kind is TiedHead else step.x
        if keywords := [name for name, value in step.keywords.items() if value is not None]:
            raise EngineError(
                f"the native decoder has no {kind.__name__} with {' and '.join(keywords)} yet ({step.name})"
            )
        if given is x:
            return step
        raise EngineError(f"the native decoder has {kind.__name__} behind the layer before it only ({step.name})")
    raise refused(step, kind.__name__)


def take_sum(steps: deque[Node | Sum], stream: Value, branch: Node) -> Value:
    step = steps.popleft() if steps else None
    if isinstance(step, Sum) and {step.a, step.b} == {stream, branch.y}:
        return step.y
    raise refused(step, f"a residual sum behind {branch.name}")


def refused(step: Node | Sum | None, expected: str) -> EngineError:
    found = f"{type(step.layer).__name__} yet ({step.name})" if isinstance(step, Node) else "such a sum yet"
    return EngineError(f"the native decoder has no {found}: it expects {expected} there")


def must_be_plain(head: Node, positions: Node | None) -> None:
    layer: Any = head.layer
    if head.params is not None or layer.scale != 1:
        raise EngineError(f"the native decoder has a head without bias and scale only ({head.name})")
    if positions is not None and positions.params.pos is None:
        raise EngineError(f"the native decoder has trained positions only ({positions.name})")


class Settings(NamedTuple):
    """What all blocks share."""

    width: int
    heads: int
    hidden: int
    eps: float
    scale: float
    activation: Layer
    rotary: Rotary | None


def settings_of(block: Block) -> Settings:
    attn: Any = block.attn.layer
    norm: Any = block.norm1.layer
    ff: Any = block.ff.layer
    heads, name = attn.multi_head, block.attn.name
    if block.norm2.layer != norm:
        raise EngineError(f"the native decoder has norms of one kind only ({block.norm2.name})")
    attend = heads.attend.plain
    if not isinstance(attend, Attention):
        raise EngineError(f"the native decoder has no {attend.called} yet ({name})")
    if isinstance(heads, MultiHeadAttention) and heads.head_width is None and heads.output:
        rotary = None
    elif isinstance(heads, GroupedQueryAttention) and heads.key_heads == heads.heads:
        rotary = heads.rotary
    else:
        raise EngineError(f"the native decoder has heads of width C / H, with keys of their own and w_o, only ({name})")
    scale = (heads.width // heads.heads) ** -0.5 if attend.scale is None else attend.scale
    return Settings(heads.width, heads.heads, ff.hidden, norm.eps, scale, ff.activation, rotary)


def weights_of(block: Block) -> Iterator[tuple[Weight, ...]]:
    attn, ff = block.attn.params, block.ff.params
    yield from norm_weights(block.norm1)
    yield from side_by_side((attn.w_q, attn.b_q), (attn.w_k, attn.b_k), (attn.w_v, attn.b_v))
    yield from side_by_side((attn.w_o, attn.b_o))
    yield from norm_weights(block.norm2)
    yield from side_by_side((ff.w_up, ff.b_up))
    yield from side_by_side((ff.w_down, ff.b_down))


def side_by_side(*pairs: tuple[Value, Value | None]) -> Iterator[tuple[Weight, ...]]:
    """Matrices, then their biases."""
    yield tuple(Weight(w.param, w.shape) for w, _ in pairs)
    yield tuple(Weight("" if b is None else b.param, w.shape[1:]) for w, b in pairs)


def norm_weights(norm: Node) -> Iterator[tuple[Weight, ...]]:
    gain, bias = norm.params.gain, norm.params.bias
    yield from ((Weight(gain.param, gain.shape),), (Weight(bias.param, bias.shape),))
