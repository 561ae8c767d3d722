"""Rotary positions in a `config.json`: `rope_theta` and `rope_scaling`, or both in `rope_parameters` (transformers 5).

What is written is the older form, which both read.
"""

import math
from collections.abc import Mapping
from typing import Any

from glassformer.errors import SettingError
from glassformer.hub import settings
from glassformer.layers import Rotary, ScaledRotary
from glassformer.layers.rope_scaling import DynamicScaling, LinearScaling, Llama3Scaling, RopeScaling, YarnScaling
from glassformer.names import nearest

# what each may say besides rope_theta and rope_type
KNOWN = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": (
        *("factor", "original_max_position_embeddings", "beta_fast", "beta_slow"),
        *("attention_factor", "mscale", "mscale_all_dim", "truncate"),
    ),
}
TRAINED = "original_max_position_embeddings"
EVERYWHERE = ("rope_theta", "rope_type", "type", "partial_rotary_factor")


def rotary_from(config: Mapping[str, Any], context: int) -> Rotary | ScaledRotary:
    """`context` is the config's max_position_embeddings."""
    places = [where for where in ("rope_parameters", "rope_scaling") if config.get(where)]
    found = [rotary_at(where, config, context) for where in places or ["rope_scaling"]]
    if len({*found}) > 1:
        came = " and ".join(f"{where} {settings.shown(config[where])}" for where in places)
        raise SettingError(f"{came} came, which contradict each other; remove one of them")
    return found[0]


def rotary_at(where: str, config: Mapping[str, Any], context: int) -> Rotary | ScaledRotary:
    said = config.get(where) or {}
    if not isinstance(said, dict):
        raise SettingError(f"{where}: {settings.shown(said)} came, expected settings by name")
    rope = {f"{where}.{name}": value for name, value in said.items()}
    base = settings.positive(rope, f"{where}.rope_theta", settings.positive(config, "rope_theta", 10000.0))
    kind = settings.word(rope, f"{where}.rope_type", settings.word(rope, f"{where}.type", "default"))
    if kind not in KNOWN:
        raise SettingError(
            f"{where}.rope_type: {settings.shown(kind)} came{nearest(kind, [*KNOWN])}, known: {', '.join(KNOWN)}"
        )
    for name, value in said.items():
        if name not in (*EVERYWHERE, *KNOWN[kind]) and value is not None:
            raise SettingError(f"{where}.{name}: {settings.shown(value)} came, which rope of type {kind!r} has not")
    settings.refuse(config, partial_rotary_factor=1.0)
    settings.refuse(rope, **{f"{where}.partial_rotary_factor": 1.0})
    if config.get(TRAINED) is not None:  # beside the rope: it goes before what stands in it
        rope[f"{where}.{TRAINED}"] = config[TRAINED]
    scaling = scaling_from(kind, Rope(rope, where), context)
    return Rotary(base) if scaling is None else ScaledRotary(scaling, base)


class Rope:
    """The numbers of one rope, named in messages with where they stand."""

    def __init__(self, said: Mapping[str, Any], where: str) -> None:
        self.said, self.where = said, where

    def number(self, name: str, default: Any = settings.NEEDED) -> Any:
        return settings.positive(self.said, f"{self.where}.{name}", default)

    def length(self, default: int) -> int:
        return settings.whole(self.said, f"{self.where}.{TRAINED}", settings.MOST_SYMBOLS, default)

    def yes(self, name: str, default: bool) -> bool:
        return settings.yes(self.said, f"{self.where}.{name}", default)


def scaling_from(kind: str, rope: Rope, context: int) -> RopeScaling | None:
    if kind == "linear":
        return LinearScaling(rope.number("factor"))
    if kind == "dynamic":
        return DynamicScaling(rope.number("factor"), context)
    if kind == "llama3":
        low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
        return Llama3Scaling(rope.number("factor"), low, high, rope.length(context))
    if kind == "yarn":
        before = rope.length(context)
        factor = rope.number("factor", None) or context / before
        one, all_ = rope.number("mscale", None), rope.number("mscale_all_dim", None)
        attention = rope.number("attention_factor", None)
        if attention is None and one and all_:
            attention = (0.1 * one * math.log(factor) + 1) / (0.1 * all_ * math.log(factor) + 1)
        fast, slow = rope.number("beta_fast", 32.0), rope.number("beta_slow", 1.0)
        return YarnScaling(factor, before, fast, slow, attention, rope.yes("truncate", True))
    return None


def config_of(rotary: Rotary | ScaledRotary) -> dict[str, Any]:
    return {"rope_theta": rotary.base, "rope_scaling": scaling_of(rotary)}


def scaling_of(rotary: Rotary | ScaledRotary) -> dict[str, Any] | None:
    match rotary.scaling if isinstance(rotary, ScaledRotary) else None:
        case None:
            return None
        case LinearScaling(factor):
            return {"rope_type": "linear", "factor": factor}
        case DynamicScaling(factor):
            return {"rope_type": "dynamic", "factor": factor}
        case Llama3Scaling(factor, low, high, context):
            said = {"low_freq_factor": low, "high_freq_factor": high, "original_max_position_embeddings": context}
            return {"rope_type": "llama3", "factor": factor, **said}
        case YarnScaling(factor, context, fast, slow, attention, truncate):
            said = {"original_max_position_embeddings": context, "beta_fast": fast, "beta_slow": slow}
            own = {} if attention is None else {"attention_factor": attention}
            return {"rope_type": "yarn", "factor": factor, **said, **own, "truncate": truncate}
        case other:
            raise SettingError(f"the published models have no {type(other).__name__}")
