"""What a Hugging Face `config.json` says, read with care: it came from elsewhere. Values of the wrong type, missing or
absurd are named before anything is made of them.
"""

import math
from collections.abc import Mapping
from typing import Any

from glassformer.errors import SettingError
from glassformer.layers import GELU, Attention, GELUTanh, ReLU, SiLU
from glassformer.models.attending import Attending
from glassformer.models.limits import MOST_BLOCKS
from glassformer.models.text import Activation
from glassformer.names import nearest

ACTIVATIONS: dict[str, Activation] = {
    "gelu": GELU(),
    "gelu_new": GELUTanh(),
    "gelu_pytorch_tanh": GELUTanh(),
    "relu": ReLU(),
    "silu": SiLU(),
}

# far above every published model, far below what would overflow a size
MOST_SYMBOLS = 1 << 24  # vocabulary, and places in a sequence
WIDEST = 1 << 18
DEEPEST = MOST_BLOCKS
MOST_CLASSES = 1 << 20

NEEDED = object()


def whole(config: Mapping[str, Any], name: str, most: int, default: Any = NEEDED, least: int = 1) -> int:
    """A size: 1 or more."""
    value = given(config, name, default)
    if value is default:
        return value
    if type(value) is not int or not least <= value <= most:
        raise SettingError(f"{name}: {shown(value)} came, expected a whole number from {least} to {most:,}")
    return value


def number(config: Mapping[str, Any], name: str, default: float) -> float:
    """A small part of one: an eps, a share that is dropped out."""
    value = given(config, name, default)
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise SettingError(f"{name}: {shown(value)} came, expected a number from 0 to 1")
    return float(value)


def positive(config: Mapping[str, Any], name: str, default: Any = NEEDED) -> float:
    """A number above 0, such as a factor."""
    value = given(config, name, default)
    if value is default:
        return value
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise SettingError(f"{name}: {shown(value)} came, expected a number above 0")
    return float(value)


def yes(config: Mapping[str, Any], name: str, default: bool) -> bool:
    value = given(config, name, default)
    if type(value) is not bool:
        raise SettingError(f"{name}: {shown(value)} came, expected true or false")
    return value


def word(config: Mapping[str, Any], name: str, default: str) -> str:
    value = given(config, name, default)
    if not isinstance(value, str):
        raise SettingError(f"{name}: {shown(value)} came, expected a word, such as {default!r}")
    return value


def given(config: Mapping[str, Any], name: str, default: Any) -> Any:
    if name not in config and default is NEEDED:
        raise SettingError(f"{name}: is missing, and has no usual value")
    value = config.get(name, default)
    return default if value is None and default is not NEEDED else value


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def activation(config: Mapping[str, Any], setting: str, default: str) -> Activation:
    name = word(config, setting, default)
    if name not in ACTIVATIONS:
        raise SettingError(
            f"{setting}: {shown(name)} came{nearest(name, [*ACTIVATIONS])}, known: {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


def attend(config: Mapping[str, Any], name: str, default: float) -> Attention:
    """Plain attention, with the share of attention weights that is dropped out."""
    return Attention(dropout=number(config, name, default))


def attention_dropout(model: Attending) -> float:
    """Refuses what no `config.json` of the published models can say."""
    attend = model.attend.plain
    if not isinstance(attend, Attention):
        raise SettingError(f"the published models have no {attend.called}; a model with it has no place among them")
    if model.window is not None:
        raise SettingError(
            f"the published models have no window; a model with a window of {model.window} has no place among them"
        )
    return attend.dropout


def activation_word(layer: Activation) -> str:
    return next(name for name, known in ACTIVATIONS.items() if known == layer)


def architecture(config: Mapping[str, Any], known: tuple[str, ...]) -> str:
    """The class that wrote the file; where it does not say, the first of `known`."""
    names = given(config, "architectures", None)
    if names is None or names == []:
        return known[0]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingError(f"architectures: {shown(names)} came, expected a list of names, such as [{known[0]!r}]")
    must_be_known(names[0], known)
    return names[0]


def must_be_known(name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise SettingError(f"architecture: {shown(name)} came{nearest(name, [*known])}, known: {', '.join(known)}")


def classes(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the classes. Files that say nothing have two, as is the custom there."""
    names = given(config, "id2label", None)
    if names is None:
        count = whole(config, "num_labels", MOST_CLASSES, 2)
        return tuple(f"LABEL_{i}" for i in range(count))
    if not isinstance(names, dict) or not 1 <= len(names) <= MOST_CLASSES:
        raise SettingError(f'id2label: {shown(names)} came, expected the name of each class by number: {{"0": "cat"}}')
    numbered = {str(key): name for key, name in names.items()}
    for i in range(len(names)):
        if not isinstance(numbered.get(str(i)), str):
            raise SettingError(f'id2label: class {i} of {len(names)} has no name; expected {{"0": "cat", "1": …}}')
    return tuple(numbered[str(i)] for i in range(len(names)))


def labels(names: tuple[str, ...], count: int) -> dict[str, Any]:
    names = names if len(names) == count else tuple(f"LABEL_{i}" for i in range(count))
    return {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
    }


def refuse(config: Mapping[str, Any], **expected: Any) -> None:
    """Settings that change the formula, and that only one value of is written out here."""
    for name, value in expected.items():
        if config.get(name, value) != value:
            raise SettingError(f"{name}: {shown(config[name])} came, only {value!r} is supported")


def differences(config: Mapping[str, Any], **here: float) -> list[str]:
    """What is dropped out there and not here, or by another share. It shows in training only."""
    there = {name: number(config, name, share) for name, share in here.items()}
    return [
        f"in training only: {name} is {there[name]:g} there and {share:g} here"
        for name, share in here.items()
        if there[name] != share
    ]
