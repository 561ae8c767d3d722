"""RoBERTa: the `RobertaFor…` models of transformers (Liu et al., 2019): a BERT whose positions are counted.

The first token reads the row of the padding symbol's number and one more: that many rows of the table are no places.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glassformer.errors import SettingError
from glassformer.hub import bert, encoder, settings
from glassformer.hub.encoder import Encoder, Masked
from glassformer.hub.tokeniser_files import ROBERTA_FRAME, SpecialTokens
from glassformer.layers import GELU
from glassformer.models import BERT, Text

PADDING = 1  # where a config.json does not say


def encoder_from(config: Mapping[str, Any]) -> BERT:
    first = 1 + settings.whole(config, "pad_token_id", settings.MOST_SYMBOLS, PADDING, least=0)
    found = bert.encoder_from(config)
    if first > found.text.vocabulary:
        raise SettingError(
            f"pad_token_id: {first - 1} came, expected a symbol of the vocabulary, 0 to {found.text.vocabulary - 1}"
        )
    if found.text.context <= first:
        raise SettingError(
            f"max_position_embeddings: {found.text.context} came, expected more than {first}: "
            "positions begin behind pad_token_id"
        )
    return replace(found, text=Text(found.text.vocabulary, found.text.context - first), first_position=first)


def settings_of(model: BERT, dropout: float | None) -> dict[str, Any]:
    rows, padding = model.first_position + model.text.context, model.first_position - 1
    return bert.settings_of(model, dropout) | {"max_position_embeddings": rows, "pad_token_id": padding}


def notes(config: Mapping[str, Any], kind: str) -> list[str]:
    if kind != encoder.CLASSES or not bert.head_dropout(config, kind):
        return []
    return ["in training only: the class head drops out of the first token there, and here only behind the pooler"]


ENCODER = Encoder(
    model_type="roberta",
    stem="Roberta",
    encoder_from=encoder_from,
    settings_of=settings_of,
    head_dropout=bert.head_dropout,
    fits=lambda model: model.segments > 0 and model.first_position > 0,
    masked=Masked(transform="lm_head.dense", norm="lm_head.layer_norm", decoder="lm_head.decoder", bias="lm_head.bias"),
    masked_activation=GELU(),
    pooler="classifier.dense",
    classifier="classifier.out_proj",
    notes=notes,
    special_tokens=SpecialTokens(
        numbers={"bos_token_id": "start", "eos_token_id": "end"},  # pad_token_id decides where positions begin
        names={"bos_token": "start", "cls_token": "start", "eos_token": "end", "sep_token": "end"},
        frame=ROBERTA_FRAME,
        padding=lambda model: encoder.encoder_of(model).first_position - 1,
    ),
)
ARCHITECTURES = CLASSES, TAGS, SPANS, MASKED = ENCODER.architectures
model_from, config_of = ENCODER.model_from, ENCODER.config_of
from_tensors, to_tensors = ENCODER.from_tensors, ENCODER.to_tensors
FORMAT = ENCODER.format()
