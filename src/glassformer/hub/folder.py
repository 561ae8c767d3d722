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

import numpy as np
from safetensors.numpy import save

from glassformer.data.tokeniser import Tokeniser
from glassformer.errors import CheckpointError, FileError, SettingError
from glassformer.files import write_whole
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


def read_folder(path: Path, *, architecture: str | None = None) -> Imported:
    """The model in a folder. `architecture` puts another head on a BERT; what the file lacks of it starts anew."""
    config = read_config(path)
    with told(path / CONFIG):
        known = format_named(config)
    if architecture is not None and not known.heads:
        able = ", ".join(name for name, other in FORMATS.items() if other.heads)
        raise SettingError(
            f"architecture: {shown(architecture)} came for {known.model_type}; only {able} has heads to choose from"
        )
    tensors = lazy_tensors(path)
    with told(path / CONFIG):
        found = known.read(Folder(path, config, tensors, architecture))
    found = replace(found, notes=[*found.notes, *precision_notes(tensors.values())])
    return found if known.special_tokens is None else with_tokeniser(found, read_tokeniser(path))


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


def with_tokeniser(found: Imported, tokeniser: Tokeniser | None) -> Imported:
    if tokeniser is None:
        note = "no tokeniser: the model takes and gives the numbers of symbols"
        return replace(found, notes=[*found.notes, note])
    spare = tokeniser.size - found.model.input.vocabulary
    notes = [f"the tokeniser has {spare} symbols more than the model, which cannot be used"] if spare > 0 else []
    return replace(found, tokeniser_json=tokeniser.to_json(), notes=[*found.notes, *notes])


def write_folder(
    path: Path,
    model: Network,
    params: Any,
    *,
    tokeniser_json: str | None = None,
    classes: tuple[str, ...] = (),
    task: Task | None = None,
) -> None:
    """The settings come last, so that a folder with a config.json is complete; one that has it already is refused."""
    if (path / CONFIG).exists():
        raise FileError(f"{path}: holds a model already ({CONFIG}); choose another folder, or remove it")
    known = format_of(model)
    config, tensors = known.write(model, params, classes)
    exported = None
    if tokeniser_json is not None and known.special_tokens is not None:
        tokeniser = Tokeniser.from_json(tokeniser_json, TOKENISER)
        exported = Exported(tokeniser, known.special_tokens, model.input.context)  # pyright: ignore[reportAttributeAccessIssue]
        config |= exported.numbers()
    plain = {name: np.asarray(value, np.float32, order="C") for name, value in tensors.items()}
    write_whole(path / WHOLE, save(plain, {"format": "pt"}))
    if exported is not None:
        write_whole(path / TOKENISER, exported.json())
        write_json(path / TOKENISER_CONFIG, exported.config())
    layout = layout_of(task, model) if isinstance(task, Vectors) else {}
    for name, content in {**known.files(model, config), **layout}.items():
        write_json(path / name, content)
    write_json(path / CONFIG, config | {"dtype": "float32"})


def write_json(path: Path, content: Mapping[str, Any] | list[Any]) -> None:
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
