"""Masked-language modelling: some tokens are covered up; which stood there? Devlin et al., 2018.

Of the tokens chosen, four fifths become <mask>, a tenth another token drawn at random, a tenth stay: the model cannot
know which tokens it will be asked about. At least one of every row is chosen. A text that is longer than the context
is cut into pieces.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.texts import Example, Texts
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import SettingError
from glassformer.shapes import Array, Bool, Integer, Key, Static
from glassformer.train.tasks.sequences import filled, framed, symbol
from glassformer.train.tasks.task import Batch, Encoded, Task

MASKED, DRAWN = 0.8, 0.1  # shares of the chosen tokens


class Rows(NamedTuple):
    ids: np.ndarray  # int32 (N, T)
    keep: np.ndarray  # bool (N, T)
    mask: Static  # the symbol that covers up
    vocabulary: Static


@dataclass(frozen=True)
class Masked(Task):
    share: float = 0.15  # of the tokens that are chosen

    by_loss: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError(f"masked: a share of {self.share} came, expected one between 0 and 1, such as 0.15")

    def batch(self, samples: Rows, chosen: Integer[Array, "B"]) -> Batch:
        return self.drawn(samples, chosen, jax.random.key(0))

    def drawn(self, samples: Rows, chosen: Integer[Array, "B"], key: Key) -> Batch:
        """What is chosen of a row depends on the key and on the row, not on the rows beside it."""
        ids, keep = samples.ids[chosen], samples.keep[chosen]
        keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(chosen)
        covered, asked = jax.vmap(lambda k, i, real: self.cover(samples, k, i, real))(keys, ids, inside(keep))
        return Batch(covered, ids, asked.astype(jnp.float32), {"keep": keep})

    def cover(self, samples: Rows, key: Key, ids: Integer[Array, "T"], real: Bool[Array, "T"]) -> tuple[Any, Any]:
        key_choose, key_kind, key_other = jax.random.split(key, 3)
        draw = jnp.where(real, jax.random.uniform(key_choose, ids.shape), 2.0)
        asked = (draw < self.share) | ((draw == draw.min()) & real)
        kind = jax.random.uniform(key_kind, ids.shape)
        other = jax.random.randint(key_other, ids.shape, 0, samples.vocabulary.value, ids.dtype)
        shown = jnp.where(kind < MASKED, samples.mask.value, jnp.where(kind < MASKED + DRAWN, other, ids))
        return jnp.where(asked, shown, ids), asked

    def encode(self, texts: Texts, tokeniser: Tokeniser, context: int) -> Encoded:
        mask, pad = symbol(tokeniser, "mask"), symbol(tokeniser, "pad")
        room = context - 2  # beside <start> and <end>
        if room < 1:
            raise SettingError(
                f"masked: a context of {context} came, and <start> and <end> take two; expected 3 or more: "
                "--set model.text.context=64"
            )

        def rows(examples: tuple[Example, ...]) -> Rows:
            documents = [tokeniser.encode(example.text) for example in examples]
            pieces = [ids[at : at + room] for ids in documents for at in range(0, len(ids), room)]
            ids, keep = filled([framed(tokeniser, piece) for piece in pieces], pad)
            return Rows(ids, keep, Static(mask), Static(tokeniser.size))

        return Encoded(rows(texts.train), rows(texts.test), ())


def inside(keep: Bool[Array, "B T"]) -> Bool[Array, "B T"]:
    """The text itself: neither <start> nor <end> nor padding."""
    next_is_real = jnp.concatenate([keep[:, 1:], jnp.zeros_like(keep[:, :1])], axis=1)
    return (keep & next_is_real).at[:, 0].set(False)
