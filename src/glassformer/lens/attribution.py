"""Direct attribution: how much each head, each feed-forward branch, embeddings, positions and biases add to a logit.

The stream at the end is a sum of what every part wrote into it, x = embedding + position + sum of heads + … (pre-norm),
and a logit is read from it as  sum over tokens of share_t * norm(x_t) @ w + b,  w the column of that logit and share
1/T under a mean pool, 1 at the class token or at the place asked about, 0 elsewhere. With the norm's own scale kept as
it was (std_inv, rms_inv), this is linear in x:

layer norm     logit = sum_t x_t @ direction_t + bias @ w + b     direction_t = share_t * std_inv_t * centred(gain * w)
RMS norm       logit = sum_t x_t @ direction_t                    direction_t = share_t * rms_inv_t * (gain * w)
centred        v - mean(v): the norm takes the mean of x away, which no direction may then see

so each part has its own summand, and they add up to the logit:
head h         z_h @ w_o[h] @ direction; by the token it was fetched from: pattern[t, s] * v_s @ w_o[h] @ direction_t
feed-forward   hidden @ w_down @ direction

Direct: what a head does through later blocks counts as theirs. Elhage et al., 2021.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import SettingError, ShapeError, UnknownNameError
from glassformer.layers import (
    ClassToken,
    CountedPositions,
    FeedForward,
    FirstToken,
    GatedFeedForward,
    LayerNorm,
    Linear,
    MeanPool,
    Positions,
    RMSNorm,
    TiedHead,
)
from glassformer.lens.residual_stream import is_idle, maker_of, stream_of, value_into
from glassformer.lens.trace import Trace
from glassformer.structure import Node, Sum, Value, structure
from glassformer.tables import html_table, text_table

SHOWN = 12  # parts in a table
NORMS, POOLS, HEADS = (LayerNorm, RMSNorm), (MeanPool, FirstToken), (Linear, TiedHead)  # the linear way out


@dataclass(frozen=True, eq=False)
class Part:
    """One summand of the logit, of each sample."""

    name: str  # what wrote it: blocks.0.attn.z, blocks.0.ff.hidden, embed.y, norm.bias
    head: int | None  # of attention; None elsewhere
    amount: np.ndarray  # (B,)
    at: np.ndarray | None = None  # (B, T): by the token it was written into; None: the head's bias belongs to none
    sources: np.ndarray | None = None  # (B, S): by the token that a head fetched it from

    @property
    def title(self) -> str:
        return self.name if self.head is None else f"{self.name} · head {self.head}"


@dataclass(frozen=True, eq=False)
class Attribution:
    """The summands of one logit, in the order in which the model writes them; prints as a table."""

    label: np.ndarray  # (B,): which logit
    place: np.ndarray | None  # (B,): at which token; None: the model answers for the whole input
    logit: np.ndarray  # (B,): the model's own
    parts: tuple[Part, ...]

    def total(self) -> np.ndarray:
        """The sum of the parts (B,): the logit, but for rounding."""
        return np.sum([part.amount for part in self.parts], axis=0)

    def heads(self, attention: str = "attn") -> np.ndarray:
        """(B, L, H): what each head of each block adds; `cross`: those that look at the source."""
        rows: dict[str, list[np.ndarray]] = {}
        for part in self.parts:
            if part.head is not None and part.name.endswith(f".{attention}.z"):
                rows.setdefault(part.name, []).append(part.amount)
        if not rows:
            raise UnknownNameError(f"attribution: no block has an attention called {attention!r}; expected attn, cross")
        return np.stack([np.stack(row, axis=-1) for row in rows.values()], axis=1)

    def at(self) -> np.ndarray:
        """(B, T): everything that was written into each token; with the head's bias it adds up to the logit."""
        return np.sum([part.at for part in self.parts if part.at is not None], axis=0)

    def rows(self, sample: int = 0, most: int = SHOWN) -> list[list[str]]:
        """The parts that add or take the most, of one sample."""
        order = sorted(self.parts, key=lambda part: -abs(part.amount[sample]))
        rows = [[part.title, f"{part.amount[sample]:+.4f}"] for part in order[:most]]
        if len(order) > most:
            rest = sum(part.amount[sample] for part in order[most:])
            rows.append([f"{len(order) - most} more, together", f"{rest:+.4f}"])
        return rows

    def head(self, sample: int) -> list[str]:
        where = "" if self.place is None else f", token {self.place[sample]}"
        return [f"logit {self.label[sample]}{where}", "adds"]

    def sum(self, sample: int) -> list[str]:
        return ["sum", f"{self.total()[sample]:+.4f}"]

    def table(self, sample: int = 0, most: int = SHOWN) -> str:
        return "\n".join(text_table(self.head(sample), self.rows(sample, most), left=1, total=self.sum(sample)))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return html_table(self.head(0), self.rows(), left=1, total=self.sum(0))


