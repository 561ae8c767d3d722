"""Adapters of PEFT, in and out: adapter_config.json and adapter_model.safetensors, plain LoRA on a model we know.

`lora_A` (R, in) and `lora_B` (out, R) of a module are our `a` and `b`, transposed; of a table of embeddings they are
called `lora_embedding_A` and `lora_embedding_B`. What learned as a whole, the task's head, is written out under its own
name, and listed in `modules_to_save`. Where one of their matrices holds several of ours side by side (GPT-2's c_attn),
ours become one of the ranks' sum: the A's on top of each other, every B in its own rows and columns. Read back, each of
ours has the same A and its part of B.
What comes in is not trusted, as in folder.py.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from glassformer.errors import CheckpointError, FileError, SettingError
from glassformer.files import write_whole
from glassformer.hub.folder import write_json
from glassformer.hub.formats import format_of
from glassformer.hub.lazy_tensors import in_file
from glassformer.hub.safe_files import file_in, read_json, told
from glassformer.hub.settings import shown
from glassformer.hub.tensors import Tensor
from glassformer.layers import lora
from glassformer.layers.contract import param_shapes
from glassformer.models.model import Network
from glassformer.names import last_word, named_leaves, nearest, with_leaves
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import ADAPTER, RunFolder
from glassformer.train.tune import LowRank, head_names
from glassformer.train.weights import load_arrays, must_be_finite

CONFIG, WEIGHTS, PICKLE = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."
OTHER_KINDS = (  # what makes of LoRA something else, where it is set
    "use_dora",
    "lora_bias",
    "use_qalora",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "alora_invocation_tokens",
    "arrow_config",
)
LINEAR, TABLE = (".lora_A.weight", ".lora_B.weight"), (".lora_embedding_A", ".lora_embedding_B")
STARTS = (True, False, "gaussian", "eva", "orthogonal")  # init_lora_weights that leave the base as it is
LARGEST_ALPHA = 1e6


@dataclass(frozen=True)
class Update:
    """What is added to one of our matrices: a @ b * scale."""

    a: np.ndarray
    b: np.ndarray
    scale: float


def write_adapter(path: Path, folder: RunFolder) -> dict[str, Any]:
    """What a run tuned by lora has learned; the config comes last. The config."""
    recipe = folder.recipe()
    tune = recipe.tune
    if not isinstance(tune, LowRank):
        raise SettingError(
            f"{folder.path}: it has no adapter: it was not trained with --tune lora; --to hf writes the whole model"
        )
    if (path / CONFIG).exists():
        raise FileError(f"{path}: holds an adapter already ({CONFIG}); choose another folder, or remove it")
    params, classes = folder.load_model(recipe)
    arrays, _ = load_arrays(folder.path / ADAPTER)
    rows = tables_of(recipe.model, classes)[0]
    whole = whole_modules(rows, [name.removeprefix("base.") for name in arrays if name.startswith("base.")])
    leaves = named_leaves(params)
    tensors = {row.theirs: joined(row, leaves) for row in rows if module_of(row) in whole}
    ranks: dict[str, int] = {}
    fused = False
    for row in rows:
        ours = [name for name in row.ours if f"a.{name}" in arrays]
        if not ours or module_of(row) in whole:
            continue
        ends = thin_names(row, recipe.model)
        if ends is None:
            raise SettingError(
                f"{ours[0]}: PEFT adapts linear layers, and tables of embeddings that are read once; leave it out"
            )
        a, b = fused_update(row, arrays, {name: leaves[name].shape for name in row.ours})
        module, ranks[module_of(row)] = module_of(row), len(a)
        tensors |= {module + end: one for end, one in zip(ends, (a, b), strict=True)}
        fused = fused or (ends is LINEAR and not row.transposed)
    plain = {f"{PREFIX}{name}": np.asarray(value, np.float32, order="C") for name, value in tensors.items()}
    config = config_of(tune, ranks, whole, fan_in_fan_out=fused)
    write_whole(path / WEIGHTS, save(plain, {"format": "pt"}))
    write_json(path / CONFIG, config)
    return config


def tables_of(model: Network, classes: tuple[str, ...]) -> tuple[list[Tensor], ...]:
    known = format_of(model)
    if found := known.modules(model, classes):
        return found
    raise SettingError(f"{known.model_type}: no adapters of it are read or written")


def config_of(tune: LowRank, ranks: dict[str, int], whole: list[str], *, fan_in_fan_out: bool) -> dict[str, Any]:
    own = {module: rank for module, rank in ranks.items() if rank != tune.rank}
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": tune.rank,
        "lora_alpha": tune.alpha,
        "rank_pattern": own,
        "alpha_pattern": {module: tune.alpha * rank / tune.rank for module, rank in own.items()},
        "target_modules": list(ranks),
        "modules_to_save": whole or None,
        "fan_in_fan_out": fan_in_fan_out,
        "lora_dropout": 0.0,
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "init_lora_weights": True,
    }


def module_of(row: Tensor) -> str:
    return row.theirs.rpartition(".")[0]


def thin_names(row: Tensor, model: Network) -> tuple[str, str] | None:
    """How the thin matrices of a module end; None: it has none. A table that also makes the logits is theirs twice."""
    if row.shape is not None or not row.theirs.endswith(".weight"):
        return None
    if all(last_word(name).startswith("w") for name in row.ours):
        return LINEAR
    is_table = last_word(row.ours[0]) in ("emb", "pos") and model.output_axis != "symbols"
    return TABLE if is_table else None


def whole_modules(rows: list[Tensor], learned: Iterable[str]) -> list[str]:
    """The modules that learned as a whole, in order."""
    learned = set(learned)
    found = [*dict.fromkeys(module_of(row) for row in rows if learned & set(row.ours))]
    for module in found:
        if inner := [module_of(row) for row in rows if module_of(row).startswith(f"{module}.")]:
            raise SettingError(f"{module}: PEFT saves whole modules, and {inner[0]} is a part of it; keep it frozen")
    return found


def joined(row: Tensor, leaves: Mapping[str, Any]) -> Any:
    return row.to_theirs(np.concatenate([np.asarray(leaves[name]) for name in row.ours], axis=-1))


def fused_update(row: Tensor, arrays: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> tuple[Any, Any]:
    """lora_A and lora_B of a matrix of theirs: the thin matrices of ours in it, each in its own rows and columns."""
    ours = [name for name in row.ours if f"a.{name}" in arrays]
    a = np.concatenate([arrays[f"a.{name}"].T for name in ours])
    b = np.zeros((len(a), sum(shapes[name][1] for name in row.ours)), np.float32)
    top = left = 0
    for name in row.ours:
        if name in ours:
            one = arrays[f"b.{name}"]
            b[top : top + len(one), left : left + shapes[name][1]] = one
            top += len(one)
        left += shapes[name][1]
    return a, b.T


def read_adapter(path: Path, onto: RunFolder) -> tuple[Recipe, lora.Params, tuple[str, ...]]:
    """The run's recipe with the adapter as its tuning, base and adapter, and the names of the classes."""
    recipe = onto.recipe()
    params, classes = onto.load_model(recipe)
    file = file_in(path, CONFIG)
    if file is None:
        raise CheckpointError(f"{path}: not a folder of PEFT, it has no {CONFIG}")
    config = read_json(file)
    with told(file):
        check_config(config)
    weights = file_in(path, WEIGHTS)
    if weights is None:
        pickled = f"; {PICKLE} is a pickle, which can run code and is not read" if (path / PICKLE).exists() else ""
        raise CheckpointError(f"{path}: has no {WEIGHTS}{pickled}")
    tensors = in_file(weights)
    with told(weights):
        updates, whole = matched(config, tensors, recipe.model, classes, onto.path)
        must_be_finite(whole | parts_of(updates), weights)
    tune, a, b = one_rank(updates, recipe.model, list(whole))
    base = with_leaves(params, whole)
    none = dict.fromkeys(named_leaves(param_shapes(recipe.model)))
    tuned = lora.Params(base=base, a=with_leaves(base, none | a), b=with_leaves(base, none | b))
    return with_tune(recipe, tune, onto), tuned, classes


