"""How each number came about: of every value and gradient, which others it is made of and by what kind of arithmetic.

The page multiplies, adds and shows the terms of one cell; here only the names are put together. A test works every
cell out again from these names and compares it with what the model computed.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

Provenance = dict[str, Any]


class Rule(NamedTuple):
    word: str  # the last part of the name: scores
    kind: str  # the arithmetic, by name; web/explain.js has one function for each
    parts: dict[str, str]  # role -> name in the same scope; one in brackets may be missing
    unless: str = ""  # not where this name is in the scope


def linear(word: str, x: str, w: str, b: str, unless: str = "") -> Rule:
    return Rule(word, "linear", {"x": x, "w": w, "b": f"({b})"}, unless)


RULES = [
    linear("q", "query", "w_q", "b_q", unless="rotary_q.y"),
    linear("rotary_q.x", "query", "w_q", "b_q"),
    linear("k", "memory", "w_k", "b_k", unless="k_shared"),
    linear("rotary_k.x", "memory", "w_k", "b_k"),
    linear("k_shared", "memory", "w_k", "b_k", unless="rotary_k.y"),
    linear("v", "memory", "w_v", "b_v", unless="v_shared"),
    linear("v_shared", "memory", "w_v", "b_v"),
    Rule("scores", "scores", {"q": "q", "k": "k", "bias": "(bias)"}),
    Rule("pattern", "softmax", {"scores": "scores"}),
    Rule("z", "mix", {"pattern": "pattern", "v": "v"}),
    Rule("joined", "join", {"z": "z"}),
    linear("y", "joined", "w_o", "b_o"),
    linear("hidden_pre", "x", "w_up", "b_up"),
    linear("gate_pre", "x", "w_gate", "b_gate"),
    linear("up", "x", "w_up", "b_up", unless="hidden_pre"),
    Rule("hidden", "product", {"a": "gate", "b": "up"}),
    Rule("hidden", "activation", {"x": "hidden_pre"}),
    linear("y", "hidden", "w_down", "b_down"),
    linear("y", "x", "w", "b"),
    Rule("logits", "linear_t", {"x": "x", "w": "emb", "b": "(b)"}),
    Rule("xhat", "standard", {"x": "", "inverse": "std_inv"}),
    Rule("xhat", "scaled", {"x": "", "inverse": "rms_inv"}),
    Rule("y", "affine", {"x": "xhat", "gain": "gain", "bias": "(bias)"}),
    # backward
    Rule("dpattern", "dpattern", {"dz": "dz", "v": "v"}),
    Rule("dscores", "dsoftmax", {"pattern": "pattern", "dpattern": "dpattern"}),
    Rule("dq", "dq", {"dscores": "dscores", "k": "k"}),
    Rule("dk", "dk", {"dscores": "dscores", "q": "q"}),
    Rule("dv", "dv", {"pattern": "pattern", "dz": "dz"}),
    Rule("dz", "split", {"joined": "djoined"}),
    Rule("djoined", "linear_t", {"x": "dy", "w": "w_o"}),
    Rule("dhidden", "linear_t", {"x": "dy", "w": "w_down"}),
    Rule("dx", "linear_t", {"x": "dhidden_pre", "w": "w_up"}),
    Rule("dx", "linear_t", {"x": "dy", "w": "w"}),
    Rule("dx", "linear", {"x": "dlogits", "w": "emb"}),
    Rule("dquery", "linear_t", {"x": "dq", "w": "w_q"}, unless="rotary_q.y"),
    Rule("dx", "sum", {"a": "dquery", "b": "dmemory"}),
    Rule("dxhat", "affine", {"x": "dy", "gain": "gain"}),
    # weights
    *(
        Rule(f"d{w}", "outer", {"x": x, "dy": dy}, unless)
        for w, x, dy, unless in [
            ("w", "x", "dy", ""),
            ("w_q", "query", "dq", "rotary_q.y"),
            ("w_k", "memory", "dk", "k_shared"),
            ("w_v", "memory", "dv", "v_shared"),
            ("w_o", "joined", "dy", ""),
            ("w_up", "x", "dhidden_pre", ""),
            ("w_down", "hidden", "dy", ""),
            ("emb", "dlogits", "x", ""),
        ]
    ),
    *(
        Rule(f"d{b}", "total", {"dy": dy}, unless)
        for b, dy, unless in [
            ("b", "dy", ""),
            ("b_q", "dq", "rotary_q.y"),
            ("b_k", "dk", "k_shared"),
            ("b_v", "dv", "v_shared"),
            ("b_o", "dy", ""),
            ("b_up", "dhidden_pre", ""),
            ("b_down", "dy", ""),
        ]
    ),
]

SCALED = ("scores", "dq", "dk")
WRITTEN = {
    "linear": "{x} @ {w}",
    "linear_t": "{x} @ {w}^T",
    "outer": "{x}^T @ {dy}",
    "total": "{dy}, summed over all tokens",
    "sum": "{a} + {b}",
    "product": "{a} * {b}",
    "affine": "{x} * {gain}",
    "scaled": "{x} * {inverse}",
    "join": "the heads of {z} side by side",
    "split": "{joined}, split into heads",
    "activation": "activation({x})",
    "mean": "mean of {x} over the tokens",
    "first": "{x} of the first token",
    "row": "{table}[{ids}]",
}


def provenance_of(
    name: str, known: Collection[str], before: Callable[[str], str], scales: dict[str, float]
) -> Provenance | None:
    """The first rule that fits: {"kind": "linear", "x": "patch.x", "w": "patch.w", "b": "patch.b"}; None: no rule does.

    `before` gives the value that went into the layer, which the layer itself does not name, or what seems to be it;
    `scales` are those of attention and of tied heads.
    """
    for rule in RULES:
        scope = within(name, rule.word)
        if scope is None or (rule.unless and f"{scope}{rule.unless}" in known):
            continue
        made: Provenance = {"kind": rule.kind}
        for role, word in rule.parts.items():
            part = before(name) if not word else f"{scope}{word.strip('()')}"
            if part in known:
                made[role] = part
            elif not word.startswith("("):
                break
        else:
            if rule.kind in SCALED or "dlogits" in rule.parts.values() or rule.word == "logits":
                made["scale"] = scales[scope.rstrip(".")]
            return made
    return sums(name, known) or positions(name, known, before)


def written_out(name: str, made: Provenance | None) -> str:
    """The formula of a value whose layer does not state it.

    >>> written_out("attn.djoined", {"kind": "linear_t", "x": "attn.dy", "w": "attn.w_o"})
    'djoined = dy @ w_o^T'
    """
    if made is None or made["kind"] not in WRITTEN:
        return ""
    scope = name.rpartition(".")[0]
    near = {role: str(part).removeprefix(f"{scope}.") for role, part in made.items()}
    formula = WRITTEN[made["kind"]].format(**near)
    bias = near.get("b") or near.get("bias") if made["kind"] in ("linear", "linear_t", "affine") else None
    return f"{name.rpartition('.')[2]} = {formula}{f' + {bias}' if bias else ''}"


def within(name: str, word: str) -> str | None:
    """The scope, with its dot, in which the name is `word`; None where it ends otherwise."""
    if name == word:
        return ""
    return name[: -len(word)] if name.endswith(f".{word}") else None


def sums(name: str, known: Collection[str]) -> Provenance | None:
    """What is added to the residual stream."""
    branches = {
        "resid_mid": ("resid_pre", "drop1.y"),
        "resid_cross": ("resid_mid", "drop2.y"),
        "resid_post": ("resid_mid", "drop2.y"),
        "sum1": ("x", "drop1.y"),
        "sum2": ("norm1.y", "drop2.y"),
    }
    scope, _, word = name.rpartition(".")
    if word == "resid_post" and f"{scope}.resid_cross" in known:
        branches = {"resid_post": ("resid_cross", "drop3.y")}
    parts = [f"{scope}.{part}" for part in branches.get(word, ())]
    return {"kind": "sum", "a": parts[0], "b": parts[1]} if parts and all(part in known for part in parts) else None


def positions(name: str, known: Collection[str], before: Callable[[str], str]) -> Provenance | None:
    scope, _, word = name.rpartition(".")
    if word == "y" and f"{scope}.pos" in known and before(name) in known:
        return {"kind": "sum", "a": before(name), "b": f"{scope}.pos"}
    if word == "y" and scope == "pool" and before(name) in known:
        return {"kind": "mean", "x": before(name)}
    if word == "y" and f"{scope}.emb" in known and f"{scope}.ids" in known:
        return {"kind": "row", "table": f"{scope}.emb", "ids": f"{scope}.ids"}
    return None
