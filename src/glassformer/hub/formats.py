"""The published formats that are mapped to our models. A further one is a file of its own and a line here."""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import SettingError
from glassformer.hub import bert, deit, distilbert, gpt2, llama, roberta, t5, vit
from glassformer.hub.format import Format
from glassformer.hub.settings import shown
from glassformer.models import Network
from glassformer.names import nearest

FORMATS = {
    known.model_type: known
    for known in (
        gpt2.FORMAT,
        *llama.FORMATS,
        bert.FORMAT,
        roberta.FORMAT,
        distilbert.FORMAT,
        t5.FORMAT,
        vit.FORMAT,
        deit.FORMAT,
    )
}


def format_named(config: Mapping[str, Any]) -> Format:
    """By the model_type of a config.json."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FORMATS:
        came = "is missing" if kind is None else f"{shown(kind)} came{nearest(str(kind), list(FORMATS))}"
        raise SettingError(f"model_type: {came}, supported: {', '.join(FORMATS)}")
    return FORMATS[kind]


def format_of(model: Network) -> Format:
    for known in FORMATS.values():
        if isinstance(model, (known.model, known.bare or known.model)) and known.fits(model):
            return known
    names = ", ".join(sorted({known.model.__name__ for known in FORMATS.values()}))
    raise SettingError(f"{type(model).__name__} has no counterpart among Hugging Face models; those that have: {names}")
