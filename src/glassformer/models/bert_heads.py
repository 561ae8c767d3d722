"""What a task makes of the values that BERT gives the tokens. Each head is a layer; BERTFor (bert.py) joins the two.

ClassHead    one answer for the whole sequence; next_sentence_head: does the second sentence follow the first?
TagHead      one answer for each token
SpanHead     where an answer starts and where it ends
MaskedHead   which token stood where the text was covered up
VectorHead   one vector of length 1 for the whole sequence
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from glassformer.errors import ShapeError
from glassformer.layers import (
    GELU,
    Dropout,
    Embedding,
    FirstToken,
    LayerNorm,
    Linear,
    MaskedMeanPool,
    ReLU,
    Tanh,
    TiedHead,
    UnitNorm,
    dropout,
    layer_norm,
    linear,
    mean_pool,
    tied_head,
    unit_norm,
)
from glassformer.layers.contract import keywords_for
from glassformer.models.text import Activation
from glassformer.names import at, tag
from glassformer.registry import register
from glassformer.shapes import Array, Bool, Float, Key

Pooler = Tanh | ReLU  # as in BERT and RoBERTa; as in DistilBERT


class ClassParams(NamedTuple):
    pool: linear.Params
    classify: linear.Params


class ClassCache(NamedTuple):
    first: mean_pool.Cache
    pool: linear.Cache
    activation: Any  # the activation's own cache
    drop: dropout.Cache
    classify: linear.Cache


@register.layer("class-head")
@dataclass(frozen=True)
class ClassHead:
    """Class head: first token -> linear -> activation (together: the pooler) -> linear -> logits

    forward    y = classify(drop(activation(pool(first(x)))))
    """

    task: ClassVar[str] = "classify"
    output_axis: ClassVar[str] = "classes"

    width: int  # C
    classes: int  # K
    dropout: float = 0.0
    activation: Pooler = Tanh()

    @property
    def pool(self) -> Linear:
        return Linear(self.width, self.width)

    @property
    def drop(self) -> Dropout:
        return Dropout(self.dropout)

    @property
    def classify(self) -> Linear:
        return Linear(self.width, self.classes)

    def init(self, key: Key) -> ClassParams:
        key_pool, key_classify = jax.random.split(key)
        return ClassParams(pool=self.pool.init(key_pool), classify=self.classify.init(key_classify))

    def forward(
        self, params: ClassParams, x: Float[Array, "B T C"], *, key: Key | None = None
    ) -> tuple[Float[Array, "B K"], ClassCache]:
        h, first = at("first", FirstToken()).forward(None, x)
        h, pool = at("pool", self.pool).forward(params.pool, h)
        h, activation = at("activation", self.activation).forward(None, h)
        h, drop = at("drop", self.drop).forward(None, h, key=key)
        logits, classify = at("classify", self.classify).forward(params.classify, h)
        return logits, ClassCache(first=first, pool=pool, activation=activation, drop=drop, classify=classify)

    def backward(
        self, params: ClassParams, cache: ClassCache, dy: Float[Array, "B K"]
    ) -> tuple[Float[Array, "B T C"], ClassParams]:
        dh, dclassify = at("classify", self.classify).backward(params.classify, cache.classify, dy)
        dh, _ = at("drop", self.drop).backward(None, cache.drop, dh)
        dh, _ = at("activation", self.activation).backward(None, cache.activation, dh)
        dh, dpool = at("pool", self.pool).backward(params.pool, cache.pool, dh)
        dx, _ = at("first", FirstToken()).backward(None, cache.first, dh)
        return dx, ClassParams(pool=dpool, classify=dclassify)


def next_sentence_head(width: int) -> ClassHead:
    """Class 0: the second sentence follows the first; class 1: it came from elsewhere."""
    return ClassHead(width, classes=2)


class TagParams(NamedTuple):
    classify: linear.Params


class TagCache(NamedTuple):
    drop: dropout.Cache
    classify: linear.Cache


@register.layer("tag-head")
@dataclass(frozen=True)
class TagHead:
    """Tag head: every token -> linear -> logits

    forward    y = classify(drop(x))
    """

    task: ClassVar[str] = "tag"
    output_axis: ClassVar[str] = "classes"

    width: int  # C
    classes: int  # K
    dropout: float = 0.0

    @property
    def drop(self) -> Dropout:
        return Dropout(self.dropout)

    @property
    def classify(self) -> Linear:
        return Linear(self.width, self.classes)

    def init(self, key: Key) -> TagParams:
        return TagParams(classify=self.classify.init(key))

    def forward(
        self, params: TagParams, x: Float[Array, "B T C"], *, key: Key | None = None
    ) -> tuple[Float[Array, "B T K"], TagCache]:
        h, drop = at("drop", self.drop).forward(None, x, key=key)
        logits, classify = at("classify", self.classify).forward(params.classify, h)
        return logits, TagCache(drop=drop, classify=classify)

    def backward(
        self, params: TagParams, cache: TagCache, dy: Float[Array, "B T K"]
    ) -> tuple[Float[Array, "B T C"], TagParams]:
        dh, dclassify = at("classify", self.classify).backward(params.classify, cache.classify, dy)
        dx, _ = at("drop", self.drop).backward(None, cache.drop, dh)
        return dx, TagParams(classify=dclassify)


class SpanParams(NamedTuple):
    score: linear.Params


class SpanCache(NamedTuple):
    score: linear.Cache


@register.layer("span-head")
@dataclass(frozen=True)
class SpanHead:
    """Span head: every token -> linear -> how well it would be the start, how well the end.

    forward    spans = score(x)^T
    backward   dx = score.backward(dspans^T)

    The tokens are the classes: spans[b, 0] are the logits of the start, spans[b, 1] those of the end, so that labels
    are (B, 2) places.
    """

    task: ClassVar[str] = "span"
    output_axis: ClassVar[str] = "places"

    width: int  # C

    @property
    def score(self) -> Linear:
        return Linear(self.width, 2)

    def init(self, key: Key) -> SpanParams:
        return SpanParams(score=self.score.init(key))

    def forward(self, params: SpanParams, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B 2 T"], SpanCache]:
        scores, score = at("score", self.score).forward(params.score, x)
        spans = tag("spans", jnp.swapaxes(scores, 1, 2))
        return spans, SpanCache(score=score)

    def backward(
        self, params: SpanParams, cache: SpanCache, dy: Float[Array, "B 2 T"]
    ) -> tuple[Float[Array, "B T C"], SpanParams]:
        dspans = tag("dspans", dy)
        # spans = scores, with tokens last
        dx, dscore = at("score", self.score).backward(params.score, cache.score, jnp.swapaxes(dspans, 1, 2))
        return dx, SpanParams(score=dscore)


class MaskedParams(NamedTuple):
    transform: linear.Params
    norm: layer_norm.Params
    emb: Float[Array, "V C"] | None  # None: the table of the embedding, which comes in
    decoder: tied_head.Params | None  # a bias


class MaskedInputs(NamedTuple):
    x: Float[Array, "B T C"]
    emb: Float[Array, "V C"] | None = None  # None: the head has a table of its own


class MaskedCache(NamedTuple):
    transform: linear.Cache
    activation: Any  # the activation's own cache
    norm: layer_norm.Cache
    decoder: tied_head.Cache


@register.layer("masked-head")
@dataclass(frozen=True)
class MaskedHead:
    """Masked head: every token -> linear -> activation -> norm -> against each row of the embedding table -> logits

    forward    y = decoder(norm(activation(transform(x))), emb)
    """

    task: ClassVar[str] = "masked"
    output_axis: ClassVar[str] = "symbols"

    width: int  # C
    vocabulary: int  # V
    tied: bool = True
    eps: float = 1e-12
    activation: Activation = GELU()

    @property
    def transform(self) -> Linear:
        return Linear(self.width, self.width)

    @property
    def norm(self) -> LayerNorm:
        return LayerNorm(self.width, self.eps)

    @property
    def decoder(self) -> TiedHead:
        return TiedHead(self.vocabulary, bias=True)

    def init(self, key: Key) -> MaskedParams:
        key_transform, key_norm, key_emb, key_decoder = jax.random.split(key, 4)
        return MaskedParams(
            transform=self.transform.init(key_transform),
            norm=self.norm.init(key_norm),
            emb=None if self.tied else Embedding(self.vocabulary, self.width).init(key_emb).emb,
            decoder=self.decoder.init(key_decoder),
        )

    def forward(self, params: MaskedParams, x: MaskedInputs) -> tuple[Float[Array, "B T V"], MaskedCache]:
        emb = x.emb if params.emb is None else params.emb
        if emb is None:
            raise ShapeError("masked head: a tied head came without the embedding table; give it as emb")
        h, transform = at("transform", self.transform).forward(params.transform, x.x)
        h, activation = at("activation", self.activation).forward(None, h)
        h, norm = at("norm", self.norm).forward(params.norm, h)
        logits, decoder = at("decoder", self.decoder).forward(params.decoder, tied_head.Inputs(x=h, emb=emb))
        return logits, MaskedCache(transform=transform, activation=activation, norm=norm, decoder=decoder)

    def backward(
        self, params: MaskedParams, cache: MaskedCache, dy: Float[Array, "B T V"]
    ) -> tuple[MaskedInputs, MaskedParams]:
        d, ddecoder = at("decoder", self.decoder).backward(params.decoder, cache.decoder, dy)
        dh, dnorm = at("norm", self.norm).backward(params.norm, cache.norm, d.x)
        dh, _ = at("activation", self.activation).backward(None, cache.activation, dh)
        dx, dtransform = at("transform", self.transform).backward(params.transform, cache.transform, dh)
        # emb came in, or is the head's own
        demb_in, demb_own = (d.emb, None) if params.emb is None else (None, d.emb)
        dparams = MaskedParams(transform=dtransform, norm=dnorm, emb=demb_own, decoder=ddecoder)
        return MaskedInputs(x=dx, emb=demb_in), dparams


class VectorCache(NamedTuple):
    pool: Any  # the pool's own
    unit: unit_norm.Cache


@register.layer("vector-head")
@dataclass(frozen=True)
class VectorHead:
    """Vector head: every token -> one vector of the sequence -> of length 1. It has no parameters.

    forward    y = unit(pool(x))
    """

    task: ClassVar[str] = "contrast"
    output_axis: ClassVar[str] = "numbers"

    pool: MaskedMeanPool | FirstToken = MaskedMeanPool()

    def init(self, key: Key) -> None:
        return None

    def forward(
        self, params: None, x: Float[Array, "B T C"], *, keep: Bool[Array, "B T"] | None = None
    ) -> tuple[Float[Array, "B C"], VectorCache]:
        """`keep` is the padding mask, False at padding."""
        h, pool = at("pool", self.pool).forward(None, x, **keywords_for(self.pool, keep=keep))
        y, unit = at("unit", UnitNorm()).forward(None, h)
        return y, VectorCache(pool=pool, unit=unit)

    def backward(self, params: None, cache: VectorCache, dy: Float[Array, "B C"]) -> tuple[Float[Array, "B T C"], None]:
        dh, _ = at("unit", UnitNorm()).backward(None, cache.unit, dy)
        dx, _ = at("pool", self.pool).backward(None, cache.pool, dh)
        return dx, None
