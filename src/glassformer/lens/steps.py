"""A model as a walk from its input to its loss: one step per layer, with the formulas its own file states.

Which layer made a group of values is read off their names (scores: attention; std_inv: layer norm), so a new model
needs nothing here. Formulas are the `forward` and `backward` lines of that layer's docstring, never typed again.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import groupby

from glassformer.names import gradient_name, last_word

INNER = ("activation", "rotary_q", "rotary_k")  # scopes that are shown inside the layer they belong to
TITLES = {
    "prepare": "Standardise the input",
    "patches": "Cut into patches",
    "patch": "Embed each patch",
    "class_token": "Put a class token in front",
    "embed": "Look up each token",
    "embed_target": "Look up each target token",
    "segment": "Look up the segment",
    "positions": "Add positions",
    "norm": "Normalise",
    "attn": "Attention",
    "cross": "Cross-attention",
    "ff": "Feed-forward",
    "resid_pre": "The stream comes in",
    "resid_mid": "Add to the stream",
    "resid_cross": "Add to the stream",
    "resid_post": "Add to the stream",
    "sum": "Add what came past",
    "pool": "Pool the tokens",
    "last": "Take the last token",
    "first": "Take the first token",
    "head": "Read out the answer",
    "loss": "Loss",
    "relu": "Keep what is positive",
    "spread": "Spread over tokens",
    "bias": "Bias by distance",
    "cells": "Recurrent cell",
    "layers": "Linear layer",
}
SHORT = {  # where a title is too long to stand in a row with all others
    "prepare": "Standardise",
    "patches": "Patches",
    "patch": "Embed",
    "class_token": "Class token",
    "embed": "Look up",
    "embed_target": "Look up target",
    "segment": "Segment",
    "positions": "Positions",
    "norm": "Norm",
    "resid_pre": "In",
    "resid_mid": "Add",
    "resid_cross": "Add",
    "resid_post": "Add",
    "sum": "Add",
    "pool": "Pool",
    "last": "Last token",
    "first": "First token",
    "head": "Read out",
    "relu": "ReLU",
    "spread": "Spread",
}
# the first whose words are all among the values and weights of a step
LAYERS = [
    ({"gate_pre", "hidden"}, ("layers.gated_feed_forward",)),
    ({"hidden_pre", "hidden"}, ("layers.feed_forward",)),
    ({"scores", "k_shared"}, ("layers.grouped_query", "layers.attention")),
    ({"scores", "query"}, ("layers.multi_head", "layers.attention")),
    ({"scores"}, ("layers.attention",)),
    ({"std_inv"}, ("layers.layer_norm",)),
    ({"rms_inv"}, ("layers.rms_norm",)),
    ({"bucket"}, ("layers.relative_bias",)),
    ({"log_p"}, ("losses.cross_entropy",)),
    ({"emb", "logits"}, ("layers.tied_head",)),
    ({"emb", "ids"}, ("layers.embedding",)),
    ({"ids"}, ("layers.embedding",)),
    ({"w", "x", "y"}, ("layers.linear",)),
    ({"pos"}, ("layers.positions",)),
    ({"token"}, ("layers.class_token",)),
    ({"c", "pre"}, ("layers.lstm",)),
    ({"m", "from_h"}, ("layers.gru",)),
    ({"h", "pre"}, ("layers.rnn",)),
    ({"resid_mid"}, ("layers.pre_norm_block",)),
    ({"resid_cross"}, ("layers.pre_norm_decoder_block",)),
    ({"resid_post"}, ("layers.pre_norm_block",)),
    ({"sum1"}, ("layers.post_norm_block",)),
    ({"sum2"}, ("layers.post_norm_block",)),
]
BY_SCOPE = {
    "prepare": ("layers.standardise",),
    "patches": ("layers.patches",),
    "positions": ("layers.positions",),
    "relu": ("layers.relu",),
}
EQUATION = re.compile(r"([\w', ]+?)(?:\[[^\]]*\])? = ")


@dataclass(frozen=True)
class Step:
    """One layer of the walk. Values and gradients come in the order they were made."""

    id: str  # blocks.0.attn
    title: str
    short: str  # the same in a word or two
    where: str  # block 0; nothing outside of blocks
    about: str  # the first line of the layer's docstring
    forward: tuple[str, ...]  # formulas
    backward: tuple[str, ...]
    values: tuple[str, ...]
    gradients: tuple[str, ...]
    weights: tuple[str, ...]


def steps_of(
    values: Iterable[str],
    gradients: Iterable[str],
    weights: Iterable[str],
    same: Iterable[str] = (),
    told: Mapping[str, str] | None = None,
) -> list[Step]:
    """Steps in the order of forward. `same` are names whose value stands under an earlier name: alone, they are none.

    `told` are the modules of scopes whose layer no name tells: {"pool": "layers.mean_pool"}.
    """
    values, gradients, weights, same = list(values), list(gradients), list(weights), set(same)
    around = {name.rpartition(".inner.")[0] for name in values if ".inner." in name}  # residuals
    steps = []
    for owner, run in groupby(values, key=owner_of):
        names = tuple(run)
        if all(name in same for name in names) or is_idle(owner, names):
            continue
        at_block = re.search(r"(^|\.)\d+$", owner) is not None and last_word(names[-1]).startswith(
            ("resid", "sum", "x")
        )
        own_weights = () if at_block else tuple(name for name in weights if owner_of(name) == owner)
        if at_block:
            back = tuple(name for name in map(gradient_name, names) if name in gradients)
        else:
            back = tuple(name for name in gradients if owner_of(name) == owner)
        words = {last_word(name) for name in (*names, *own_weights)}
        is_residual = owner in around and words == {"y"}
        modules = ("layers.residual",) if is_residual else modules_of(owner, words, told or {})
        called = "resid_post" if is_residual else names[-1] if at_block else owner
        steps.append(
            Step(
                id=names[-1] if at_block else owner,
                title=title_of(called),
                short=title_of(called, {**TITLES, **SHORT}),
                where=where_of(owner),
                about=about(modules[0]) if modules else "",
                forward=tuple(own_formulas(nested(modules, "forward"), names if at_block else ())),
                backward=tuple(nested(modules, "backward")),
                values=names,
                gradients=back,
                weights=own_weights,
            )
        )
    return steps


def owner_of(name: str) -> str:
    """The scope a value belongs to; what an inner layer tags belongs to the layer around it."""
    parts = name.split(".")[:-1]
    while parts and parts[-1] in INNER:
        parts.pop()
    return ".".join(parts)


def is_idle(owner: str, names: tuple[str, ...]) -> bool:
    """Dropout that drops nothing."""
    return last_word(owner).startswith("drop") and len(names) == 1


def title_of(name: str, titles: Mapping[str, str] = TITLES) -> str:
    word = word_of(name) or name
    return titles.get(word) or titles.get(word.rstrip("0123456789")) or word.replace("_", " ").capitalize()


def word_of(owner: str) -> str:
    """The word that says what a scope is: `blocks.0.attn` and `attn.inner` are both `attn`."""
    return next((part for part in reversed(owner.split(".")) if not part.isdecimal() and part != "inner"), "")


def where_of(owner: str) -> str:
    """`decoder.blocks.1.ff` -> `decoder · block 1`."""
    parts = owner.split(".")
    found = [part for part in parts if part in ("encoder", "decoder")]
    if "blocks" in parts:
        found.append(f"block {parts[parts.index('blocks') + 1]}")
    return " · ".join(found)


def modules_of(owner: str, words: set[str], told: Mapping[str, str]) -> tuple[str, ...]:
    scope = word_of(owner)
    if scope in told:
        return (told[scope],)
    for needed, modules in LAYERS:
        if needed <= words:
            return modules
    return BY_SCOPE.get(scope.rstrip("0123456789"), ())


@cache
def docstring(module: str) -> str:
    return import_module(f"glassformer.{module}").__doc__ or ""


def about(module: str) -> str:
    return docstring(module).partition("\n")[0]


@cache
def formulas(module: str, direction: str) -> tuple[str, ...]:
    """The lines after `forward` or `backward`, one formula each: they stand beside each other with wide gaps.

    >>> formulas("layers.linear", "backward")[0]
    'dx = dy @ w^T'
    """
    lines: list[str] = []
    inside = False
    for line in docstring(module).splitlines():
        begins = re.match(r"(forward|backward)\s{2,}", line)
        if begins:
            inside = begins[1] == direction
            line = line[begins.end() :]
        elif not line.startswith("  "):
            inside = False
        if inside and line.strip():
            lines += (re.sub(r"\s+", " ", formula) for formula in re.split(r"\s{3,}", line.strip()))
    return tuple(lines)


def nested(modules: tuple[str, ...], direction: str) -> list[str]:
    """The formulas of a layer; those of the layer inside it stand where it is called, before the last line."""
    found: list[str] = []
    for module in reversed(modules):
        lines = list(formulas(module, direction))
        if not found:
            found = lines
        else:
            found = [*lines[:-1], *found, *lines[-1:]] if direction == "forward" else [*lines, *found]
    return found


def own_formulas(found: list[str], names: tuple[str, ...]) -> list[str]:
    """Of a block, only the lines that these values stand on the left of, where there are such lines."""
    return [formula for formula in found if defines(formula, names)] or found


def defines(formula: str, names: tuple[str, ...]) -> bool:
    return any(re.match(rf"{re.escape(last_word(name))}\s*=", formula) for name in names)


def equation_of(name: str, formulas: Iterable[str]) -> str:
    """The formula whose left side is this value.

    >>> equation_of("blocks.0.attn.dq", ["dq = dscores @ k * scale", "dk = dscores^T @ q * scale"])
    'dq = dscores @ k * scale'
    """
    word = last_word(name)
    for formula in formulas:
        found = EQUATION.match(formula)
        if found and word in [one.strip() for one in found[1].split(",")]:
            return formula
    return ""
