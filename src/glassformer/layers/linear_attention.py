"""Linear attention: the softmax is replaced by a product of features, so that the keys can be summed up beforehand.

forward    q_features = max(q, 0) + exp(min(q, 0))      k_features = max(k, 0) + exp(min(k, 0))
           weight = q_features @ k_features^T * mask
           total = sum(weight)                          z = weight @ v / total
backward   dtotal = -sum(dz * z) / total                dweight = (dz / total @ v^T + dtotal) * mask
           dq_features = dweight @ k_features           dk_features = dweight^T @ q_features
           dv = weight^T @ (dz / total)
           dq = dq_features * min(q_features, 1)        dk = dk_features * min(k_features, 1)

This is another formula than attention.py, and gives other numbers: a model is trained with one of the two.
The features are elu(x) + 1, all positive; their slope is 1 above 0 and exp(x), itself, below. The T x S matrices of
weights stand in the formulas only: all four sums are one function, `weighted`, whose brackets can be moved:
q @ (k^T @ v) costs T * D^2 instead of T^2 * D. Causal, s runs up to t: block by block, with the sum of what came before
(the backward of k and v: of what comes after). Katharopoulos et al. 2020.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax import lax

from glassformer.errors import at_least
from glassformer.layers.attend import Attend
from glassformer.layers.attention import Inputs, by_head, by_token, transposed
from glassformer.layers.blocks import cut, fill, joined
from glassformer.layers.masks import Mask, as_mask
from glassformer.names import tag
from glassformer.shapes import Array, Bool, Float


class Cache(NamedTuple):
    q: Float[Array, "B T H D"]
    k: Float[Array, "B S H D"]
    v: Float[Array, "B S H D"]
    mask: Mask
    total: Float[Array, "B T H 1"]
    z: Float[Array, "B T H D"]


@dataclass(frozen=True)
class LinearAttention(Attend):
    block: int = 64  # tokens taken at a time where it is causal
    called: ClassVar = "linear attention"
    cannot: ClassVar = ("bias", "dense", "window", "offset")
    axes: ClassVar = {"q_features": "B T H D", "k_features": "B S H D", "mask": "#B #H #T #S"}

    def __post_init__(self) -> None:
        at_least("linear attention", 1, block=self.block)

    @property
    def plain(self) -> "LinearAttention":
        return self

    def forward(
        self, params: None, x: Inputs, *, mask: Bool[Array, "#B #H #T #S"] | Mask | None = None
    ) -> tuple[Float[Array, "B T H D"], Cache]:
        mask = as_mask(mask)
        self.must_honour(mask, x.bias)
        q, k, v = tag("q", x.q), tag("k", x.k), tag("v", x.v)
        mask.show(q.shape[1], k.shape[1])
        keep = mask.kept(self.called, k)
        mask = replace(mask, keep=None if keep is None else tag("mask.keep", keep))
        q_features, k_features = tag("q_features", features(q)), tag("k_features", features(k))
        mix_and_total = self.weighted(q_features, seen(k_features, mask), with_one(v), mask)
        mix, total = mix_and_total[..., :-1], tag("total", mix_and_total[..., -1:])
        z = tag("z", mix / nonzero(total))
        return z, Cache(q=q, k=k, v=v, mask=mask, total=total, z=z)

    def backward(self, params: None, cache: Cache, dy: Float[Array, "B T H D"]) -> tuple[Inputs, None]:
        mask, v = cache.mask, with_one(cache.v)
        q_features, k_features = features(cache.q), features(cache.k)
        k_seen = seen(k_features, mask)
        dz = tag("dz", dy)
        # z = mix / total
        dmix = dz / nonzero(cache.total)
        dtotal = tag("dtotal", -jnp.sum(dmix * cache.z, axis=-1, keepdims=True))
        # mix, total = the products of q_features and k_features with v and 1; padding has no share in them
        dmix = jnp.concatenate([dmix, dtotal], axis=-1)
        dq_features = tag("dq_features", self.weighted(dmix, v, k_seen, mask))
        dk_features = self.weighted(v, dmix, q_features, mask, backwards=True)
        dk_features = tag("dk_features", seen(dk_features, mask))
        dv = tag("dv", self.weighted(k_seen, q_features, dmix, mask, backwards=True)[..., :-1])
        # features = elu + 1
        dq = tag("dq", dq_features * jnp.minimum(q_features, 1))
        dk = tag("dk", dk_features * jnp.minimum(k_features, 1))
        return Inputs(q=dq, k=dk, v=dv), None

    def weighted(
        self,
        a: Float[Array, "B T H D"],
        b: Float[Array, "B S H D"],
        c: Float[Array, "B S H _"],
        mask: Mask,
        *,
        backwards: bool = False,
    ) -> Float[Array, "B T H _"]:
        """At each t the sum over s of (a[t] . b[s]) * c[s]; causal, for s up to t, or from t on if `backwards`."""
        if not mask.causal:
            return jnp.einsum("bthd,bhde->bthe", a, jnp.einsum("bshd,bshe->bhde", b, c))
        tokens, longest = a.shape[1], max(a.shape[1], b.shape[1])
        way = slice(None, None, -1 if backwards else 1)
        sums = self.so_far(*(fill(by_head(x), longest)[..., way, :] for x in (a, b, c)))
        return by_token(sums[..., way, :][..., :tokens, :], of=a)

    def so_far(
        self, a: Float[Array, "*N T D"], b: Float[Array, "*N T D"], c: Float[Array, "*N T _"]
    ) -> Float[Array, "*N T _"]:
        """The causal sum: what earlier blocks left behind, and the pairs inside the block."""

        def one_block(before: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            a, b, c = now
            inside = jnp.tril(a @ transposed(b)) @ c
            return before + transposed(b) @ c, a @ before + inside

        nothing = jnp.zeros((*a.shape[:-2], b.shape[-1], c.shape[-1]), c.dtype)
        _, sums = lax.scan(one_block, nothing, (cut(a, self.block), cut(b, self.block), cut(c, self.block)))
        return joined(sums, a.shape[-2])


def features(x: Float[Array, "B T H D"]) -> Float[Array, "B T H D"]:
    """elu(x) + 1"""
    return jnp.where(x > 0, x + 1, jnp.exp(jnp.minimum(x, 0)))


def seen(x: Float[Array, "B S H D"], mask: Mask) -> Float[Array, "B S H D"]:
    """0 at padding."""
    return x if mask.keep is None else jnp.where(mask.keep[:, :, None, None], x, 0)


def with_one(v: Float[Array, "B S H D"]) -> Float[Array, "B S H _"]:
    """A 1 beside each value: summed up with the same weights, it counts them."""
    return jnp.concatenate([v, jnp.ones_like(v[..., :1])], axis=-1)


def nonzero(total: Float[Array, "B T H 1"]) -> Float[Array, "B T H 1"]:
    """1 in the place of 0, where nothing may be seen: mix is 0 there, and so is z."""
    return jnp.where(total == 0, 1, total)