def with_tune(recipe: Recipe, tune: LowRank, onto: RunFolder) -> Recipe:
    return replace(recipe, tune=tune, start=str(onto.path.absolute()), engine=replace(recipe.engine, name="auto"))


def parts_of(updates: Mapping[str, Update]) -> dict[str, np.ndarray]:
    return {f"{part}.{name}": getattr(one, part) for name, one in updates.items() for part in ("a", "b")}


def check_config(config: Mapping[str, Any]) -> None:
    if config.get("peft_type") != "LORA":
        raise SettingError(f"peft_type: {shown(config.get('peft_type'))} came, only LORA is supported")
    for name in OTHER_KINDS:
        if config.get(name):
            raise SettingError(f"{name}: {shown(config[name])} came, only plain LoRA is supported, without it")
    if config.get("bias", "none") != "none":
        raise SettingError(f"bias: {shown(config['bias'])} came, only 'none' is supported")
    if (start := config.get("init_lora_weights", True)) not in STARTS:
        raise SettingError(
            f"init_lora_weights: {shown(start)} came, which changes the weights beneath; supported: "
            f"{', '.join(map(str, STARTS))}"
        )
    for alpha in (config.get("lora_alpha", 8), *pattern(config, "alpha_pattern").values()):
        if type(alpha) not in (int, float) or not 0 < alpha <= LARGEST_ALPHA:
            raise SettingError(f"lora_alpha: {shown(alpha)} came, expected a number above 0")


