"""Relative-position bias: each head has a learned number for how far a source stands from a query. Added to the scores.

forward    bias = by_bucket(table, bucket)
backward   dtable = bucket_sum(dbias, bucket, R)

bias[h, t, s] = table[bucket[t, s], h], where bucket[t, s] is that of the distance memory[s] - query[t]; dtable[r, h] is
dbias[h] summed over every t, s that fell into bucket r. Places are integers and have no gradient.
Near distances have a bucket each, far ones share buckets that widen like the logarithm, and all from `reach` on share
the last. Bidirectional: half of the buckets lie behind the query, half ahead of it. One-way (for a decoder): all lie
behind, and what is ahead counts as distance 0. Exactly as in T5 (Raffel et al., 2020).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import SettingError, at_least
from glassformer.layers.precision import wide
from glassformer.names import tag
from glassformer.shapes import Array, Float, Integer, Key


class Params(NamedTuple):
    table: Float[Array, "R H"]
    decayed = ()


class Inputs(NamedTuple):
    query: Integer[Array, "T"]  # the place of each query: 0 … T-1, or further on while generating
    memory: Integer[Array, "S"]  # the place of each source token


class Cache(NamedTuple):
    bucket: Integer[Array, "T S"]


@dataclass(frozen=True)
class RelativeBias:
    heads: int  # H
    buckets: int = 32  # R
    reach: int = 128  # from here on, every distance is the same
    bidirectional: bool = True
    std: float = 0.02

    def __post_init__(self) -> None:
        at_least("relative bias", 1, heads=self.heads)
        at_least("relative bias", 4 if self.bidirectional else 2, buckets=self.buckets)
        if self.buckets % 2 and self.bidirectional:
            raise SettingError(f"relative bias: {self.buckets} buckets do not divide between behind and ahead")
        if self.reach <= self.one_way // 2:
            raise SettingError(
                f"relative bias: reach is {self.reach}, expected more than {self.one_way // 2}, "
                f"the distances that have one of the {self.buckets} buckets each"
            )

    @property
    def one_way(self) -> int:
        """Buckets for the distances in one direction."""
        return self.buckets // 2 if self.bidirectional else self.buckets

    def init(self, key: Key) -> Params:
        return Params(table=self.std * jax.random.normal(key, (self.buckets, self.heads)))

    def forward(self, params: Params, x: Inputs) -> tuple[Float[Array, "1 H T S"], Cache]:
        bucket = tag("bucket", self.bucket_of(x.memory - x.query[:, None]))
        bias = tag("bias", jnp.moveaxis(params.table[bucket], -1, 0)[None])
        return bias, Cache(bucket=bucket)

    def backward(self, params: Params, cache: Cache, dy: Float[Array, "1 H T S"]) -> tuple[Any, Params]:
        dbias = tag("dbias", dy)
        # bias[h, t, s] = table[bucket[t, s], h]
        dtable = jnp.zeros_like(wide(params.table)).at[cache.bucket].add(wide(jnp.moveaxis(dbias[0], 0, -1)))
        return Inputs(None, None), Params(table=dtable)  # pyright: ignore[reportArgumentType]

    def bucket_of(self, ahead: Integer[Array, "T S"]) -> Integer[Array, "T S"]:
        """The bucket of a source that stands `ahead` places ahead of the query (behind it, where negative)."""
        distance = jnp.abs(ahead) if self.bidirectional else jnp.maximum(-ahead, 0)
        bucket = jnp.asarray(self.bucket_of_distance())[jnp.minimum(distance, self.reach)]
        return bucket + self.one_way * (ahead > 0) if self.bidirectional else bucket

    def bucket_of_distance(self) -> np.ndarray:
        """For the distances 0 … reach. A table, so that no compiler rounds a logarithm into the next bucket."""
        exact = self.one_way // 2
        distance = np.arange(self.reach + 1)
        spread = np.log(np.maximum(distance, 1).astype(np.float32) / exact) / np.log(self.reach / exact)
        far = exact + (spread.astype(np.float32) * (self.one_way - exact)).astype(int)
        return np.where(distance < exact, distance, np.minimum(far, self.one_way - 1))
