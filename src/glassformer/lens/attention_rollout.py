"""Rollout: attention followed through all blocks, from the last back to the input.

A block adds to each token what it attended to; the residual stream itself is still there. With R, how
much of each input token is in each token so far (at first each is itself: R = I), and A, a block's attention:

self, causal     R = s * (R + A @ R)      and in a decoder  R_source = s * (R_source + A @ R_source)
cross            R = s * R                and  R_source = s * (R_source + A @ memory), memory the R of the whole encoder

s = 1/2 and A = the mean pattern of the heads: attention rollout (Abnar & Zuidema, 2020), whose rows add up to 1, those
of R and R_source together. s = 1 and A = gradient x attention: Chefer et al., 2021, but that what cross-attention
fetches is added as it is, without their scaling of R and memory.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer.errors import ShapeError
from glassformer.lens.attention_kind import Kind, kind_of


def rolled(model: Any, maps: Mapping[str, np.ndarray], s: float) -> dict[Kind, np.ndarray]:
    """Of maps (B, T, S) in the order of the blocks: (B, T, T) for self or causal, and for cross (B, T, S)."""
    if not maps:
        raise ShapeError("rollout: no attention maps came, expected those of at least one block")
    done: dict[Kind, np.ndarray] = {}
    for name, one in maps.items():
        kind, a = kind_of(model, name), one.astype(np.float64)
        if kind == "cross":
            fetched = a @ done.get("self", np.eye(a.shape[-1]))
            done["cross"] = s * (done.get("cross", 0) + fetched)
            done["causal"] = s * done.get("causal", np.eye(a.shape[-2]))
            continue
        before = done.get(kind, np.eye(a.shape[-1]))
        done[kind] = s * (before + a @ before)
        if kind == "causal" and "cross" in done:
            done["cross"] = s * (done["cross"] + a @ done["cross"])
    return done
