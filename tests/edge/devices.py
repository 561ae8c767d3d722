"""Small models of every kind that a device can compute, with random weights and samples, and programs that run them."""

from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tests.native.own_kernel import Scaled, give_kernel

from glassformer.edge.layers import program_of
from glassformer.edge.plan import layout_of
from glassformer.edge.write import Source
from glassformer.layers import GELUTanh  # noqa: F401
from glassformer.models import MLP, PatchAttention, PatchBlock, TinyIris, ViT
from glassformer.models.columns import Columns
from glassformer.models.images import Images
from glassformer.models.patch_block import Normed, NormedResidual, WithResidual
from glassformer.names import named_leaves
from glassformer.native.write import number

GREY, COLOURS, TALL = Images((8, 12, 1), 3, 0.4, 0.3), Images((8, 12, 3), 5), Images((14, 7, 1), 10, 0.1, 0.3)
give_kernel()
MODELS: dict[str, Any] = {
    "vit": ViT(images=GREY, width=18, hidden=37, heads=3, depth=2),
    "vit, class token": ViT(images=COLOURS, width=9, hidden=7, heads=3, depth=2, with_class_token=True),
    "patch attention": PatchAttention(images=GREY, patch_size=2, width=10, hidden=17),
    "patch block, normed, residual": PatchBlock(
        images=TALL, patch_size=7, width=18, hidden=20, block=NormedResidual(), heads=2, output=True
    ),
    "patch block, residual": PatchBlock(images=GREY, width=20, block=WithResidual(), heads=5),
    "patch block, normed": PatchBlock(images=GREY, width=16, block=Normed()),
    "mlp": MLP(images=GREY, hidden=(33, 20)),
    "iris": TinyIris(columns=Columns(mean=(1.5, -2.0, 0.0, 7.0), std=(0.5, 2.0, 1.0, 3.0))),
    "somebody's kernel": Scaled(),
}
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Werror")


@cache
def params_of(model: Any) -> Any:
    """Random throughout: ones and zeros hide mistakes."""
    draw = np.random.default_rng(0)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: draw.normal(0, 0.3, leaf.shape).astype(np.float32), shapes)


def weights_of(model: Any) -> dict[str, np.ndarray]:
    return named_leaves(params_of(model))


def samples_of(model: Any, count: int = 3) -> np.ndarray:
    draw, shape = np.random.default_rng(1), model.example(1).shape[1:]
    if model.example(1).dtype == np.uint8:
        return draw.integers(0, 256, (count, *shape), dtype=np.uint8)
    return draw.normal(0, 3, (count, *shape)).astype(np.float32)


@cache
def truth_of(model: Any) -> np.ndarray:
    """Logits of the samples, by JAX."""
    return np.asarray(model.forward(params_of(model), samples_of(model))[0])


def source_of(model: Any, name: str = "model") -> Source:
    return Source(name, "a model", layout_of(program_of(model)), weights_of(model))


def written(source: Source, folder: Path) -> Path:
    for name, text in source.files.items():
        (folder / name).write_text(text)
    return folder / f"{source.name}.c"


def c_array(name: str, array: np.ndarray) -> str:
    kind = "uint8_t" if array.dtype == np.uint8 else "int32_t" if array.dtype == np.int32 else "float"
    values = map(str, array.ravel()) if kind != "float" else map(number, array.ravel().tolist())
    return f"static const {kind} {name}[] = {{{', '.join(values)}}};\n"


def predicting(source: Source, samples: np.ndarray) -> str:
    """A program that reports the logits of all samples, and fails if anything beside the arena was written."""
    name, upper = source.name, source.upper
    return f"""#include "emulator.h"
#include "{name}.h"
{c_array("samples", samples)}
static uint32_t memory[{upper}_ARENA / 4 + 2];
int main(void)
{{
    float logits[{upper}_OUTPUTS];
    int wrong = 0;
    memory[0] = memory[{upper}_ARENA / 4 + 1] = 0x12345678;
    for (int i = 0; i < {len(samples)}; i++) {{
        emulator_begin();
        const int best = {name}_predict(logits, samples + i * {upper}_INPUTS, memory + 1, {upper}_ARENA);
        emulator_end("predict");
        for (int k = 0; k < {upper}_OUTPUTS; k++) wrong |= best < 0 || logits[k] > logits[best];
        emulator_report("logits", logits, sizeof logits);
    }}
    return wrong || memory[0] != 0x12345678 || memory[{upper}_ARENA / 4 + 1] != 0x12345678;
}}
"""
