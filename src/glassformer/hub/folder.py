"""A Hugging Face folder, in and out: config.json, weights as safetensors, the tokeniser.

What comes in is not trusted: settings are checked against plain limits and against the shapes that the weights' own
headers declare before anything is allocated, no file may lead out of the folder, and nothing that can run code is read.
What goes out, transformers loads: AutoModelFor….from_pretrained(folder), AutoTokenizer.from_pretrained(folder).
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save

from glassformer.data.chat_template import ChatTemplate
from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import CheckpointError, FileError, SettingError
from glassformer.files import write_whole
from glassformer.hub.chat_files import chat_files, end_numbers, read_chat
from glassformer.hub.format import Folder, Imported
from glassformer.hub.formats import FORMATS, format_named, format_of
from glassformer.hub.lazy_tensors import WHOLE, lazy_tensors, precision_notes
from glassformer.hub.pooling import layout_of
from glassformer.hub.safe_files import file_in, read_json, told
from glassformer.hub.settings import shown
from glassformer.hub.tokeniser_files import CONFIG as TOKENISER_CONFIG
from glassformer.hub.tokeniser_files import TOKENISER, Exported, read_tokeniser
from glassformer.models.model import Network
from glassformer.train.tasks import Task, Vectors

CONFIG = "config.json"


def read_folder(path: Path, *, architecture: str | None = None, dtype: str = "float32") -> Imported:
    """The model in a folder. `architecture` puts another head on an encoder; what the file lacks of it starts anew.

    `dtype` is that of the weights: float32, or bfloat16, in which such a file stays as it is.
    """
    config = read_config(path)
    with told(path / CONFIG):
        known = format_named(config)
    if architecture is not None and not known.heads:
        able = ", ".join(name for name, other in FORMATS.items() if other.heads)
        raise SettingError(
            f"architecture: {shown(architecture)} came for {known.model_type}; only {able} have heads to choose from"
        )
    tensors = lazy_tensors(path, dtype)
    with told(path / CONFIG):
        found = known.read(Folder(path, config, tensors, architecture))
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), found.params)  # a new head was drawn in float32
    found = replace(found, params=params, notes=[*found.notes, *precision_notes(tensors.values())])
    if known.special_tokens is None:
        return found
    tokeniser = read_tokeniser(path)
    if tokeniser is not None:
        with told(path / CONFIG):
            known.special_tokens.check(found.model, tokeniser)
    return with_tokeniser(found, tokeniser, read_chat(path, config))


def read_config(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise FileError(
            f"{path}: there is no such folder. A model of the hub is downloaded first: hf download NAME --local-dir DIR"
        )
    file = file_in(path, CONFIG)
    if file is None:
        adapter = "; it holds an adapter of PEFT: name the run it belongs to, --onto RUN"
        hint = adapter if (path / "adapter_config.json").exists() else ""
        raise CheckpointError(f"{path}: not a Hugging Face folder, it has no {CONFIG}{hint}")
    return read_json(file)


def with_tokeniser(found: Imported, tokeniser: Tokeniser | None, chat: ChatTemplate | None) -> Imported:
    if tokeniser is None:
        note = "no tokeniser: the model takes and gives the numbers of symbols"
        return replace(found, notes=[*found.notes, note])
    spare = tokeniser.size - found.model.input.vocabulary
    notes = [f"the tokeniser has {spare} symbols more than the model, which cannot be used"] if spare > 0 else []
    return replace(found, tokeniser_json=tokeniser.to_json(), chat=chat, notes=[*found.notes, *notes])


def write_folder(
    path: Path,
    model: Network,
    params: Any,
    *,
    tokeniser_json: str | None = None,
    chat: ChatTemplate | None = None,
    classes: tuple[str, ...] = (),
    task: Task | None = None,
    dtype: str = "float32",
) -> None:
    """The settings come last, so that a folder with a config.json is complete; one that has it already is refused."""
    if (path / CONFIG).exists():
        raise FileError(f"{path}: holds a model already ({CONFIG}); choose another folder, or remove it")
    known = format_of(model)
    config, tensors = known.write(model, params, classes)
    exported = None
    if tokeniser_json is not None and known.special_tokens is not None:
        tokeniser = Tokeniser.from_json(tokeniser_json, TOKENISER, chat)
        known.special_tokens.check(model, tokeniser)
        exported = Exported(tokeniser, known.special_tokens, model.input.context)  # pyright: ignore[reportAttributeAccessIssue]
        config |= exported.numbers() | ({} if chat is None else end_numbers(chat))
    plain = {name: np.asarray(value, dtype, order="C") for name, value in tensors.items()}
    write_whole(path / WHOLE, save(plain, {"format": "pt"}))
    if exported is not None:
        write_whole(path / TOKENISER, exported.json())
        write_json(path / TOKENISER_CONFIG, exported.config())
        for name, template in chat_files(chat).items() if chat is not None else ():
            write_whole(path / name, template)
    layout = layout_of(task, model) if isinstance(task, Vectors) else {}
    for name, content in {**known.files(model, config), **layout}.items():
        write_json(path / name, content)
    write_json(path / CONFIG, config | {"dtype": dtype})


def write_json(path: Path, content: Mapping[str, Any] | list[Any]) -> None:
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
