"""DistilBERT: the `DistilBertFor…` models of transformers (Sanh et al., 2019): a BERT that knows no segments."""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import SettingError
from glassformer.hub import encoder, settings
from glassformer.hub.encoder import Block, Encoder, Masked
from glassformer.hub.tokeniser_files import BERT_FRAME, SpecialTokens
from glassformer.layers import ReLU
from glassformer.models import BERT, Text

EPS = 1e-12  # of every norm: no setting there


def encoder_from(config: Mapping[str, Any]) -> BERT:
    settings.refuse(config, is_causal=False)
    return BERT(
        text=Text(
            settings.whole(config, "vocab_size", settings.MOST_SYMBOLS),
            settings.whole(config, "max_position_embeddings", settings.MOST_SYMBOLS),
        ),
        segments=0,
        width=settings.whole(config, "dim", settings.WIDEST),
        hidden=settings.whole(config, "hidden_dim", settings.WIDEST),
        heads=settings.whole(config, "n_heads", settings.WIDEST),
        depth=settings.whole(config, "n_layers", settings.DEEPEST),
        dropout=settings.number(config, "dropout", 0.1),
        eps=EPS,
        activation=settings.activation(config, "activation", "gelu"),
        pooler=ReLU(),
        attend=settings.attend(config, "attention_dropout", 0.1),
    )


def settings_of(bert: BERT, dropout: float | None) -> dict[str, Any]:
    if bert.eps != EPS or bert.pooler != ReLU() or bert.first_position:
        raise SettingError(
            f"a BERT without segments is a DistilBERT there: with eps={EPS:g}, ReLU in its pooler, positions from 0; "
            f"one with {bert.eps:g}, {type(bert.pooler).__name__}, positions from {bert.first_position} has no place"
        )
    return {
        "vocab_size": bert.text.vocabulary,
        "max_position_embeddings": bert.text.context,
        "dim": bert.width,
        "hidden_dim": bert.hidden,
        "n_heads": bert.heads,
        "n_layers": bert.depth,
        "dropout": bert.dropout,
        "attention_dropout": settings.attention_dropout(bert),
        "seq_classif_dropout": bert.dropout if dropout is None else dropout,
        "qa_dropout": 0.0,
        "activation": settings.activation_word(bert.activation),
        "sinusoidal_pos_embds": False,
    }


def head_dropout(config: Mapping[str, Any], kind: str) -> float:
    classes = kind == encoder.CLASSES
    return settings.number(config, "seq_classif_dropout", 0.2) if classes else settings.number(config, "dropout", 0.1)


def notes(config: Mapping[str, Any], kind: str) -> list[str]:
    said = settings.differences({"qa_dropout": 0.1, **config}, qa_dropout=0.0) if kind == encoder.SPANS else []
    fixed = settings.yes(config, "sinusoidal_pos_embds", False)
    return [*said, "in training only: positions learn here, and stay sinusoids there"] if fixed else said


ENCODER = Encoder(
    model_type="distilbert",
    stem="DistilBert",
    encoder_from=encoder_from,
    settings_of=settings_of,
    head_dropout=head_dropout,
    fits=lambda bert: bert.segments == 0,
    masked=Masked(
        transform="vocab_transform",
        norm="vocab_layer_norm",
        decoder="vocab_projector",
        bias="vocab_projector.bias",
    ),
    pooler="pre_classifier",
    layers="transformer.layer",
    block=Block(
        q="attention.q_lin",
        k="attention.k_lin",
        v="attention.v_lin",
        o="attention.out_lin",
        norm1="sa_layer_norm",
        up="ffn.lin1",
        down="ffn.lin2",
        norm2="output_layer_norm",
    ),
    notes=notes,
    special_tokens=SpecialTokens(
        numbers={"pad_token_id": "pad"}, names={"cls_token": "start", "sep_token": "end"}, frame=BERT_FRAME
    ),
)
ARCHITECTURES = CLASSES, TAGS, SPANS, MASKED = ENCODER.architectures
model_from, config_of = ENCODER.model_from, ENCODER.config_of
from_tensors, to_tensors = ENCODER.from_tensors, ENCODER.to_tensors
FORMAT = ENCODER.format()
