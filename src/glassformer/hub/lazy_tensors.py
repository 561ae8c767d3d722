"""Tensors as they lie in a folder: one model.safetensors, or several with an index. Only headers are read at first.

A header says the name, type and shape of every tensor, and must account for every byte of its file: shapes can thus be
compared with the settings before anything is allocated. Half precision is widened to float32, which changes no value,
or bfloat16 is kept.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  teaches NumPy the word bfloat16; it comes with JAX
import numpy as np
from safetensors import SafetensorError, safe_open

from glassformer.errors import CheckpointError
from glassformer.hub.safe_files import file_in, read_json
from glassformer.hub.settings import shown
from glassformer.memory import must_fit

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
FOREIGN = ("tf_model.h5", "flax_model.msgpack", "model.ckpt.index", "rust_model.ot")
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
KEPT = {"float32": ("F32",), "bfloat16": ("BF16",)}  # what is read as it lies
WIDENED = {"float32": ("F16", "BF16"), "bfloat16": ()}  # and what loses nothing


@dataclass(frozen=True, eq=False)
class LazyTensor:
    """A tensor that is read when an array is made of it."""

    path: Path
    name: str
    shape: tuple[int, ...]
    kind: str  # F32, BF16, I64, …
    file: Any  # open for reading
    dtype: np.dtype  # in which it is read: float32 or bfloat16

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.kind not in FLOATS:
            raise CheckpointError(
                f"{self.path}: the tensor {self.name!r} is of type {self.kind}, expected {', '.join(FLOATS)}; "
                "save the model unquantised"
            )
        try:
            return np.asarray(self.file.get_tensor(self.name), self.dtype).astype(dtype or self.dtype, copy=False)
        except (SafetensorError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{self.path}: the tensor {self.name!r} cannot be read ({error})") from None


def lazy_tensors(folder: Path, dtype: str = "float32") -> dict[str, LazyTensor]:
    whole, index = file_in(folder, WHOLE), file_in(folder, INDEX)
    if whole is not None:
        return fitting(folder, in_file(whole, dtype), dtype)
    if index is not None:
        return fitting(folder, in_shards(folder, index, dtype), dtype)
    there = [name for name in (*PICKLES, *FOREIGN) if file_in(folder, name) is not None]
    if any(name in PICKLES for name in there):
        raise CheckpointError(
            f"{folder}: holds {there[0]} and no {WHOLE}. The former is a pickle, which can run code and is not read; "
            "where you trust it, load it with transformers and save it again, with save_pretrained, as safetensors"
        )
    other = f"; {', '.join(there)} is not read: load it with transformers and save it again" if there else ""
    raise CheckpointError(f"{folder}: has no weights: neither {WHOLE} nor {INDEX}{other}")


def fitting(folder: Path, tensors: dict[str, LazyTensor], dtype: str) -> dict[str, LazyTensor]:
    """The same, if there is memory for all: a file with holes in it holds less than it is long."""
    needed = np.dtype(dtype).itemsize * sum(math.prod(tensor.shape) for tensor in tensors.values())
    must_fit(needed, f"{folder}: the model, in {dtype},", "close other programs", CheckpointError)
    return tensors


def in_file(path: Path, dtype: str = "float32") -> dict[str, LazyTensor]:
    try:
        file = safe_open(path, framework="numpy")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: LazyTensor(path, name, tuple(one.get_shape()), one.get_dtype(), file, np.dtype(dtype))
            for name, one in slices.items()
        }
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path}: damaged, cut short or not a safetensors file ({error}); copy it again"
        ) from None


def in_shards(folder: Path, index: Path, dtype: str) -> dict[str, LazyTensor]:
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places or not all(isinstance(shard, str) for shard in places.values()):
        raise CheckpointError(f"{index}: weight_map is {shown(places)}, expected the file of each tensor by name")
    found: dict[str, LazyTensor] = {}
    for shard in sorted(set(places.values())):
        path = file_in(folder, shard)
        if path is None:
            raise CheckpointError(f"{folder}: {shard} is missing, which {INDEX} names; copy it again")
        for name, tensor in in_file(path, dtype).items():
            if name in found:
                raise CheckpointError(f"{path}: the tensor {name!r} is in {found[name].path.name} as well")
            if name not in places:
                raise CheckpointError(f"{path}: the tensor {name!r} is not in {INDEX}; they do not belong together")
            found[name] = tensor
    for name, shard in places.items():
        if name not in found or found[name].path.name != shard:
            raise CheckpointError(f"{folder / shard}: the tensor {name!r} is not in it, where {INDEX} says it is")
    return found


def precision_notes(tensors: Iterable[LazyTensor]) -> list[str]:
    """Which types are others here than in the file, and whether values were rounded."""
    pairs = sorted({(tensor.kind, tensor.dtype.name) for tensor in tensors if tensor.kind in FLOATS})
    return [
        f"{FLOATS[kind]} in the file, {dtype} here{'' if kind in WIDENED[dtype] else ' (rounded)'}"
        for kind, dtype in pairs
        if kind not in KEPT[dtype]
    ]
