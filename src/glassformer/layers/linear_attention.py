"""Linear attention: the softmax is replaced by a product of features, so that the keys can be summed up beforehand.

forward    q_features = max(q, 0) + exp(min(q, 0))      k_features = (max(k, 0) + exp(min(k, 0))) * column(keep)
           weight = lower(q_features @ k_features^T, causal)
           total = sum(weight)                          z = weight @ v / total
backward   dtotal = -sum(dz * z) / total                dweight = lower(dz / total @ v^T + dtotal, causal)
           dq_features = dweight @ k_features           dk_features = dweight^T @ q_features
           dv = weight^T @ (dz / total)
           dq = dq_features * min(q_features, 1)        dk = dk_features * min(k_features, 1)

The features are elu(x) + 1, all positive; their slope is 1 above 0 and exp(x), itself, below. The T x S matrices of
weights stand in the formulas only: all four sums are one function, `weighted`, whose brackets can be moved:
q @ (k^T @ v) costs T * D^2 instead of T^2 * D. Causal, s runs up to t: block by block, with the sum of what came before
(the backward of k and v: of what comes after). Katharopoulos et al. 2020.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from glassformer.errors import ShapeError, at_least
from glassformer.layers.attention import Inputs, by_head, by_token, transposed
from glassformer.layers.blocks import cut, fill, joined
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float, Key


class Cache(NamedTuple):
    q_features: Float[Array, "B T H D"]
    k_features: Float[Array, "B S H D"]  # 0 where the token may not be seen
    v: Float[Array, "B S H D"]
    total: Float[Array, "B T H 1"]
    z: Float[Array, "B T H D"]


@dataclass(frozen=True)
class LinearAttention:
    causal: bool = False  # True: query t looks at sources 0 … t
    block: int = 64  # tokens taken at a time where it is causal

    def __post_init__(self) -> None:
        at_least("linear attention", 1, block=self.block)

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Inputs, *, keep: Bool[Array, "B S"] | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        """`keep` is the padding mask of the sources: False at padding tokens."""
        if x.bias is not None:
            raise ShapeError("linear attention: a bias came, expected none: there are no scores to add it to")
        q, k, v = tag("q", x.q), tag("k", x.k), tag("v", x.v)
        q_features, k_features = tag("q_features", features(q)), features(k)
        if keep is not None:
            if keep.shape != k.shape[:2]:
                raise ShapeError(f"linear attention: keep of shape {keep.shape} came, expected {k.shape[:2]}: (B, S)")
            k_features = jnp.where(keep[:, :, None, None], k_features, 0)
        k_features = tag("k_features", k_features)
        mix_and_total = self.weighted(q_features, k_features, with_one(v))
        mix, total = mix_and_total[..., :-1], tag("total", mix_and_total[..., -1:])
        z = tag("z", mix / nonzero(total))
        return z, Cache(q_features=q_features, k_features=k_features, v=v, total=total, z=z)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Inputs, None]:
        q_features, k_features, v = cache.q_features, cache.k_features, with_one(cache.v)
        dz = tag("dz", dy)
        # z = mix / total
        dmix = dz / nonzero(cache.total)
        dtotal = tag("dtotal", -jnp.sum(dmix * cache.z, axis=-1, keepdims=True))
        # mix, total = the products of q_features and k_features with v and 1
        dmix = jnp.concatenate([dmix, dtotal], axis=-1)
        dq_features = tag("dq_features", self.weighted(dmix, v, k_features))
        dk_features = tag("dk_features", self.weighted(v, dmix, q_features, backwards=True))
        dv = tag("dv", self.weighted(k_features, q_features, dmix, backwards=True)[..., :-1])
        # features = elu + 1; where a key was not kept its features are 0, and so is its gradient
        dq = tag("dq", dq_features * jnp.minimum(q_features, 1))
        dk = tag("dk", dk_features * jnp.minimum(k_features, 1))
        return Inputs(q=dq, k=dk, v=dv), None

    def weighted(
        self,
        a: Float[Array, "B T H D"],
        b: Float[Array, "B S H D"],
        c: Float[Array, "B S H _"],
        backwards: bool = False,
    ) -> Float[Array, "B T H _"]:
        """At each t the sum over s of (a[t] . b[s]) * c[s]; causal, for s up to t, or from t on if `backwards`."""
        if not self.causal:
            return jnp.einsum("bthd,bhde->bthe", a, jnp.einsum("bshd,bshe->bhde", b, c))
        tokens, longest = a.shape[1], max(a.shape[1], b.shape[1])
        way = slice(None, None, -1 if backwards else 1)
        sums = self.so_far(*(fill(by_head(x), longest)[:, way] for x in (a, b, c)))
        return by_token(sums[:, way][:, :tokens], of=a)

    def so_far(
        self, a: Float[Array, "N T D"], b: Float[Array, "N T D"], c: Float[Array, "N T _"]
    ) -> Float[Array, "N T _"]:
        """The causal sum: what earlier blocks left behind, and the pairs inside the block."""

        def one_block(before: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            a, b, c = now
            inside = jnp.tril(a @ transposed(b)) @ c
            return before + transposed(b) @ c, a @ before + inside

        nothing = jnp.zeros((a.shape[0], b.shape[-1], c.shape[-1]), c.dtype)
        _, sums = lax.scan(one_block, nothing, (cut(a, self.block), cut(b, self.block), cut(c, self.block)))
        return joined(sums, a.shape[1])


def features(x: Float[Array, "B T H D"]) -> Float[Array, "B T H D"]:
    """elu(x) + 1"""
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.minimum(x, 0)))


def with_one(v: Float[Array, "B S H D"]) -> Float[Array, "B S H _"]:
    """A 1 beside each value: summed up with the same weights, it counts them."""
    return jnp.concatenate([v, jnp.ones_like(v[..., :1])], axis=-1)


def nonzero(total: Float[Array, "B T H 1"]) -> Float[Array, "B T H 1"]:
    """1 in the place of 0, where nothing may be seen: mix is 0 there, and so is z."""
    return jnp.where(total == 0, 1, total)
