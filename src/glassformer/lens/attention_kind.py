"""Kinds of attention: who looks at whom.

self      a sequence at itself, in both directions: ViT, BERT, the encoder of T5
causal    a sequence at itself, backwards only: GPT, the decoder of T5
cross     one sequence at another: the decoder of T5 at what its encoder has read
"""

from typing import Any, Literal, get_args

from glassformer.models import GPT

Kind = Literal["self", "causal", "cross"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def kind_of(model: Any, name: str) -> Kind:
    """Of the pattern of this name.

    >>> kind_of(None, "decoder.blocks.0.cross.pattern"), kind_of(None, "decoder.blocks.0.attn.pattern")
    ('cross', 'causal')
    """
    if name.endswith("cross.pattern"):
        return "cross"
    return "causal" if isinstance(model, GPT) or name.startswith("decoder.") else "self"


def is_pattern(name: str) -> bool:
    return name.rpartition(".")[2] == "pattern"