def attribution(trace: Trace, *, label: Any = None, place: Any = None) -> Attribution:
    """The parts of a logit: of `label`, one number or one for each sample (none: the likeliest), and, where a model
    answers at every token, at `place` (none: the last).

    >>> from glassformer.lens.trace import trace
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> found = attribution(trace(run.model, run.params, run.load_data().test.images[:1]))
    >>> [part.title for part in found.parts][:4]
    ['patch.y', 'positions.pos', 'blocks.0.attn.z · head 0', 'blocks.0.attn.b_o']
    """
    head = must_apply(trace)
    logits = np.asarray(trace.logits, np.float64)
    share, place = shares(trace, place)
    here = logits if place is None else logits[np.arange(len(logits)), place]
    label = chosen(here, label)
    w, b = column(trace, head, label)
    direction, constant = reading(trace, share, w)
    parts = [
        *beginnings(trace, direction),
        *branches(trace, direction),
        *([] if constant is None else [constant]),
        *([] if b is None else [b]),
    ]
    return Attribution(label, place, here[np.arange(len(here)), label], tuple(parts))


def must_apply(trace: Trace) -> Node:
    """The head, where the answer is a sum over what was written into the stream."""
    stream, model = stream_of(trace.model), type(trace.model).__name__
    if stream.norm is None:
        raise SettingError(
            f"attribution: {model} is post-norm: every block ends in a norm of the whole stream, so "
            "what a head adds is rescaled and mixed again and again and is no summand of the logit; "
            "gradient x attention and ablation apply to it"
        )
    *between, head = behind(trace)
    for node, known in ((stream.norm, NORMS), *((node, POOLS) for node in between), (head, HEADS)):
        if not isinstance(node.layer, known):
            raise SettingError(
                f"attribution: {node.name} of {model} is a {type(node.layer).__name__}, through which a logit is no "
                "sum over what was written into the stream; gradient x attention and ablation apply to it"
            )
    dropped = next((name for name in trace.values if name.endswith(".keep")), None)
    if dropped is not None:
        raise SettingError(f"attribution: the trace was made with dropout ({dropped}); trace it without a key")
    return head


def behind(trace: Trace) -> list[Node]:
    """The layers behind the last norm: a pool, where there is one, and the head."""
    norm, parts = norm_of(trace), [*structure(trace.model).flat()]
    return [part for part in parts[parts.index(norm) + 1 :] if isinstance(part, Node) and not is_idle(part)]


