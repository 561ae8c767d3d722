"""BERT: the `BertFor…` models of transformers and our `BERTFor`, both ways. Its matrices are (out, in).

The architecture, which `config.json` names, decides the head; without one it is our `BERT`, which gives embeddings. A
tied decoder and its second bias are copies. Published files hold more than one head, or none, and some spell the names
as of old; the tensors of other heads are left out.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from glassformer.errors import CheckpointError, SettingError
from glassformer.hub import pooling, settings, tensors
from glassformer.hub.format import Folder, Format, Given, Imported, drawn_ids
from glassformer.hub.tensors import Tensor, linear, norm
from glassformer.hub.tokeniser_files import BERT_FRAME, SpecialTokens
from glassformer.models import (
    BERT,
    BERTFor,
    ClassHead,
    MaskedHead,
    SpanHead,
    TagHead,
    Text,
    VectorHead,
    next_sentence_head,
)
from glassformer.models.bert import Head, Params, TaskParams
from glassformer.shapes import Key

CLASSES, TAGS = "BertForSequenceClassification", "BertForTokenClassification"
SPANS, MASKED, NEXT = "BertForQuestionAnswering", "BertForMaskedLM", "BertForNextSentencePrediction"
ARCHITECTURES = (CLASSES, TAGS, SPANS, MASKED, NEXT)
PRETRAINING, BARE = "BertForPreTraining", "BertModel"  # the masked head and that for the next sentence; no head

NEXT_CLASSES = ("follows", "from elsewhere")  # by which a next-sentence head is known: its form is a classifier's

BERT_ = "bert."  # in front of the encoder's names, where there is a head
BUFFERS = ("embeddings.position_ids",)  # 0, 1, 2, …, which early files carry
HEADS = ("bert.pooler.", "cls.", "classifier.", "qa_outputs.")


def model_from(config: Mapping[str, Any], architecture: str | None = None) -> BERT | BERTFor:
    """The model that a `config.json` describes; `architecture` where another head than the file's is wanted."""
    settings.refuse(config, is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
    bert = BERT(
        text=Text(
            settings.whole(config, "vocab_size", settings.MOST_SYMBOLS),
            settings.whole(config, "max_position_embeddings", settings.MOST_SYMBOLS),
        ),
        segments=settings.whole(config, "type_vocab_size", settings.MOST_SYMBOLS, 2),
        width=settings.whole(config, "hidden_size", settings.WIDEST),
        hidden=settings.whole(config, "intermediate_size", settings.WIDEST),
        heads=settings.whole(config, "num_attention_heads", settings.WIDEST),
        depth=settings.whole(config, "num_hidden_layers", settings.DEEPEST),
        dropout=settings.number(config, "hidden_dropout_prob", 0.1),
        eps=settings.number(config, "layer_norm_eps", 1e-12),
        activation=settings.activation(config, "hidden_act", "gelu"),
        attend=settings.attend(config, "attention_probs_dropout_prob", 0.1),
    )
    architecture = architecture or named(config)
    return bert if architecture == BARE else BERTFor(bert, head_from(config, architecture, bert))


def named(config: Mapping[str, Any]) -> str:
    """The architecture that the file was written for."""
    name = settings.architecture(config, (BARE, *ARCHITECTURES, PRETRAINING))
    return MASKED if name == PRETRAINING else name


def head_from(config: Mapping[str, Any], architecture: str, bert: BERT) -> Head:
    dropout = settings.number(config, "classifier_dropout", bert.dropout)
    if architecture == CLASSES:
        return ClassHead(bert.width, len(settings.classes(config)), dropout)
    if architecture == TAGS:
        return TagHead(bert.width, len(settings.classes(config)), dropout)
    if architecture == SPANS:
        return SpanHead(bert.width)
    if architecture == MASKED:
        tied = settings.yes(config, "tie_word_embeddings", True)
        return MaskedHead(bert.width, bert.text.vocabulary, tied, bert.eps, bert.activation)
    settings.must_be_known(architecture, (*ARCHITECTURES, BARE))
    return next_sentence_head(bert.width)


def classes_from(config: Mapping[str, Any], architecture: str) -> tuple[str, ...]:
    return {CLASSES: settings.classes(config), TAGS: settings.classes(config), NEXT: NEXT_CLASSES}.get(architecture, ())


def architecture_of(model: BERT | BERTFor, classes: tuple[str, ...] = ()) -> str:
    if isinstance(model, BERT) or isinstance(model.head, VectorHead):
        return BARE
    if isinstance(model.head, ClassHead):
        return NEXT if classes == NEXT_CLASSES else CLASSES
    return {TagHead: TAGS, SpanHead: SPANS, MaskedHead: MASKED}[type(model.head)]


def head_of(model: BERT | BERTFor) -> Head | None:
    return None if isinstance(model, BERT) else model.head


def config_of(model: BERT | BERTFor, architecture: str | None = None, classes: tuple[str, ...] = ()) -> dict[str, Any]:
    """What belongs into `config.json` so that `model_from` gives the model back."""
    bert, head = encoder_of(model), head_of(model)
    count = head.classes if isinstance(head, ClassHead | TagHead) else 2
    return {
        "model_type": "bert",
        "architectures": [architecture or architecture_of(model, classes)],
        "vocab_size": bert.text.vocabulary,
        "max_position_embeddings": bert.text.context,
        "type_vocab_size": bert.segments,
        "hidden_size": bert.width,
        "intermediate_size": bert.hidden,
        "num_attention_heads": bert.heads,
        "num_hidden_layers": bert.depth,
        "hidden_dropout_prob": bert.dropout,
        "attention_probs_dropout_prob": settings.attention_dropout(bert),
        "classifier_dropout": head.dropout if isinstance(head, ClassHead | TagHead) else None,
        "layer_norm_eps": bert.eps,
        "hidden_act": settings.activation_word(bert.activation),
        "tie_word_embeddings": head.tied if isinstance(head, MaskedHead) else True,
        **settings.labels(classes, count),
    }


def encoder_of(model: BERT | BERTFor) -> BERT:
    return model if isinstance(model, BERT) else model.bert


def to_tensors(model: BERT | BERTFor, params: Params | TaskParams, architecture: str | None = None) -> dict[str, Any]:
    """The encoder alone has no `bert.` in front there."""
    found = tensors.to_theirs(table(model, architecture), params)
    return {name.removeprefix(BERT_): value for name, value in found.items()} if isinstance(model, BERT) else found


def from_tensors(
    model: BERT | BERTFor, given: Mapping[str, Any], architecture: str | None = None, *, new_head: Key | None = None
) -> Any:
    """`new_head`: what the file lacks of the head is drawn. Without it, a head that is not there is an error."""
    given, architecture = as_now_spelled(given), architecture or architecture_of(model)
    if missing := missing_head(model, given, architecture):
        if new_head is None or isinstance(model, BERT):
            raise SettingError(
                f"the head of {architecture} is not in the file: {', '.join(missing)} missing; "
                "ask for a new one, by its architecture, and train it"
            )
        drawn = TaskParams(bert=None, head=model.head.init(new_head))  # pyright: ignore[reportArgumentType]
        given = {**tensors.to_theirs(head_table(model, architecture), drawn), **given}
    ignored = (*BUFFERS, *copies(model), *left_out(model, given, architecture))
    return tensors.to_ours(table(model, architecture), given, model, ignored)


def missing_head(model: BERT | BERTFor, given: Mapping[str, Any], architecture: str) -> list[str]:
    """The names of the head's tensors that are not there."""
    return [row.theirs for row in head_table(model, architecture) if row.theirs not in given]


def left_out(model: BERT | BERTFor, given: Mapping[str, Any], architecture: str) -> list[str]:
    """The names of tensors that belong to other heads than the model's."""
    known = {*copies(model), *(row.theirs for row in table(model, architecture))}
    return sorted(name for name in given if name.startswith(HEADS) and name not in known)


def copies(model: BERT | BERTFor) -> tuple[str, ...]:
    """A tied masked head's decoder is made of others' tensors; of one of its own the first bias is not used."""
    head = head_of(model)
    if not isinstance(head, MaskedHead):
        return ()
    theirs = "cls.predictions"
    return (f"{theirs}.decoder.weight", f"{theirs}.decoder.bias") if head.tied else (f"{theirs}.bias",)


def as_now_spelled(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Files of the bare model lack the `bert.` in front; early ones call gain and bias of a norm gamma and beta."""
    prefix = BERT_ if "embeddings.word_embeddings.weight" in given else ""
    spelled: dict[str, Any] = {}
    for name, value in given.items():
        now = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if prefix + now in spelled or (now != name and now in given):
            raise CheckpointError(f"the tensor {now!r} is there twice, once as {name!r}")
        spelled[prefix + now] = value
    return spelled


def table(model: BERT | BERTFor, architecture: str | None = None) -> list[Tensor]:
    rows = [
        Tensor("bert.embeddings.word_embeddings.weight", ("bert.embed.emb",)),
        Tensor("bert.embeddings.position_embeddings.weight", ("bert.positions.pos",)),
        Tensor("bert.embeddings.token_type_embeddings.weight", ("bert.segment.emb",)),
        *norm("bert.embeddings.LayerNorm", "bert.norm"),
    ]
    for i in range(encoder_of(model).depth):
        rows += block(f"bert.encoder.layer.{i}", f"bert.blocks.{i}")
    if isinstance(model, BERT):
        return [replace(row, ours=tuple(name.removeprefix(BERT_) for name in row.ours)) for row in rows]
    return rows + head_table(model, architecture or architecture_of(model))


def block(theirs: str, ours: str) -> list[Tensor]:
    return [
        *linear(f"{theirs}.attention.self.query", f"{ours}.attn.w_q", f"{ours}.attn.b_q"),
        *linear(f"{theirs}.attention.self.key", f"{ours}.attn.w_k", f"{ours}.attn.b_k"),
        *linear(f"{theirs}.attention.self.value", f"{ours}.attn.w_v", f"{ours}.attn.b_v"),
        *linear(f"{theirs}.attention.output.dense", f"{ours}.attn.w_o", f"{ours}.attn.b_o"),
        *norm(f"{theirs}.attention.output.LayerNorm", f"{ours}.norm1"),
        *linear(f"{theirs}.intermediate.dense", f"{ours}.ff.w_up", f"{ours}.ff.b_up"),
        *linear(f"{theirs}.output.dense", f"{ours}.ff.w_down", f"{ours}.ff.b_down"),
        *norm(f"{theirs}.output.LayerNorm", f"{ours}.norm2"),
    ]


def head_table(model: BERT | BERTFor, architecture: str) -> list[Tensor]:
    if architecture == BARE:
        return []
    if architecture in (CLASSES, NEXT):
        last = "classifier" if architecture == CLASSES else "cls.seq_relationship"
        return [
            *linear("bert.pooler.dense", "head.pool.w", "head.pool.b"),
            *linear(last, "head.classify.w", "head.classify.b"),
        ]
    if architecture == TAGS:
        return linear("classifier", "head.classify.w", "head.classify.b")
    if architecture == SPANS:
        return linear("qa_outputs", "head.score.w", "head.score.b")
    head = head_of(model)
    tied = isinstance(head, MaskedHead) and head.tied
    own = [] if tied else [Tensor("cls.predictions.decoder.weight", ("head.emb",))]
    return [
        *linear("cls.predictions.transform.dense", "head.transform.w", "head.transform.b"),
        *norm("cls.predictions.transform.LayerNorm", "head.norm"),
        *own,
        Tensor("cls.predictions.bias" if tied else "cls.predictions.decoder.bias", ("head.decoder.b",)),
    ]


def read(folder: Folder) -> Imported:
    config, given, asked = folder.config, as_now_spelled(folder.tensors), folder.architecture
    layout = None if asked else pooling.read_layout(folder.path)
    architecture, about = asked or (BARE if layout else named(config)), list[str]()
    model = model_from(config, architecture)
    params = from_tensors(model, given, architecture, new_head=jax.random.key(0) if asked else None)
    if missing := missing_head(model, given, architecture):
        about.append(f"new, to be trained before use: {', '.join(missing)}")
    if others := left_out(model, given, architecture):
        about.append(f"left out, of other heads: {', '.join(others)}")
    task = None
    if architecture == BARE:
        task, more = pooling.task_from(layout, encoder_of(model))
        about += more
    return Imported(model, params, about, classes_from(config, architecture), task=task)


def write(
    model: BERT | BERTFor, params: Params | TaskParams, classes: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(model, BERTFor) and isinstance(model.head, VectorHead):  # it has no tensors
        model, params = model.bert, params.bert  # pyright: ignore[reportAttributeAccessIssue]
    architecture = architecture_of(model, classes)
    return config_of(model, architecture, classes), to_tensors(model, params, architecture)


def draw(model: BERT | BERTFor, rng: np.random.Generator) -> Given:
    ids, keep = drawn_ids(model.input, rng)
    segments = rng.integers(encoder_of(model).segments, size=ids.shape)
    theirs = {"input_ids": ids, "attention_mask": keep.astype(int), "token_type_ids": segments}
    return Given(ids, theirs, {"keep": keep, "segments": segments})


def logits(answer: Any, found: Imported, theirs: str) -> Any:
    """None where their head is another one than ours, or none."""
    ours = architecture_of(found.model, found.classes)
    if theirs == PRETRAINING:
        return {MASKED: answer.prediction_logits, NEXT: answer.seq_relationship_logits}.get(ours)
    if theirs != ours or ours == BARE:
        return None
    return np.stack([answer.start_logits, answer.end_logits], axis=1) if ours == SPANS else answer.logits


def modules(model: BERT | BERTFor, classes: tuple[str, ...]) -> tuple[list[Tensor], ...]:
    rows = table(model, architecture_of(model, classes))
    bare = isinstance(model, BERT)
    return ([replace(row, theirs=row.theirs.removeprefix(BERT_)) for row in rows] if bare else rows,)


def states(model: BERT | BERTFor) -> list[str]:
    prefix = "" if isinstance(model, BERT) else BERT_
    return [f"{prefix}drop.y", *(f"{prefix}blocks.{i}.norm2.y" for i in range(encoder_of(model).depth))]


FORMAT = Format(
    model_type="bert",
    model=BERTFor,
    architecture=BARE,
    heads=ARCHITECTURES,
    bare=BERT,
    read=read,
    write=write,
    draw=draw,
    modules=modules,
    states=states,
    logits=logits,
    special_tokens=SpecialTokens(
        numbers={"pad_token_id": "pad"},
        names={"cls_token": "start", "sep_token": "end"},
        frame=BERT_FRAME,
        inputs=("input_ids", "token_type_ids", "attention_mask"),
    ),
)
