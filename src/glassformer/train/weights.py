"""Weights and training state as safetensors: named arrays, settings in the metadata, nothing that can run code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from glassformer.errors import CheckpointError
from glassformer.files import write_whole
from glassformer.names import named_leaves, nearest, with_leaves
from glassformer.reading import parse_json

FORMAT = 1  # raised when an older release could not read the file


def save_arrays(path: Path, arrays: dict[str, Any], about: dict[str, Any]) -> None:
    """Write the arrays by name; `about` is stored beside them as JSON."""
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_whole(path, save(plain, {"glassformer": json.dumps({"format": FORMAT, **about})}))


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays by name, and what was stored beside them."""
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no such file; a run folder is written by `glassformer train`")
    try:
        with safe_open(path, framework="numpy") as file:
            about = parse_json((file.metadata() or {}).get("glassformer", "null"), path, CheckpointError)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({error})") from None
    if not isinstance(about, dict):
        raise CheckpointError(f"{path}: not written by glassformer (its metadata has no settings)")
    refuse_newer(about.get("format", 0), path)
    return arrays, about


def types_in(path: Path) -> set[str]:
    """Of the tensors in a file, by its header: F32, BF16."""
    try:
        with safe_open(path, framework="numpy") as file:
            return {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({error})") from None


def must_be_finite(arrays: Mapping[str, Any], where: str | Path) -> None:
    """Refuse weights with which nothing can be computed."""
    bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
    if bad:
        raise CheckpointError(
            f"{where}: {not_finite(bad, len(arrays))}. The training diverged, or the file is damaged: bring back a "
            "good copy, or train anew with a lower learning rate (--lr)"
        )


def not_finite(names: list[str], total: int) -> str:
    some = ", ".join(names[:3]) + (", …" if names[3:] else "")
    return f"{len(names)} of {total} tensors hold values that are not finite (NaN or infinite): {some}"


def refuse_newer(version: Any, where: str | Path) -> None:
    if not isinstance(version, int) or version > FORMAT:
        raise CheckpointError(
            f"{where}: format version {version}, this release reads up to {FORMAT}; update glassformer"
        )


def fill(tree: Any, arrays: dict[str, np.ndarray], where: Path) -> Any:
    """The tree with its leaves taken from `arrays`; each must be there, with the right shape."""
    must_match(named_leaves(tree), arrays, where)
    return with_leaves(tree, {name: np.asarray(array) for name, array in arrays.items()})


def must_match(expected: Mapping[str, Any], arrays: Mapping[str, Any], where: Path) -> None:
    for name in arrays:
        if name not in expected:
            raise CheckpointError(f"{where}: holds {name!r}, which this model does not have{nearest(name, expected)}")
    for name, leaf in expected.items():
        if name not in arrays:
            raise CheckpointError(f"{where}: {name!r} is missing")
        if arrays[name].shape != leaf.shape:
            raise CheckpointError(f"{where}: {name!r} has shape {arrays[name].shape}, the model expects {leaf.shape}")
        if arrays[name].dtype != leaf.dtype:
            raise CheckpointError(f"{where}: {name!r} is {arrays[name].dtype}, the model expects {leaf.dtype}")