def pattern(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name) or {}
    if not isinstance(found, dict):
        raise SettingError(f"{name}: {shown(found)} came, expected numbers by module")
    return found


def alpha_of(config: Mapping[str, Any], module: str) -> float:
    """A key is the end of a module's name; some are regular expressions, and not read."""
    for key, alpha in pattern(config, "alpha_pattern").items():
        if not re.fullmatch(r"[\w.]+", key):
            raise SettingError(f"alpha_pattern: {shown(key)} came, expected the names of modules")
        if f".{module}".endswith(f".{key}"):
            return alpha
    return config.get("lora_alpha", 8)


def matched(
    config: Mapping[str, Any], tensors: Mapping[str, Any], model: Network, classes: tuple[str, ...], run: Path
) -> tuple[dict[str, Update], dict[str, np.ndarray]]:
    """Updates of our matrices, and what replaces our parameters, by our names."""
    shapes = {name: leaf.shape for name, leaf in named_leaves(param_shapes(model)).items()}
    given = {name.removeprefix(PREFIX).replace(".base_layer.", "."): tensor for name, tensor in tensors.items()}
    tables = [{row.theirs: row for row in table} for table in tables_of(model, classes)]
    rows = max(tables, key=lambda table: known(given, table))
    updates: dict[str, Update] = {}
    whole: dict[str, np.ndarray] = {}
    for name, tensor in given.items():
        first, second = LINEAR if name.endswith(LINEAR) else TABLE
        if name.endswith(first):
            module = name.removesuffix(first)
            row, other = row_of(rows, module, model, (first, second)), given.get(module + second)
            if other is None:
                raise CheckpointError(f"{module}: lora_A is there, and lora_B is missing; copy the file again")
            inputs, widths = shapes[row.ours[0]][0], [shapes[ours][1] for ours in row.ours]
            rank = tensor.shape[0] if len(tensor.shape) == 2 else 0
            if rank < 1 or tensor.shape != (rank, inputs) or other.shape != (sum(widths), rank):
                raise CheckpointError(
                    f"{module}: lora_A is {tensor.shape} and lora_B is {other.shape}, and {run} needs (rank, {inputs}) "
                    f"and ({sum(widths)}, rank); the adapter was made for another model"
                )
            scale = alpha_of(config, module) / (rank**0.5 if config.get("use_rslora") else rank)
            a, ends = np.asarray(tensor).T, np.cumsum(widths)[:-1]
            for ours, b in zip(row.ours, np.split(np.asarray(other).T, ends, axis=1), strict=True):
                updates[ours] = Update(a, b, scale)
        elif name.endswith(second):
            if name.removesuffix(second) + first not in given:
                raise CheckpointError(f"{name}: its lora_A is missing; copy the file again")
        elif "lora_" in name:
            raise CheckpointError(f"{name}: only lora_A and lora_B of linear layers and of embeddings are supported")
        else:
            whole |= replaced(name, tensor, rows, shapes, model, run)
    if not updates:
        raise CheckpointError("it holds no lora_A and lora_B")
    return updates, whole


