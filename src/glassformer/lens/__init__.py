"""Look inside a model: its own forward and backward are run with a visitor that sees every tagged value.

Nothing here changes a model or trains one.
"""

from glassformer.lens.ablate_each import HeadEffects, ablate_each
from glassformer.lens.attention import attention_maps, rollout
from glassformer.lens.attribution import Attribution, attribution
from glassformer.lens.gradient_attention import gradient_attention, gradient_rollout
from glassformer.lens.health import Finding, findings, health
from glassformer.lens.logit_lens import logit_lens
from glassformer.lens.maps import AttentionMaps
from glassformer.lens.patch import ablate, patch
from glassformer.lens.trace import Trace, trace

__all__ = [
    "AttentionMaps",
    "Attribution",
    "Finding",
    "HeadEffects",
    "Trace",
    "ablate",
    "ablate_each",
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
]
