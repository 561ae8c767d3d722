"""BERT: the `BertFor…` models of transformers and our `BERTFor`, both ways. Its matrices are (out, in).

The architecture, which `config.json` names, decides the head. A tied decoder and its second bias are copies.
"""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import SettingError
from glassformer.hub import settings, tensors
from glassformer.hub.tensors import Tensor, linear, norm
from glassformer.models import BERT, BERTFor, ClassHead, MaskedHead, SpanHead, TagHead, Text, next_sentence_head
from glassformer.models.bert import TaskParams
from glassformer.names import nearest

CLASSES, TAGS = "BertForSequenceClassification", "BertForTokenClassification"
SPANS, MASKED, NEXT = "BertForQuestionAnswering", "BertForMaskedLM", "BertForNextSentencePrediction"
ARCHITECTURES = (CLASSES, TAGS, SPANS, MASKED, NEXT)

BUFFERS = ("embeddings.position_ids",)  # 0, 1, 2, …, which early files carry

COPIES = {  # of the masked head: tied, the decoder is made of others' tensors; else the first bias is not used
    True: ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"),
    False: ("cls.predictions.bias",),
}


def model_from(config: Mapping[str, Any], architecture: str | None = None) -> BERTFor:
    """The model that a `config.json` describes; `architecture` where another head than the file's is wanted."""
    settings.refuse(config, is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
    bert = BERT(
        text=Text(config["vocab_size"], config["max_position_embeddings"]),
        segments=config.get("type_vocab_size", 2),
        width=config["hidden_size"],
        hidden=config["intermediate_size"],
        heads=config["num_attention_heads"],
        depth=config["num_hidden_layers"],
        dropout=config.get("hidden_dropout_prob", 0.1),
        eps=config.get("layer_norm_eps", 1e-12),
        activation=settings.activation(config, "hidden_act", "gelu"),
    )
    return BERTFor(bert, head_from(config, architecture or (config.get("architectures") or ["none"])[0], bert))


def head_from(config: Mapping[str, Any], architecture: str, bert: BERT) -> ClassHead | TagHead | SpanHead | MaskedHead:
    classes = len(config.get("id2label") or (0, 1))
    dropout = config.get("classifier_dropout")
    dropout = bert.dropout if dropout is None else dropout
    if architecture == CLASSES:
        return ClassHead(bert.width, classes, dropout)
    if architecture == TAGS:
        return TagHead(bert.width, classes, dropout)
    if architecture == SPANS:
        return SpanHead(bert.width)
    if architecture == MASKED:
        tied = config.get("tie_word_embeddings", True)
        return MaskedHead(bert.width, bert.text.vocabulary, tied, bert.eps, bert.activation)
    if architecture == NEXT:
        return next_sentence_head(bert.width)
    near = nearest(architecture, [*ARCHITECTURES])
    raise SettingError(f"architecture: {architecture!r} came{near}, known: {', '.join(ARCHITECTURES)}")


def architecture_of(model: BERTFor) -> str:
    """Next-sentence prediction has the form of a classifier of two classes; it is asked for by name."""
    return {ClassHead: CLASSES, TagHead: TAGS, SpanHead: SPANS, MaskedHead: MASKED}[type(model.head)]


def config_of(model: BERTFor, architecture: str | None = None) -> dict[str, Any]:
    """What belongs into `config.json` so that `model_from` gives the model back."""
    bert, head = model.bert, model.head
    labels = head.classes if isinstance(head, ClassHead | TagHead) else 2
    return {
        "model_type": "bert",
        "architectures": [architecture or architecture_of(model)],
        "vocab_size": bert.text.vocabulary,
        "max_position_embeddings": bert.text.context,
        "type_vocab_size": bert.segments,
        "hidden_size": bert.width,
        "intermediate_size": bert.hidden,
        "num_attention_heads": bert.heads,
        "num_hidden_layers": bert.depth,
        "hidden_dropout_prob": bert.dropout,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": head.dropout if isinstance(head, ClassHead | TagHead) else None,
        "layer_norm_eps": bert.eps,
        "hidden_act": settings.activation_word(bert.activation),
        "tie_word_embeddings": head.tied if isinstance(head, MaskedHead) else True,
        "id2label": {str(i): f"LABEL_{i}" for i in range(labels)},
    }


def to_tensors(model: BERTFor, params: TaskParams, architecture: str | None = None) -> dict[str, Any]:
    return tensors.to_theirs(table(model, architecture), params)


def from_tensors(model: BERTFor, given: Mapping[str, Any], architecture: str | None = None) -> TaskParams:
    copies = COPIES[model.head.tied] if isinstance(model.head, MaskedHead) else ()
    return tensors.to_ours(table(model, architecture), given, model, (*BUFFERS, *copies))


def table(model: BERTFor, architecture: str | None = None) -> list[Tensor]:
    rows = [
        Tensor("bert.embeddings.word_embeddings.weight", ("bert.embed.emb",)),
        Tensor("bert.embeddings.position_embeddings.weight", ("bert.positions.pos",)),
        Tensor("bert.embeddings.token_type_embeddings.weight", ("bert.segment.emb",)),
        *norm("bert.embeddings.LayerNorm", "bert.norm"),
    ]
    for i in range(model.bert.depth):
        rows += block(f"bert.encoder.layer.{i}", f"bert.blocks.{i}")
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


def head_table(model: BERTFor, architecture: str) -> list[Tensor]:
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
    tied = isinstance(model.head, MaskedHead) and model.head.tied
    own = [] if tied else [Tensor("cls.predictions.decoder.weight", ("head.emb",))]
    return [
        *linear("cls.predictions.transform.dense", "head.transform.w", "head.transform.b"),
        *norm("cls.predictions.transform.LayerNorm", "head.norm"),
        *own,
        Tensor("cls.predictions.bias" if tied else "cls.predictions.decoder.bias", ("head.decoder.b",)),
    ]
