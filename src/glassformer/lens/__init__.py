"""Look inside a model: its own forward and backward are run with a visitor that sees every tagged value.

Nothing here changes a model or trains one.
"""

from glassformer.lens.ablate_each import HeadEffects, ablate_each
from glassformer.lens.activation_patching import PatchTable, activation_patching
from glassformer.lens.attention import attention_maps, rollout
from glassformer.lens.attribution import Attribution, attribution
from glassformer.lens.gradient_attention import gradient_attention, gradient_rollout
from glassformer.lens.health import Finding, findings, health
from glassformer.lens.logit_lens import logit_lens
from glassformer.lens.maps import AttentionMaps
from glassformer.lens.notebook import PageView, view
from glassformer.lens.patch import ablate, patch
from glassformer.lens.trace import Trace, trace
from glassformer.lens.what_if import (
    HeadOff,
    HideToken,
    Outcome,
    Replace,
    Scale,
    SetImage,
    SetToken,
    Swap,
    Temperature,
    what_if,
)

__all__ = [
    "AttentionMaps",
    "Attribution",
    "Finding",
    "HeadEffects",
    "HeadOff",
    "HideToken",
    "Outcome",
    "PageView",
    "PatchTable",
    "Replace",
    "Scale",
    "SetImage",
    "SetToken",
    "Swap",
    "Temperature",
    "Trace",
    "ablate",
    "ablate_each",
    "activation_patching",
    "attention_maps",
    "attribution",
    "findings",
    "gradient_attention",
    "gradient_rollout",
    "health",
    "logit_lens",
    "patch",
    "rollout",
    "trace",
    "view",
    "what_if",
]
