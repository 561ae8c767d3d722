"""Health: what a trace says about how well a model works inside, in numbers and in plain words.

dead units        the share of feed-forward units whose activation is never above zero, over all tokens of the batch
entropy           of a row of a pattern, -sum(p log p) / log(n), n the sources it may see: 0 one alone, 1 all alike
saturation        the share of rows that put almost everything on one source: softmax then passes almost no gradient
positions         norm of what positions add to the tokens, over the norm of the tokens
gradient/weight   norm of a matrix's gradient over the norm of the matrix, beside the median of all matrices
across blocks     norm of the gradient of the stream before the first block, over that behind the last
not finite        NaN or infinity, and where it begins

`health` gives every number, `findings` the sentences of those that are out of bounds. What a row may see is taken from
the mask: padding, whose attention weights are all zero, does not count, neither as a source nor as a row. Rows that see
a single source are left out: they have no choice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from glassformer.layers import CountedPositions, Positions
from glassformer.lens.attention_kind import is_pattern, kind_of, mask_name
from glassformer.lens.residual_stream import maker_of, streams_of
from glassformer.lens.trace import Trace
from glassformer.names import gradient_name
from glassformer.structure import Node, Sum, Value, structure
from glassformer.tables import html_table

Measure = Literal["dead units", "entropy", "saturation", "positions", "gradient/weight", "across blocks", "not finite"]

FIRES = 1e-4  # an activation above this; GELU gives tiny values on both sides of zero
DEAD = 0.25  # a quarter of the units: as good as a narrower layer, while all are paid for
ENOUGH = 32  # tokens before a silent unit counts as dead: with half of them firing by chance, 2^-32 stay silent
ALIKE = 0.98  # of the largest entropy: the head takes the mean of all it sees, which needs no attention
SATURATED = 0.99  # of a row on one source: dscores = p (…) is then below a hundredth of dpattern
MOST_ROWS = 0.9  # of a head: half is common where a decoder copies, and no harm; nearly all, and nothing moves it
LOUD = 10.0  # positions this much stronger than tokens: a norm leaves a tenth of the value for what the token is
FAINT = 0.02  # weaker than a fiftieth: below the differences that tokens themselves make
FAST, SLOW = 100.0, 0.01  # times the median gradient/weight: one learning rate cannot suit both ends
GROWS, SHRINKS = 100.0, 0.01  # across all blocks; small embeddings alone make it grow tenfold and more (1 / spread)
UNSAID = ("bert", "ff", "attn", "pattern", "hidden", "gate", "y")  # words of names that a sentence does without


@dataclass(frozen=True)
class Finding:
    """One number, what it is about, and a sentence that says it."""

    measure: Measure
    name: str  # dotted: of the value or parameter it was taken from
    value: float
    text: str
    alarming: bool  # out of bounds


def findings(trace: Trace) -> list[str]:
    """What stands out, a sentence each; empty where nothing does.

    >>> from glassformer.lens.trace import trace
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> findings(trace(run.model, run.params, run.load_data().test.images[:8]))
    []
    """
    return [finding.text for finding in health(trace) if finding.alarming]


class Findings(list[Finding]):
    """A list that prints as a table, what stands out first."""

    def rows(self) -> list[list[str]]:
        order = sorted(self, key=lambda one: not one.alarming)
        return [[one.measure, f"{one.value:.4g}", "!" if one.alarming else "", one.text] for one in order]

    def __str__(self) -> str:
        return "\n".join(" ".join(filter(None, ["!" if one.alarming else " ", one.text])) for one in self)

    def _repr_html_(self) -> str:
        return html_table(["measure", "value", "stands out", "in words"], self.rows(), left=1)


def health(trace: Trace) -> Findings:
    """Every number, in the order of the model. Where something is not finite, only that: the rest would be too."""
    broken = list(not_finite(trace))
    if broken:
        return Findings(broken)
    patterns = list(seen_patterns(trace))
    return Findings(
        [
            *positions(trace),
            *dead_units(trace, patterns),
            *(finding for one in patterns for finding in attention(one)),
            *across_blocks(trace),
            *gradient_to_weight(trace),
        ]
    )


def not_finite(trace: Trace) -> Iterator[Finding]:
    """The first of each section; what follows from it is counted."""
    for section, arrays in trace.sections().items():
        broken = {name: share for name, array in arrays.items() if (share := share_not_finite(array)) > 0}
        if broken:
            first, share = next(iter(broken.items()))
            more = f", and {len(broken) - 1} more behind it" if len(broken) > 1 else ""
            text = f"{first} ({section}): {percent(share)} of its values are not finite{more}"
            yield Finding("not finite", first, share, text, alarming=True)


def share_not_finite(array: Any) -> float:
    values = np.asarray(array) if np.issubdtype(array.dtype, np.inexact) else np.zeros(1)
    return float(1 - np.isfinite(values).mean()) if values.size else 0.0


class Seen(NamedTuple):
    """A pattern, and what its rows may see."""

    name: str
    pattern: np.ndarray  # (B, H, T, S)
    sources: np.ndarray  # (B, S): False at padding
    visible: np.ndarray  # (B, T): how many sources each row may see; 0 where the row itself is padding


def seen_patterns(trace: Trace) -> Iterator[Seen]:
    for name in filter(is_pattern, trace.values):
        pattern = trace[name]
        kind, (T, S) = kind_of(trace.model, name), pattern.shape[2:]
        sources = np.asarray((pattern > 0).any(axis=(1, 2)))
        mask = trace.values.get(mask_name(name))
        may = np.broadcast_to(True if mask is None else np.asarray(mask)[:, 0], (len(pattern), T, S))
        visible = (may & sources[:, None]).sum(axis=-1)
        rows = np.ones((len(pattern), T), bool) if kind == "cross" else sources
        yield Seen(name, pattern, sources, np.where(rows, visible, 0))


def attention(seen: Seen) -> Iterator[Finding]:
    """Entropy and saturation of each head."""
    counted = seen.visible > 1  # (B, T)
    if not counted.any():
        return
    p = seen.pattern.swapaxes(0, 1)[:, counted].astype(np.float64)  # (H, rows, S)
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1) / np.log(seen.visible[counted])
    saturated = (p.max(axis=-1) > SATURATED).mean(axis=-1)
    for head, (mean, share) in enumerate(zip(entropy.mean(axis=-1).tolist(), saturated.tolist(), strict=True)):
        where = f"{called(seen.name)}, head {head}"
        text = f"{where}: the entropy of its attention is {percent(mean)} of the largest there is"
        if mean > ALIKE:
            text += ": it looks at everything alike, and only averages"
        yield Finding("entropy", seen.name, mean, text, alarming=mean > ALIKE)
        text = f"{where}: {percent(share)} of its rows put more than {percent(SATURATED)} on one token"
        if share > MOST_ROWS:
            text += ": saturated, hardly a gradient passes its softmax"
        yield Finding("saturation", seen.name, share, text, alarming=share > MOST_ROWS)


def dead_units(trace: Trace, patterns: list[Seen]) -> Iterator[Finding]:
    """Of feed-forward layers (of a gated one, the gate), and of ReLUs that stand by themselves."""
    for name in trace.values:
        if not is_activation(name, trace.values):
            continue
        units = trace[name]
        what = "tokens" if units.ndim == 3 else "samples"
        units = units[real_tokens(name, units, patterns)]
        silent = float((units.max(axis=0) <= FIRES).mean())
        kind = "feed-forward units" if "ff" in name.split(".") else "units"
        text = f"{called(name)}: {percent(silent)} of {kind} never fire, over {len(units):,} {what}"
        yield Finding("dead units", name, silent, text, alarming=silent > DEAD and len(units) >= ENOUGH)


def is_activation(name: str, values: Mapping[str, Any]) -> bool:
    head, _, last = name.rpartition(".")
    if head.rpartition(".")[2] == "ff":
        return last == "gate" or (last == "hidden" and f"{head}.gate" not in values)
    return head.split(".")[0] == "relu" and last == "y"


def real_tokens(name: str, units: np.ndarray, patterns: list[Seen]) -> np.ndarray:
    """Where a token is (B, T), by the attention of the same block; everywhere if that cannot be told."""
    block = name.rpartition(".ff.")[0]
    for seen in patterns:
        if seen.name == f"{block}.attn.pattern".lstrip(".") and units.shape[:2] == seen.sources.shape:
            return seen.sources
    return np.ones(units.shape[:-1], bool)


def positions(trace: Trace) -> Iterator[Finding]:
    for node in structure(trace.model).walk():
        if isinstance(node.layer, Positions | CountedPositions):
            yield from added_positions(trace, node)


def added_positions(trace: Trace, node: Node) -> Iterator[Finding]:
    added_to, name = names_of_summands(trace.model, node.x), f"{node.name}.y"
    if not all(part in trace.values for part in (*added_to, name)):
        return
    tokens = np.sum([trace[part].astype(np.float64) for part in added_to], axis=0)
    strength = norm(trace[name] - tokens)
    ratio = strength / norm(tokens) if norm(tokens) else float("inf")
    text = f"positions: {times(ratio)} as strong as the tokens they are added to"
    if ratio > LOUD:
        text += ": what the tokens are is hardly heard"
    elif ratio < FAINT:
        text += ": where the tokens stand is hardly heard"
    yield Finding("positions", name, ratio, text, alarming=not FAINT <= ratio <= LOUD)


def names_of_summands(model: Any, value: Value) -> tuple[str, ...]:
    """A sum that carries no name is told by what was added up."""
    maker = maker_of(model, value)
    if value.names or not isinstance(maker, Sum):
        return tuple(value.names[:1])
    return (*names_of_summands(model, maker.a), *names_of_summands(model, maker.b))


def across_blocks(trace: Trace) -> Iterator[Finding]:
    """How the gradient of the stream fares on its way back: behind the last block, and before each."""
    if not trace.gradients:
        return
    for stream in streams_of(trace.model):
        names = [*map(gradient_name, stream.starts()), gradient_name(stream.ends()[-1])]
        if not all(name in trace.gradients for name in names):
            continue
        norms = [norm(trace[name]) for name in names]
        if norms[-1] == 0:
            continue
        ratio = norms[0] / norms[-1]
        where = f"{called(stream.name)}, gradient from the last block back to the first"
        text = f"{where}: {times(ratio)} as large"
        if ratio > GROWS or ratio < SHRINKS:
            steps = [norms[i] / norms[i + 1] if norms[i + 1] else 1.0 for i in range(len(norms) - 1)]
            worst = int(np.argmax(np.abs(np.log(np.maximum(steps, 1e-30)))))
            word = "it explodes" if ratio > GROWS else "it vanishes"
            text += f": {word}, most of all in block {worst} ({times(steps[worst])})"
        yield Finding("across blocks", names[0], ratio, text, alarming=not SHRINKS <= ratio <= GROWS)


def gradient_to_weight(trace: Trace) -> Iterator[Finding]:
    """Of every matrix: a bias that is still zero has no ratio, and that of a key never has a gradient."""
    ratios = {
        name: norm(d) / norm(trace.params[name])
        for name, d in trace.param_gradients.items()
        if np.ndim(d) >= 2 and norm(trace.params[name]) > 0
    }
    if not ratios:
        return
    median = float(np.median(list(ratios.values())))
    for name, ratio in ratios.items():
        text = f"{name}: its gradient is {ratio:.2g} of its size"
        beside = ratio / median if median else 1.0
        if ratio == 0:
            text = f"{name}: its gradient is zero: it does not learn from this"
        elif beside > FAST:
            text += f", {times(beside)} the median of all matrices: it learns much faster than the rest"
        elif beside < SLOW:
            text += f", {times(beside)} the median of all matrices: it hardly learns beside the rest"
        yield Finding("gradient/weight", name, ratio, text, alarming=ratio == 0 or not SLOW <= beside <= FAST)


def called(name: str) -> str:
    """`blocks.0.attn.pattern` -> `block 0`, `decoder.blocks.1.cross.pattern` -> `decoder block 1, cross`."""
    words = [word for word in name.split(".") if word not in UNSAID]
    said = " ".join(words).replace("blocks ", "block ").replace(" cross", ", cross")
    return said or ("feed-forward" if name.startswith("ff.") else "attention")


def percent(share: float) -> str:
    """With a digit more where it is almost all, or almost nothing."""
    shown = 100 * share
    return f"{shown:.0f} %" if 1 <= shown <= 99 else f"{f'{shown:.1f}'.removesuffix('.0')} %"


def times(ratio: float) -> str:
    return f"{ratio:.2g} times"


def norm(array: Any) -> float:
    return float(np.linalg.norm(np.asarray(array, np.float64)))
