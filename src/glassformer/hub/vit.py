"""ViT: `ViTForImageClassification` of transformers and our `ViT`, both ways; and DeiT (deit.py). Matrices: (out, in).

Their patches pass through a convolution, (out, channel, row, column); ours are rows of (row, column, channel) values.
How pixels are prepared stands in `preprocessor_config.json`. Names are those of files; transformers has others for the
same tensors once they are loaded, which are read as well.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer.errors import SettingError
from glassformer.hub import settings, tensors
from glassformer.hub.format import BATCH, Folder, Format, Given, Imported
from glassformer.hub.safe_files import json_in, told
from glassformer.hub.tensors import Tensor, linear, norm
from glassformer.models import Images, ViT
from glassformer.models.vit import Params

ARCHITECTURES = {  # what each has of distillation
    "vit": {"ViTForImageClassification": "none"},
    "deit": {"DeiTForImageClassification": "token", "DeiTForImageClassificationWithTeacher": "head"},
}
PREPARATION = "preprocessor_config.json"
Spread = float | tuple[float, ...]  # of all channels, or of each
LARGEST = 1 << 16  # rows or columns of an image
MOST = float(np.finfo(np.float32).max)  # of a number

FILE = {  # the parts of a block
    "block": "encoder.layer",
    "q": "attention.attention.query",
    "k": "attention.attention.key",
    "v": "attention.attention.value",
    "o": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}
LOADED = {
    "block": "layers",
    "q": "attention.q_proj",
    "k": "attention.k_proj",
    "v": "attention.v_proj",
    "o": "attention.o_proj",
    "up": "mlp.fc1",
    "down": "mlp.fc2",
}


def model_from(config: Mapping[str, Any], preparation: Mapping[str, Any] | None = None) -> ViT:
    """The model that a `config.json` describes, and a `preprocessor_config.json`; without one, pixels are 0 to 1."""
    known: Any = ARCHITECTURES[config.get("model_type", "vit")]
    distillation = known[settings.architecture(config, tuple(known))]
    settings.refuse(config, qkv_bias=True, hidden_act="gelu", is_causal=False)
    rows, columns = pair(config, "image_size", 224)
    patch, patch_columns = pair(config, "patch_size", 16)
    if patch != patch_columns:
        raise SettingError(f"patch_size: {patch} x {patch_columns} came, only square patches are supported")
    mean, std = (0.0, 1.0) if preparation is None else spread(preparation)
    return ViT(
        images=Images(
            shape=(rows, columns, settings.whole(config, "num_channels", settings.WIDEST, 3)),
            classes=len(settings.classes(config)),
            mean=mean,
            std=std,
        ),
        patch_size=patch,
        width=settings.whole(config, "hidden_size", settings.WIDEST),
        hidden=settings.whole(config, "intermediate_size", settings.WIDEST),
        heads=settings.whole(config, "num_attention_heads", settings.WIDEST),
        depth=settings.whole(config, "num_hidden_layers", settings.DEEPEST),
        with_class_token=True,
        distillation=distillation,
        dropout=settings.number(config, "hidden_dropout_prob", 0.0),
        eps=settings.number(config, "layer_norm_eps", 1e-12),
        attend=settings.attend(config, "attention_probs_dropout_prob", 0.0),
    )


def pair(config: Mapping[str, Any], name: str, default: int) -> tuple[int, int]:
    """One number for a square, or rows and columns."""
    value = settings.given(config, name, default)
    sides = value if isinstance(value, list | tuple) and len(value) == 2 else (value, value)
    rows, columns = (settings.whole({name: side}, name, LARGEST) for side in sides)
    return rows, columns


def spread(preparation: Mapping[str, Any]) -> tuple[Spread, Spread]:
    """Mean and standard deviation of pixels from 0 to 1; there they may be of pixels from 0 to 255."""
    factor, usual = preparation.get("rescale_factor", 1 / 255), settings.yes(preparation, "do_rescale", True)
    if type(factor) not in (int, float) or not 0 < factor <= MOST:
        raise SettingError(
            f"rescale_factor: {settings.shown(factor)} came, expected a number such as 0.00392 (1 / 255)"
        )
    whitest = 255 * factor if usual else 255.0
    scale = 1.0 if math.isclose(whitest, 1) else whitest
    if not settings.yes(preparation, "do_normalize", True):
        return 0.0, 1 / scale
    means, stds = of_channels(preparation, "image_mean"), of_channels(preparation, "image_std")
    if min(stds) <= 0:
        raise SettingError(f"image_std: {settings.shown(preparation['image_std'])} came, expected a number above 0")
    return as_few([mean / scale for mean in means]), as_few([std / scale for std in stds])


def as_few(values: list[float]) -> Spread:
    """One number, where all channels have the same."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def of_channels(preparation: Mapping[str, Any], name: str) -> list[float]:
    value = settings.given(preparation, name, 0.5)
    values: list[Any] = list(value) if isinstance(value, list | tuple) and value else [value]
    if not all(type(one) in (int, float) and abs(one) <= MOST for one in values):  # NaN is not either
        raise SettingError(f"{name}: {settings.shown(value)} came, expected a number for each channel")
    return [float(one) for one in values]