def known(given: Iterable[str], table: Mapping[str, Tensor]) -> int:
    return sum(name in table or f"{name.partition('.lora_')[0]}.weight" in table for name in given)


def row_of(rows: Mapping[str, Tensor], module: str, model: Network, ends: tuple[str, str]) -> Tensor:
    row = rows.get(f"{module}.weight")
    if row is None or thin_names(row, model) != ends:
        others = [module_of(one) for one in rows.values() if thin_names(one, model) == ends]
        what = "linear layer" if ends == LINEAR else "table of embeddings that is read once"
        raise CheckpointError(
            f"{module}: {type(model).__name__} has no such {what}{nearest(module, others)}; "
            "the adapter was made for another model"
        )
    return row


def replaced(
    name: str, tensor: Any, rows: Mapping[str, Tensor], shapes: Mapping[str, Any], model: Network, run: Path
) -> dict[str, np.ndarray]:
    """Our parameters, of a tensor that was saved whole."""
    if name not in rows:
        raise CheckpointError(
            f"{name}: {type(model).__name__} has no such tensor{nearest(name, list(rows))}; put the head on {run} that "
            "the adapter was made with, or take another run"
        )
    row = rows[name]
    ours = [shapes[one] for one in row.ours]
    shape = (*ours[0][:-1], sum(one[-1] for one in ours))
    if tensor.shape != row.shape_of_theirs(shape):
        raise CheckpointError(
            f"{name}: its shape is {tensor.shape}, and {run} has {row.shape_of_theirs(shape)} there; the adapter was "
            "made for another model, or with other classes"
        )
    parts = np.split(row.to_ours(np.asarray(tensor), shape), np.cumsum([one[-1] for one in ours])[:-1], axis=-1)
    return dict(zip(row.ours, parts, strict=True))


def one_rank(
    updates: Mapping[str, Update], model: Network, whole: list[str]
) -> tuple[LowRank, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """All with the largest rank, the others filled up with zeros, and one scale: no product changes."""
    rank, scale = max(len(one.b) for one in updates.values()), next(iter(updates.values())).scale
    a = {name: np.pad(one.a, ((0, 0), (0, rank - one.a.shape[1]))) for name, one in updates.items()}
    b = {name: np.pad(one.b, ((0, rank - len(one.b)), (0, 0))) for name, one in updates.items()}
    b = {name: one if updates[name].scale == scale else one * (updates[name].scale / scale) for name, one in b.items()}
    head = set(head_names(model))
    also = [*(f"{part}.*" for part in model.task_parts if head and head <= set(whole)), *sorted(set(whole) - head)]
    also += [] if head <= set(whole) else sorted(set(whole) & head)
    names = list(named_leaves(param_shapes(model)))
    return LowRank(rank, scale * rank, short_patterns(list(updates), names), tuple(also)), a, b


def short_patterns(chosen: list[str], names: list[str]) -> tuple[str, ...]:
    """`*.w_q` for all that are called so, if all are chosen; else the names themselves."""
    patterns = []
    for name in chosen:
        short = f"*.{last_word(name)}"
        every = all(one in chosen for one in names if fnmatchcase(one, short))
        patterns.append(short if every and fnmatchcase(name, short) else name)
    return tuple(dict.fromkeys(patterns))