def shares(trace: Trace, place: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """How much each token counts in the answer (B, T), and the place asked about."""
    B, T = trace[f"{norm_of(trace).name}.y"].shape[:2]
    pool = next((node.layer for node in behind(trace) if isinstance(node.layer, POOLS)), None)
    if pool is not None:
        if place is not None:
            raise SettingError(
                f"attribution: a {type(trace.model).__name__} answers for the whole input; leave place out, and see "
                "Part.at"
            )
        share = np.eye(T)[0] if isinstance(pool, FirstToken) else np.full(T, 1 / T)
        return np.broadcast_to(share, (B, T)), None
    place = np.broadcast_to(np.asarray(-1 if place is None else place), (B,))
    if place.min() < -T or place.max() >= T:
        raise ShapeError(f"attribution: place {place.tolist()} came, expected 0 to {T - 1}, or -1 for the last")
    place = place % T
    return np.eye(T)[place], place


def chosen(logits: np.ndarray, label: Any) -> np.ndarray:
    if label is None:
        return logits.argmax(axis=-1)
    label = np.broadcast_to(np.asarray(label), (len(logits),))
    if label.min() < 0 or label.max() >= logits.shape[-1]:
        raise ShapeError(f"attribution: label {label.tolist()} came, expected 0 to {logits.shape[-1] - 1}")
    return label


def column(trace: Trace, head: Node, label: np.ndarray) -> tuple[np.ndarray, Part | None]:
    """What the head weighs the normed stream with (B, C), and its bias."""
    if isinstance(head.layer, TiedHead):
        w = np.asarray(trace.params[head.x.emb.param], np.float64)[label] * head.layer.scale
    else:
        w = wide(trace, f"{head.name}.w").T[label]
    b = f"{head.name}.b"
    return w, Part(b, None, wide(trace, b)[label]) if b in trace.params else None


def reading(trace: Trace, share: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Part | None]:
    """What the stream is weighed with (B, T, C), and what the norm's bias adds."""
    norm = norm_of(trace)
    weighed = wide(trace, f"{norm.name}.gain") * w
    if isinstance(norm.layer, RMSNorm):
        return (share[..., None] * wide(trace, f"{norm.name}.rms_inv")) * weighed[:, None], None
    centred = weighed - weighed.mean(axis=-1, keepdims=True)
    at = share * (w @ wide(trace, f"{norm.name}.bias"))[:, None]
    direction = (share[..., None] * wide(trace, f"{norm.name}.std_inv")) * centred[:, None]
    return direction, Part(f"{norm.name}.bias", None, at.sum(axis=1), at)


def beginnings(trace: Trace, direction: np.ndarray) -> Iterator[Part]:
    """What goes into the first block."""
    stream = value_into(stream_of(trace.model).blocks[0])
    return summands(trace, stream, wide(trace, stream.names[0]), direction)


def summands(trace: Trace, value: Value, array: np.ndarray, direction: np.ndarray) -> Iterator[Part]:
    """What a value was added up from, back to the layers that made it."""
    maker = maker_of(trace.model, value)
    if isinstance(maker, Sum):
        for part in (maker.a, maker.b):
            yield from summands(trace, part, wide(trace, part.names[0]), direction)
    elif maker is not None and isinstance(maker.layer, Positions | CountedPositions):
        before = wide(trace, maker.x.names[0])
        yield from summands(trace, maker.x, before, direction)
        yield written(f"{maker.name}.pos", array - before, direction)
    elif maker is not None and isinstance(maker.layer, ClassToken):
        in_front = np.zeros_like(array)
        in_front[:, 0] = array[:, 0]
        yield written(f"{maker.name}.token", in_front, direction)
        yield written(maker.x.names[0], array - in_front, direction)
    else:
        yield written(value.names[0], array, direction)


def branches(trace: Trace, direction: np.ndarray) -> Iterator[Part]:
    """What the blocks add, branch by branch."""
    for block in stream_of(trace.model).blocks:
        for part in block.parts:
            if isinstance(part, Sum):
                yield from branch(trace, block, part.b, direction)


def branch(trace: Trace, block: Node, value: Value, direction: np.ndarray) -> Iterator[Part]:
    """What one branch adds: by its heads, by its hidden units, or as a whole."""
    made = [node for node in block.walk() if node.y is value and not is_idle(node)]
    name = made[0].name
    if f"{name}.z" in trace.values and f"{name}.w_o" in trace.params:
        yield from heads(trace, name, direction)
    elif isinstance(made[0].layer, FeedForward | GatedFeedForward):
        onto_hidden = direction @ wide(trace, f"{name}.w_down").T
        at = (wide(trace, f"{name}.hidden") * onto_hidden).sum(axis=-1)
        yield Part(f"{name}.hidden", None, at.sum(axis=1), at)
        yield from bias(trace, f"{name}.b_down", direction)
    else:
        yield written(value.names[0], wide(trace, value.names[0]), direction)


def heads(trace: Trace, attention: str, direction: np.ndarray) -> Iterator[Part]:
    z, pattern, v = (wide(trace, f"{attention}.{name}") for name in ("z", "pattern", "v"))
    w_o = wide(trace, f"{attention}.w_o").reshape(*z.shape[2:], -1)
    onto_z = np.einsum("btc,hdc->bthd", direction, w_o)
    at = np.einsum("bthd,bthd->bht", z, onto_z)
    sources = np.einsum("bhts,bhts->bhs", pattern, np.einsum("bshd,bthd->bhts", v, onto_z))
    for h in range(z.shape[2]):
        yield Part(f"{attention}.z", h, at[:, h].sum(axis=1), at[:, h], sources[:, h])
    yield from bias(trace, f"{attention}.b_o", direction)


def bias(trace: Trace, name: str, direction: np.ndarray) -> Iterator[Part]:
    if name in trace.params:
        at = direction @ wide(trace, name)
        yield Part(name, None, at.sum(axis=1), at)


def written(name: str, values: np.ndarray, direction: np.ndarray) -> Part:
    at = (values * direction).sum(axis=-1)
    return Part(name, None, at.sum(axis=1), at)


def norm_of(trace: Trace) -> Node:
    norm = stream_of(trace.model).norm
    assert norm is not None  # must_apply has refused the others
    return norm


def wide(trace: Trace, name: str) -> np.ndarray:
    return trace[name].astype(np.float64)
