"""Activations by the words of a Hugging Face `config.json`."""

from collections.abc import Mapping
from typing import Any

from glassformer.errors import SettingError
from glassformer.layers import GELU, GELUTanh, ReLU, SiLU
from glassformer.models.text import Activation
from glassformer.names import nearest

ACTIVATIONS: dict[str, Activation] = {
    "gelu": GELU(),
    "gelu_new": GELUTanh(),
    "gelu_pytorch_tanh": GELUTanh(),
    "relu": ReLU(),
    "silu": SiLU(),
}


def activation(config: Mapping[str, Any], setting: str, default: str) -> Activation:
    word = config.get(setting, default)
    if word not in ACTIVATIONS:
        raise SettingError(
            f"{setting}: {word!r} came{nearest(str(word), [*ACTIVATIONS])}, known: {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[word]


def activation_word(layer: Activation) -> str:
    return next(word for word, known in ACTIVATIONS.items() if known == layer)


def refuse(config: Mapping[str, Any], **expected: Any) -> None:
    """Settings that change the formula, and that only one value of is written out here."""
    for name, value in expected.items():
        if config.get(name, value) != value:
            raise SettingError(f"{name}: {config[name]!r} came, only {value!r} is supported")
