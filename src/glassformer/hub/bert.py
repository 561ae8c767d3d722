"""BERT: the `BertFor…` models of transformers (Devlin et al., 2018)."""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import SettingError
from glassformer.hub import encoder, settings
from glassformer.hub.encoder import Encoder, Masked
from glassformer.hub.tokeniser_files import BERT_FRAME, SpecialTokens
from glassformer.layers import Tanh
from glassformer.models import BERT, Text

NEXT_CLASSES = encoder.NEXT_CLASSES


def encoder_from(config: Mapping[str, Any]) -> BERT:
    settings.refuse(
        config, is_decoder=False, add_cross_attention=False, position_embedding_type="absolute", is_causal=False
    )
    return BERT(
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


def settings_of(bert: BERT, dropout: float | None) -> dict[str, Any]:
    if bert.pooler != Tanh():
        raise SettingError(
            f"BERT and RoBERTa have Tanh in their pooler; a model with {bert.pooler} has no place in them"
        )
    return {
        "vocab_size": bert.text.vocabulary,
        "max_position_embeddings": bert.text.context,
        "type_vocab_size": bert.segments,
        "hidden_size": bert.width,
        "intermediate_size": bert.hidden,
        "num_attention_heads": bert.heads,
        "num_hidden_layers": bert.depth,
        "hidden_dropout_prob": bert.dropout,
        "attention_probs_dropout_prob": settings.attention_dropout(bert),
        "classifier_dropout": dropout,
        "layer_norm_eps": bert.eps,
        "hidden_act": settings.activation_word(bert.activation),
    }


def head_dropout(config: Mapping[str, Any], kind: str) -> float:
    return settings.number(config, "classifier_dropout", settings.number(config, "hidden_dropout_prob", 0.1))


ENCODER = Encoder(
    model_type="bert",
    stem="Bert",
    encoder_from=encoder_from,
    settings_of=settings_of,
    head_dropout=head_dropout,
    fits=lambda bert: bert.segments > 0 and bert.first_position == 0,
    masked=Masked(
        transform="cls.predictions.transform.dense",
        norm="cls.predictions.transform.LayerNorm",
        decoder="cls.predictions.decoder",
        bias="cls.predictions.bias",
    ),
    pooler="bert.pooler.dense",
    heads=(encoder.CLASSES, encoder.TAGS, encoder.SPANS, encoder.MASKED, encoder.NEXT),
    aliases={"BertForPreTraining": "BertForMaskedLM"},  # the masked head and that for the next sentence
    special_tokens=SpecialTokens(
        numbers={"pad_token_id": "pad"},
        names={"cls_token": "start", "sep_token": "end"},
        frame=BERT_FRAME,
        inputs=("input_ids", "token_type_ids", "attention_mask"),
    ),
)
ARCHITECTURES = CLASSES, TAGS, SPANS, MASKED, NEXT = ENCODER.architectures
model_from, config_of = ENCODER.model_from, ENCODER.config_of
from_tensors, to_tensors = ENCODER.from_tensors, ENCODER.to_tensors
FORMAT = ENCODER.format()