def config_of(model: ViT, classes: tuple[str, ...] = ()) -> dict[str, Any]:
    """What belongs into `config.json`, so that `model_from`, with `preparation_of`, gives the model back."""
    if not model.with_class_token:
        raise SettingError("the ViT of transformers reads a class token; a model that averages has no place in it")
    rows, columns, channels = model.images.shape
    kind = model_type(model)
    return {
        "model_type": kind,
        "architectures": [name for name, has in ARCHITECTURES[kind].items() if has == model.distillation],
        "image_size": rows if rows == columns else [rows, columns],
        "num_channels": channels,
        "patch_size": model.patch_size,
        "hidden_size": model.width,
        "intermediate_size": model.hidden,
        "num_attention_heads": model.heads,
        "num_hidden_layers": model.depth,
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": settings.attention_dropout(model),
        "layer_norm_eps": model.eps,
        "hidden_act": "gelu",
        "qkv_bias": True,
        **settings.labels(classes, model.images.classes),
    }


def preparation_of(model: ViT) -> dict[str, Any]:
    """What belongs into `preprocessor_config.json`."""
    images = model.images
    rows, columns, _ = images.shape
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": rows, "width": columns},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(images.by_channel(images.mean)),
        "image_std": list(images.by_channel(images.std)),
    }


def model_type(model: ViT) -> str:
    return "vit" if model.distillation == "none" else "deit"


def to_tensors(model: ViT, params: Params, names: Mapping[str, str] = FILE) -> dict[str, Any]:
    return tensors.to_theirs(table(model, names), params)


def from_tensors(model: ViT, given: Mapping[str, Any]) -> Params:
    loaded = any(name.startswith(f"{model_type(model)}.{LOADED['block']}.") for name in given)
    return tensors.to_ours(table(model, LOADED if loaded else FILE), given, model)


def table(model: ViT, names: Mapping[str, str] = FILE) -> list[Tensor]:
    side, channels, tokens = model.patch_size, model.images.shape[2], model.positions.tokens
    prefix = model_type(model)
    embeddings = f"{prefix}.embeddings"
    rows = [
        Tensor(f"{embeddings}.cls_token", ("class_token.token",), shape=(1, 1, model.width)),
        Tensor(f"{embeddings}.position_embeddings", ("positions.pos",), shape=(1, tokens, model.width)),
        Tensor(
            f"{embeddings}.patch_embeddings.projection.weight",
            ("patch.w",),
            shape=(side, side, channels, model.width),
            axes=(3, 2, 0, 1),
        ),
        Tensor(f"{embeddings}.patch_embeddings.projection.bias", ("patch.b",)),
    ]
    if model.distillation != "none":
        token = ("distillation_token.token",)
        rows.insert(1, Tensor(f"{embeddings}.distillation_token", token, shape=(1, 1, model.width)))
    for i in range(model.depth):
        rows += block(f"{prefix}.{names['block']}.{i}", f"blocks.{i}", names)
    rows += norm(f"{prefix}.layernorm", "norm")
    if model.distillation != "head":
        return [*rows, *linear("classifier", "head.w", "head.b")]
    rows += linear("cls_classifier", "head.classify.w", "head.classify.b")
    return [*rows, *linear("distillation_classifier", "head.distil.w", "head.distil.b")]


def block(theirs: str, ours: str, names: Mapping[str, str]) -> list[Tensor]:
    rows = [*norm(f"{theirs}.layernorm_before", f"{ours}.norm1")]
    for part in "qkvo":
        rows += linear(f"{theirs}.{names[part]}", f"{ours}.attn.w_{part}", f"{ours}.attn.b_{part}")
    rows += norm(f"{theirs}.layernorm_after", f"{ours}.norm2")
    for part in "up", "down":
        rows += linear(f"{theirs}.{names[part]}", f"{ours}.ff.w_{part}", f"{ours}.ff.b_{part}")
    return rows


def read(folder: Folder) -> Imported:
    preparation, about = json_in(folder.path, PREPARATION), list[str]()
    if preparation is None:
        about.append(f"no {PREPARATION}: pixels are taken from 0 to 1, neither shifted nor scaled")
    with told(folder.path / PREPARATION):
        spread(preparation or {})
        if settings.yes(preparation or {}, "do_center_crop", False):
            about.append("do_center_crop: there the middle of a picture is taken; here a picture is scaled as a whole")
    model = model_from(folder.config, preparation)
    return Imported(model, from_tensors(model, folder.tensors), about, settings.classes(folder.config))


def draw(model: ViT, rng: np.random.Generator) -> Given:
    images = rng.integers(256, size=(BATCH, *model.images.shape), dtype=np.uint8)
    pixels = ((images / 255 - np.array(model.images.mean)) / np.array(model.images.std)).astype(np.float32)
    return Given(images, {"pixel_values": pixels.transpose(0, 3, 1, 2)})


FORMAT = Format(
    model_type="vit",
    model=ViT,
    architecture="ViTForImageClassification",
    fits=lambda model: model.distillation == "none",
    read=read,
    write=lambda model, params, classes: (config_of(model, classes), to_tensors(model, params)),
    draw=draw,
    modules=lambda model, _: (table(model, LOADED), table(model)),
    states=lambda model: ["positions.y", *(f"blocks.{i}.resid_post" for i in range(model.depth))],
    files=lambda model, _: {PREPARATION: preparation_of(model)},
)
