"""Models as C for a device: logits beside JAX, on every board; memory, symbols and warnings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.edge.boards import EMULATED, needs
from tests.edge.devices import (
    MODELS,
    STRICT,
    c_array,
    predicting,
    samples_of,
    source_of,
    truth_of,
    weights_of,
    written,
)

from glassformer.edge.emulator import run
from glassformer.edge.layers import program_of
from glassformer.edge.objects import compiled, sizes, symbols
from glassformer.edge.plan import layout_of
from glassformer.edge.targets import Target, find
from glassformer.errors import EngineError
from glassformer.models import GPT, ViT
from glassformer.models.images import Images
from glassformer.models.text import Text
from glassformer.train.presets import preset

HOST = find("host")


def logits_on(target: Target, model: Any, folder: Path, *flags: str) -> np.ndarray:
    source = source_of(model)
    outcome = run(
        target, [written(source, folder)], predicting(source, samples_of(model)), flags or ("-O2", "-ffp-contract=off")
    )
    assert outcome.status == 0
    return outcome.values("logits", np.float32).reshape(truth_of(model).shape)


@needs("host")
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_jax(name: str, tmp_path: Path) -> None:
    truth = truth_of(MODELS[name])
    assert np.abs(logits_on(HOST, MODELS[name], tmp_path) - truth).max() < 1e-5 * max(1.0, np.abs(truth).max())


@needs("host")
def test_one_percent_is_noticed(tmp_path: Path) -> None:
    model = MODELS["vit"]
    source = source_of(model)
    source.weights["blocks.1.attn.w_v"] = 1.01 * weights_of(model)["blocks.1.attn.w_v"]
    outcome = run(HOST, [written(source, tmp_path)], predicting(source, samples_of(model)))
    assert np.abs(outcome.values("logits", np.float32).reshape(3, -1) - truth_of(model)).max() > 1e-4


@needs("host")
@pytest.mark.parametrize("target", EMULATED)
def test_the_same_bits_on_every_board(target: Target, tmp_path: Path) -> None:
    names = ["vit", "iris"] if target.name == "m4" else MODELS
    for name in names:
        here, there = (logits_on(one, MODELS[name], tmp_path) for one in (HOST, target))
        np.testing.assert_array_equal(here.view(np.uint32), there.view(np.uint32), err_msg=name)
        fused = logits_on(target, MODELS[name], tmp_path, "-O3", "-ffp-contract=fast")
        assert np.abs(fused - here).max() < 1e-5 * max(1.0, np.abs(here).max())


@pytest.mark.parametrize("compiler", [pytest.param(find(name), marks=needs(name), id=name) for name in ("host", "m4")])
def test_compilers_have_nothing_to_say(compiler: Target, tmp_path: Path) -> None:
    for name, model in MODELS.items():
        if name != "somebody's kernel" or compiler is HOST:
            compiled(compiler, [written(source_of(model), tmp_path)], ("-O2", *STRICT))


@pytest.mark.parametrize("target", EMULATED)
def test_nothing_is_called_but_sqrtf_and_copies(target: Target, tmp_path: Path) -> None:
    objects = compiled(target, [written(source_of(MODELS["vit"]), tmp_path)], ("-O2",))
    called = {symbol.name for symbol in symbols(target, objects) if symbol.kind == "U"}
    runtime = {name for name in called if name.startswith("__")}  # float arithmetic where there is no FPU
    assert called - runtime <= {"sqrtf", "memcpy", "memset"}
    assert target.fpu <= (not runtime)


@needs("m4")
def test_weights_in_flash_and_nothing_else_in_ram(tmp_path: Path) -> None:
    source = source_of(MODELS["vit"])
    found = sizes(find("m4"), compiled(find("m4"), [written(source, tmp_path)], ("-O2",)))
    assert found.ram == 0
    weights = next(
        one
        for one in symbols(find("m4"), compiled(find("m4"), [tmp_path / "model.c"], ("-O2",)))
        if one.name == "weights"
    )
    assert weights.size == 4 * sum(array.size for array in source.weights.values())


@needs("host")
def test_two_models_in_one_program(tmp_path: Path) -> None:
    models = {name: MODELS[name] for name in ("vit", "mlp")}
    paths = [written(source_of(model, name), tmp_path) for name, model in models.items()]
    main = '#include "emulator.h"\n#include "vit.h"\n#include "mlp.h"\n'
    main += "static float memory[(VIT_ARENA + MLP_ARENA) / 4];\n"
    calls = ""
    for name, model in models.items():
        main += c_array(f"of_{name}", samples_of(model, 1)) + f"static float logits_{name}[{name.upper()}_OUTPUTS];\n"
        calls += f"{name}_predict(logits_{name}, of_{name}, memory, sizeof memory);"
        calls += f'emulator_report("{name}", logits_{name}, sizeof logits_{name});'
    outcome = run(HOST, paths, f"{main}int main(void) {{ {calls} return 0; }}")
    for name, model in models.items():
        np.testing.assert_allclose(outcome.values(name, np.float32), truth_of(model)[0], atol=1e-5)


@needs("host")
def test_an_arena_that_will_not_do(tmp_path: Path) -> None:
    source = source_of(MODELS["iris"])
    main = """#include "model.h"
static float memory[MODEL_ARENA / 4 + 1], logits[MODEL_OUTPUTS], x[MODEL_INPUTS];
int main(void)
{
    if (model_predict(logits, x, memory, MODEL_ARENA - 1) != MODEL_ARENA_TOO_SMALL) return 1;
    if (model_predict(logits, x, (char *)memory + 2, MODEL_ARENA) != MODEL_ARENA_NOT_ALIGNED) return 2;
    return model_predict(logits, x, memory + 1, MODEL_ARENA) < 0 ? 3 : 0;
}
"""
    assert run(HOST, [written(source, tmp_path)], main).status == 0


def test_what_no_device_computes_is_named() -> None:
    with pytest.raises(EngineError, match="GPT reads text"):
        program_of(GPT(text=Text(vocabulary=50, context=8)))


def test_tokens_stream_through() -> None:
    """The README's figure: what vit-pico keeps for all tokens is the residual stream, keys and values."""
    layout = layout_of(program_of(preset("vit-pico").model))
    kept = {place.rows.name: place.bytes for place in layout.places.values() if place.kept and place.bytes > 64}
    assert kept == dict.fromkeys(("positions.y", "blocks.0.attn.k_columns", "blocks.0.attn.v"), 49 * 16 * 4)
    assert layout.arena < 10_000
    assert layout.multiply_adds == 189_888


def test_only_the_token_that_is_asked_for() -> None:
    """With a class token the last block computes one query."""
    model = ViT(images=Images((8, 12, 1), 3), width=16, hidden=32, heads=2, depth=2, with_class_token=True)
    assert [loop.count for loop in layout_of(program_of(model)).loops] == [6, 1, 7, 7, 1, 1]


@pytest.mark.parametrize("name", MODELS)
def test_no_two_values_meet(name: str) -> None:
    """Values that are alive together, and do not share on purpose, have bytes of their own."""
    places = list(layout_of(program_of(MODELS[name])).places.values())
    roots = [place for place in places if place.over is None]
    for i, a in enumerate(roots):
        for b in roots[i + 1 :]:
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert apart or a.dies < b.born or b.dies < a.born
