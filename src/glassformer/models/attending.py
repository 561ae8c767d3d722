"""What the blocks of ViT, BERT, GPT and Llama see, how they attend, and whether their insides are kept for backward.

attend          plain, blockwise, banded: the same numbers; linear: another formula (layers/attend.py)
window          a token sees those less than `window` places away, itself included (layers/masks.py); None: all
global_tokens   with a window, the first so many see all, and all see them
checkpoint      keep only what comes into a block; its inside is computed again in backward
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Self, cast

from glassformer.errors import at_least
from glassformer.layers import Checkpoint, Layer, Mask
from glassformer.layers.attend import Attend
from glassformer.models.model import Network
from glassformer.models.stack import Stack
from glassformer.shapes import Array, Bool


class Attending(Network):
    """A model that has these settings."""

    has_stack = True

    attend: Attend
    window: int | None
    global_tokens: int
    checkpoint: bool

    @property
    @abstractmethod
    def block(self) -> Layer:
        """All blocks are alike."""

    @property
    def blocks(self) -> Stack:
        return Stack(self.block)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("attention", 1, window=1 if self.window is None else self.window)
        at_least("attention", 0, global_tokens=self.global_tokens)

    def sees(self, keep: Bool[Array, "B T"] | None = None) -> Mask:
        return Mask(keep=keep, window=self.window, global_tokens=self.global_tokens)

    def mask(self, keep: Bool[Array, "B T"] | None = None) -> Mask | None:
        """For the blocks; None where everything is seen."""
        restricts = keep is not None or self.window is not None or self.global_tokens
        return self.sees(keep) if restricts else None

    def kept(self, block: Layer) -> Layer:
        return Checkpoint(block) if self.checkpoint else block

    def to_look_at(self) -> Self:
        """The same numbers, with every attention pattern and every cache there to be seen."""
        return replace(cast(Any, self), attend=self.attend.plain, checkpoint=False)
