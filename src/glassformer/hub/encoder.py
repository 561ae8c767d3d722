"""Encoders of transformers, with each of their heads, and our `BERTFor`, both ways. Their matrices are (out, in).

An Encoder says how one of them spells settings and tensors: bert.py, roberta.py, distilbert.py. The architecture, which
`config.json` names, decides the head; without one it is our `BERT`, which gives embeddings. A tied decoder and its
second bias are copies. Published files hold more than one head, or none, and some spell the names as of old; the
tensors of other heads are left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from glassformer.errors import CheckpointError, SettingError
from glassformer.hub import pooling, settings, tensors
from glassformer.hub.format import Folder, Format, Given, Imported, drawn_ids
from glassformer.hub.tensors import Tensor, linear, norm
from glassformer.hub.tokeniser_files import SpecialTokens
from glassformer.models import (
    BERT,
    BERTFor,
    ClassHead,
    MaskedHead,
    SpanHead,
    TagHead,
    VectorHead,
    next_sentence_head,
)
from glassformer.models.bert import Head, Params, TaskParams
from glassformer.models.text import Activation
from glassformer.shapes import Key

CLASSES, TAGS, SPANS, MASKED = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMaskedLM",
)
NEXT, BARE = "ForNextSentencePrediction", "Model"  # of BERT alone; without a head

NEXT_CLASSES = ("follows", "from elsewhere")  # by which a next-sentence head is known: its form is a classifier's

OURS = "bert."  # in front of the encoder's names in ours, where there is a head
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # 0, 1, 2, … and zeros, which early files carry


class Block(NamedTuple):
    """What the parts of a block are called."""

    q: str
    k: str
    v: str
    o: str
    norm1: str
    up: str
    down: str
    norm2: str


class Masked(NamedTuple):
    """What the parts of the head for covered tokens are called."""

    transform: str
    norm: str
    decoder: str
    bias: str  # of a tied decoder


BLOCK = Block(
    q="attention.self.query",
    k="attention.self.key",
    v="attention.self.value",
    o="attention.output.dense",
    norm1="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm2="output.LayerNorm",
)


@dataclass(frozen=True)
class Encoder:
    model_type: str  # in config.json; with a dot, in front of the encoder's tensors where there is a head
    stem: str  # of their classes: Bert in BertForMaskedLM
    encoder_from: Callable[[Mapping[str, Any]], BERT]
    settings_of: Callable[[BERT, float | None], dict[str, Any]]  # what `encoder_from` reads, and the head's dropout
    head_dropout: Callable[[Mapping[str, Any], str], float]
    fits: Callable[[BERT], bool]  # whether a model of ours is one of these
    special_tokens: SpecialTokens
    masked: Masked
    pooler: str  # of a class head: its first matrix
    classifier: str = "classifier"  # and its last
    layers: str = "encoder.layer"
    block: Block = BLOCK
    heads: tuple[str, ...] = (CLASSES, TAGS, SPANS, MASKED)
    aliases: Mapping[str, str] = field(default_factory=dict)  # further architectures, and which of ours is read of them
    masked_activation: Activation | None = None  # where it is not the encoder's
    notes: Callable[[Mapping[str, Any], str], list[str]] = lambda config, kind: []

    @property
    def prefix(self) -> str:
        return f"{self.model_type}."

    @property
    def bare(self) -> str:
        return self.stem + BARE

    @property
    def architectures(self) -> tuple[str, ...]:
        return tuple(self.stem + kind for kind in self.heads)

    @property
    def head_names(self) -> tuple[str, ...]:
        """With which the names of tensors of any head begin."""
        apart = (*self.masked, self.pooler, self.classifier, "cls.", "classifier.", "qa_outputs.")
        return (f"{self.prefix}pooler.", *apart)

    def kind(self, architecture: str) -> str:
        """Of the head: an architecture without its stem."""
        settings.must_be_known(architecture, (*self.architectures, self.bare))
        return architecture.removeprefix(self.stem)

    def model_from(self, config: Mapping[str, Any], architecture: str | None = None) -> BERT | BERTFor:
        """The model that a `config.json` describes; `architecture` where another head than the file's is wanted."""
        bert = self.encoder_from(config)
        kind = self.kind(architecture or self.named(config))
        return bert if kind == BARE else BERTFor(bert, self.head_from(config, kind, bert))

    def named(self, config: Mapping[str, Any]) -> str:
        """The architecture that the file was written for."""
        name = settings.architecture(config, (self.bare, *self.architectures, *self.aliases))
        return self.aliases.get(name, name)

    def head_from(self, config: Mapping[str, Any], kind: str, bert: BERT) -> Head:
        if kind == CLASSES:
            classes = len(settings.classes(config))
            return ClassHead(bert.width, classes, self.head_dropout(config, kind), bert.pooler)
        if kind == TAGS:
            return TagHead(bert.width, len(settings.classes(config)), self.head_dropout(config, kind))
        if kind == SPANS:
            return SpanHead(bert.width)
        if kind == NEXT:
            return next_sentence_head(bert.width)
        tied = settings.yes(config, "tie_word_embeddings", True)
        activation = self.masked_activation or bert.activation
        return MaskedHead(bert.width, bert.text.vocabulary, tied, bert.eps, activation)

    def classes_from(self, config: Mapping[str, Any], architecture: str) -> tuple[str, ...]:
        kind = self.kind(architecture)
        return NEXT_CLASSES if kind == NEXT else settings.classes(config) if kind in (CLASSES, TAGS) else ()

    def architecture_of(self, model: BERT | BERTFor, classes: tuple[str, ...] = ()) -> str:
        head = head_of(model)
        if head is None or isinstance(head, VectorHead):
            return self.bare
        if isinstance(head, ClassHead):
            return self.stem + (NEXT if NEXT in self.heads and classes == NEXT_CLASSES else CLASSES)
        return self.stem + {TagHead: TAGS, SpanHead: SPANS, MaskedHead: MASKED}[type(head)]

    def config_of(
        self, model: BERT | BERTFor, architecture: str | None = None, classes: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """What belongs into `config.json` so that `model_from` gives the model back."""
        bert, head = encoder_of(model), head_of(model)
        self.must_have_place(bert, head)
        return {
            "model_type": self.model_type,
            "architectures": [architecture or self.architecture_of(model, classes)],
            **self.settings_of(bert, head.dropout if isinstance(head, ClassHead | TagHead) else None),
            "tie_word_embeddings": head.tied if isinstance(head, MaskedHead) else True,
            **settings.labels(classes, head.classes if isinstance(head, ClassHead | TagHead) else 2),
        }

    def must_have_place(self, bert: BERT, head: Head | None) -> None:
        """Refuses what a head has and no `config.json` can say."""
        if isinstance(head, ClassHead) and head.activation != bert.pooler:
            came, expected = type(head.activation).__name__, type(bert.pooler).__name__
            raise SettingError(f"{self.stem}: a class head with {came} came, and the model's pooler has {expected}")
        if isinstance(head, MaskedHead):
            expected = self.masked_activation or bert.activation
            if (head.eps, head.activation) != (bert.eps, expected):
                raise SettingError(
                    f"{self.stem}: a masked head with {head.activation} and eps={head.eps:g} came; "
                    f"there it has {expected} and eps={bert.eps:g}"
                )

    def to_tensors(
        self, model: BERT | BERTFor, params: Params | TaskParams, architecture: str | None = None
    ) -> dict[str, Any]:
        """The encoder alone has no `bert.` in front there."""
        found = tensors.to_theirs(self.table(model, architecture), params)
        bare = isinstance(model, BERT)
        return {name.removeprefix(self.prefix): value for name, value in found.items()} if bare else found

    def from_tensors(
        self,
        model: BERT | BERTFor,
        given: Mapping[str, Any],
        architecture: str | None = None,
        *,
        new_head: Key | None = None,
    ) -> Any:
        """`new_head`: what the file lacks of the head is drawn. Without it, a head that is not there is an error."""
        given, architecture = self.as_now_spelled(given), architecture or self.architecture_of(model)
        if missing := self.missing_head(model, given, architecture):
            if new_head is None or isinstance(model, BERT):
                raise SettingError(
                    f"the head of {architecture} is not in the file: {', '.join(missing)} missing; "
                    "ask for a new one, by its architecture, and train it"
                )
            drawn = TaskParams(bert=None, head=model.head.init(new_head))  # pyright: ignore[reportArgumentType]
            given = {**tensors.to_theirs(self.head_table(model, architecture), drawn), **given}
        ignored = (*BUFFERS, *self.unused(model), *self.left_out(model, given, architecture))
        return tensors.to_ours(self.table(model, architecture), given, model, ignored, self.copies(model))

    def missing_head(self, model: BERT | BERTFor, given: Mapping[str, Any], architecture: str) -> list[str]:
        """The names of the head's tensors that are not there."""
        return [row.theirs for row in self.head_table(model, architecture) if row.theirs not in given]

    def left_out(self, model: BERT | BERTFor, given: Mapping[str, Any], architecture: str) -> list[str]:
        """The names of tensors that belong to other heads than the model's."""
        known = {*self.copies(model), *self.unused(model), *(row.theirs for row in self.table(model, architecture))}
        return sorted(name for name in given if name.startswith(self.head_names) and name not in known)

    def copies(self, model: BERT | BERTFor) -> dict[str, str]:
        """A tied masked head's decoder is made of others' tensors: of which."""
        head, (_, _, decoder, bias) = head_of(model), self.masked
        if not isinstance(head, MaskedHead) or not head.tied:
            return {}
        second = {} if bias == f"{decoder}.bias" else {f"{decoder}.bias": bias}
        return {f"{decoder}.weight": f"{self.prefix}embeddings.word_embeddings.weight", **second}

    def unused(self, model: BERT | BERTFor) -> tuple[str, ...]:
        """Of a masked head with a decoder of its own: the first bias."""
        head, (_, _, decoder, bias) = head_of(model), self.masked
        has_own = isinstance(head, MaskedHead) and not head.tied
        return (bias,) if has_own and bias != f"{decoder}.bias" else ()

    def as_now_spelled(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Files of the bare model lack the prefix; early ones call gain and bias of a norm gamma and beta."""
        prefix = self.prefix if "embeddings.word_embeddings.weight" in given else ""
        spelled: dict[str, Any] = {}
        for name, value in given.items():
            now = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
            if prefix + now in spelled or (now != name and now in given):
                raise CheckpointError(f"the tensor {now!r} is there twice, once as {name!r}")
            spelled[prefix + now] = value
        return spelled

    def table(self, model: BERT | BERTFor, architecture: str | None = None) -> list[Tensor]:
        bert, theirs = encoder_of(model), f"{self.prefix}embeddings"
        rows = [
            Tensor(f"{theirs}.word_embeddings.weight", ("bert.embed.emb",)),
            Tensor(f"{theirs}.position_embeddings.weight", ("bert.positions.pos",)),
            *norm(f"{theirs}.LayerNorm", "bert.norm"),
        ]
        if bert.segments:
            rows.insert(2, Tensor(f"{theirs}.token_type_embeddings.weight", ("bert.segment.emb",)))
        for i in range(bert.depth):
            rows += self.block_table(f"{self.prefix}{self.layers}.{i}", f"bert.blocks.{i}")
        if isinstance(model, BERT):
            return [replace(row, ours=tuple(name.removeprefix(OURS) for name in row.ours)) for row in rows]
        return rows + self.head_table(model, architecture or self.architecture_of(model))

    def block_table(self, theirs: str, ours: str) -> list[Tensor]:
        names, rows = self.block._asdict(), list[Tensor]()
        for part in "qkvo":
            rows += linear(f"{theirs}.{names[part]}", f"{ours}.attn.w_{part}", f"{ours}.attn.b_{part}")
        for part in "up", "down":
            rows += linear(f"{theirs}.{names[part]}", f"{ours}.ff.w_{part}", f"{ours}.ff.b_{part}")
        for part in "norm1", "norm2":
            rows += norm(f"{theirs}.{names[part]}", f"{ours}.{part}")
        return rows

    def head_table(self, model: BERT | BERTFor, architecture: str) -> list[Tensor]:
        kind, head = self.kind(architecture), head_of(model)
        if kind == BARE:
            return []
        if kind in (CLASSES, NEXT):
            last = self.classifier if kind == CLASSES else "cls.seq_relationship"
            return [
                *linear(self.pooler, "head.pool.w", "head.pool.b"),
                *linear(last, "head.classify.w", "head.classify.b"),
            ]
        if kind == TAGS:
            return linear("classifier", "head.classify.w", "head.classify.b")
        if kind == SPANS:
            return linear("qa_outputs", "head.score.w", "head.score.b")
        transform, its_norm, decoder, bias = self.masked
        tied = isinstance(head, MaskedHead) and head.tied
        return [
            *linear(transform, "head.transform.w", "head.transform.b"),
            *norm(its_norm, "head.norm"),
            *([] if tied else [Tensor(f"{decoder}.weight", ("head.emb",))]),
            Tensor(bias if tied else f"{decoder}.bias", ("head.decoder.b",)),
        ]

    def read(self, folder: Folder) -> Imported:
        config, given, asked = folder.config, self.as_now_spelled(folder.tensors), folder.architecture
        layout = None if asked else pooling.read_layout(folder.path)
        architecture = asked or (self.bare if layout else self.named(config))
        about = self.notes(config, self.kind(architecture))
        model = self.model_from(config, architecture)
        params = self.from_tensors(model, given, architecture, new_head=jax.random.key(0) if asked else None)
        if missing := self.missing_head(model, given, architecture):
            about.append(f"new, to be trained before use: {', '.join(missing)}")
        if others := self.left_out(model, given, architecture):
            about.append(f"left out, of other heads: {', '.join(others)}")
        task = None
        if architecture == self.bare:
            task, more = pooling.task_from(layout, encoder_of(model))
            about += more
        return Imported(model, params, about, self.classes_from(config, architecture), task=task)

    def write(
        self, model: BERT | BERTFor, params: Params | TaskParams, classes: tuple[str, ...]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if isinstance(model, BERTFor) and isinstance(model.head, VectorHead):  # it has no tensors
            model, params = model.bert, params.bert  # pyright: ignore[reportAttributeAccessIssue]
        architecture = self.architecture_of(model, classes)
        return self.config_of(model, architecture, classes), self.to_tensors(model, params, architecture)

    def draw(self, model: BERT | BERTFor, rng: np.random.Generator) -> Given:
        bert = encoder_of(model)
        ids, keep = drawn_ids(bert.text, rng)
        if bert.first_position:  # there, padding is told by its number, and nothing else has it
            padding = bert.first_position - 1
            ids = np.where(keep, np.where(ids == padding, (padding + 1) % bert.text.vocabulary, ids), padding)
        theirs, ours = {"input_ids": ids, "attention_mask": keep.astype(int)}, {"keep": keep}
        if bert.segments:
            theirs["token_type_ids"] = ours["segments"] = rng.integers(bert.segments, size=ids.shape)
        return Given(ids, theirs, ours)

    def logits(self, answer: Any, found: Imported, theirs: str) -> Any:
        """None where their head is another one than ours, or none."""
        ours = self.architecture_of(found.model, found.classes)
        if theirs in self.aliases:  # several heads
            names = {MASKED: "prediction_logits", NEXT: "seq_relationship_logits"}
            return getattr(answer, names.get(self.kind(ours), ""), None)
        if theirs != ours or ours == self.bare:
            return None
        spans = self.kind(ours) == SPANS
        return np.stack([answer.start_logits, answer.end_logits], axis=1) if spans else answer.logits

    def modules(self, model: BERT | BERTFor, classes: tuple[str, ...]) -> tuple[list[Tensor], ...]:
        rows = self.table(model, self.architecture_of(model, classes))
        bare = isinstance(model, BERT)
        return ([replace(row, theirs=row.theirs.removeprefix(self.prefix)) for row in rows] if bare else rows,)

    def format(self) -> Format:
        return Format(
            model_type=self.model_type,
            model=BERTFor,
            bare=BERT,
            fits=lambda model: self.fits(encoder_of(model)),
            architecture=self.bare,
            heads=self.architectures,
            read=self.read,
            write=self.write,
            draw=self.draw,
            modules=self.modules,
            states=states,
            logits=self.logits,
            special_tokens=self.special_tokens,
        )


def head_of(model: BERT | BERTFor) -> Head | None:
    return None if isinstance(model, BERT) else model.head


def encoder_of(model: BERT | BERTFor) -> BERT:
    return model if isinstance(model, BERT) else model.bert


def states(model: BERT | BERTFor) -> list[str]:
    prefix = "" if isinstance(model, BERT) else OURS
    return [f"{prefix}drop.y", *(f"{prefix}blocks.{i}.norm2.y" for i in range(encoder_of(model).depth))]
