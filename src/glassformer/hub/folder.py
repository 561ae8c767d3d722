"""A Hugging Face folder, in and out: config.json, weights as safetensors, the tokeniser.

What comes in is not trusted: settings are checked against plain limits and against the shapes that the weights' own
headers declare before anything is allocated, no file may lead out of the folder, and nothing that can run code is read.
What goes out, transformers loads: AutoModelFor….from_pretrained(folder), AutoTokenizer.from_pretrained(folder).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import CheckpointError, FileError, GlassformerError, SettingError
from glassformer.files import write_whole
from glassformer.hub import bert, gpt2, settings, t5, vit
from glassformer.hub.lazy_tensors import WHOLE, lazy_tensors, precision_notes
from glassformer.hub.safe_files import file_in, json_in, read_json
from glassformer.hub.settings import shown
from glassformer.hub.tokeniser_files import CONFIG as TOKENISER_CONFIG
from glassformer.hub.tokeniser_files import TOKENISER, Exported, read_tokeniser
from glassformer.models import GPT, T5, BERTFor, ViT
from glassformer.models.model import Network
from glassformer.names import nearest

CONFIG, PREPARATION, GENERATION = "config.json", "preprocessor_config.json", "generation_config.json"
KINDS: dict[str, type[Network]] = {"gpt2": GPT, "bert": BERTFor, "t5": T5, "vit": ViT}


@dataclass(frozen=True)
class Imported:
    model: Any  # a GPT, BERTFor, T5 or ViT
    params: Any
    tokeniser_json: str | None
    classes: tuple[str, ...]  # names; none where the model does not classify
    notes: list[str]  # what a person should know: left out, converted, new


def read_folder(path: Path, *, architecture: str | None = None) -> Imported:
    """The model in a folder. `architecture` puts another head on a BERT; what the file lacks of it starts anew."""
    config = read_config(path)
    kind = model_type(path, config)
    if architecture is not None and kind != "bert":
        raise SettingError(f"architecture: {shown(architecture)} came for {kind}; only bert has heads to choose from")
    tensors = lazy_tensors(path)
    with told(path / CONFIG):
        if kind == "bert":
            found = read_bert(config, tensors, architecture)
        elif kind == "vit":
            found = read_vit(path, config, tensors)
        else:
            module = {"gpt2": gpt2, "t5": t5}[kind]
            model = module.model_from(config)
            found = Imported(model, module.from_tensors(model, tensors), None, (), module.notes(config))
    found = replace(found, notes=[*found.notes, *precision_notes(tensors.values())])
    return found if kind == "vit" else with_tokeniser(found, read_tokeniser(path))


def read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise FileError(
            f"{path}: there is no such folder. A model of the hub is downloaded first: hf download NAME --local-dir DIR"
        )
    file = file_in(path, CONFIG)
    if file is None:
        raise CheckpointError(f"{path}: not a Hugging Face folder, it has no {CONFIG}")
    return read_json(file)


def model_type(path: Path, config: Mapping[str, Any]) -> str:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KINDS:
        came = "is missing" if kind is None else f"{shown(kind)} came{nearest(str(kind), list(KINDS))}"
        raise SettingError(f"{path / CONFIG}: model_type: {came}, supported: {', '.join(KINDS)}")
    return kind


@contextmanager
def told(where: Path) -> Iterator[None]:
    """Messages begin with the file that they are about."""
    try:
        yield
    except GlassformerError as error:
        if str(error).startswith(str(where.parent)):
            raise
        raise type(error)(f"{where}: {error}") from None


def read_bert(config: Mapping[str, Any], tensors: Mapping[str, Any], asked: str | None) -> Imported:
    architecture = asked or bert.named(config)
    model = bert.model_from(config, architecture)
    missing = bert.missing_head(model, tensors, architecture)
    others = bert.left_out(model, tensors, architecture)
    params = bert.from_tensors(model, tensors, architecture, new_head=jax.random.key(0) if asked else None)
    notes = bert.notes(config)
    if missing:
        notes.append(f"new, to be trained before use: {', '.join(missing)}")
    if others:
        notes.append(f"left out, of other heads: {', '.join(others)}")
    return Imported(model, params, None, bert.classes_from(config, architecture), notes)


def read_vit(path: Path, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> Imported:
    preparation = json_in(path, PREPARATION)
    notes = vit.notes(config)
    if preparation is None:
        notes.append(f"no {PREPARATION}: pixels are taken from 0 to 1, neither shifted nor scaled")
    with told(path / PREPARATION):
        vit.spread(preparation or {})
    model = vit.model_from(config, preparation)
    return Imported(model, vit.from_tensors(model, tensors), None, settings.classes(config), notes)


def with_tokeniser(found: Imported, tokeniser: Tokeniser | None) -> Imported:
    if tokeniser is None:
        note = "no tokeniser: the model takes and gives the numbers of symbols"
        return replace(found, notes=[*found.notes, note])
    spare = tokeniser.size - text_of(found.model).vocabulary
    notes = [f"the tokeniser has {spare} symbols more than the model, which cannot be used"] if spare > 0 else []
    return replace(found, tokeniser_json=tokeniser.to_json(), notes=[*found.notes, *notes])


def text_of(model: Any) -> Any:
    return model.bert.text if isinstance(model, BERTFor) else model.text


def write_folder(
    path: Path, model: Network, params: Any, *, tokeniser_json: str | None = None, classes: tuple[str, ...] = ()
) -> None:
    """The settings come last, so that a folder with a config.json is complete; one that has it already is refused."""
    if (path / CONFIG).exists():
        raise FileError(f"{path}: holds a model already ({CONFIG}); choose another folder, or remove it")
    config, tensors = described(model, params, classes)
    exported = None
    if tokeniser_json is not None:
        tokeniser = Tokeniser.from_json(tokeniser_json, TOKENISER)
        exported = Exported(tokeniser, config["model_type"], text_of(model).context)
        config |= exported.numbers()
    plain = {name: np.asarray(value, np.float32, order="C") for name, value in tensors.items()}
    write_whole(path / WHOLE, save(plain, {"format": "pt"}))
    if exported is not None:
        write_whole(path / TOKENISER, exported.json())
        write_json(path / TOKENISER_CONFIG, exported.config())
    if isinstance(model, ViT):
        write_json(path / PREPARATION, vit.preparation_of(model))
    if isinstance(model, GPT | T5):
        write_json(path / GENERATION, {name: value for name, value in config.items() if name.endswith("_token_id")})
    write_json(path / CONFIG, config | {"dtype": "float32"})


def described(model: Network, params: Any, classes: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(model, GPT):
        return gpt2.config_of(model), gpt2.to_tensors(model, params)
    if isinstance(model, T5):
        return t5.config_of(model), t5.to_tensors(model, params)
    if isinstance(model, ViT):
        return vit.config_of(model, classes), vit.to_tensors(model, params)
    if isinstance(model, BERTFor):
        architecture = bert.architecture_of(model, classes)
        return bert.config_of(model, architecture, classes), bert.to_tensors(model, params, architecture)
    known = ", ".join(sorted(cls.__name__ for cls in KINDS.values()))
    raise SettingError(f"{type(model).__name__} has no counterpart among Hugging Face models; those that have: {known}")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
