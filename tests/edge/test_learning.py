"""Learning on a device: gradients beside JAX, optimisers beside optax, saved weights, and what is refused."""

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tests.edge.boards import EMULATED, needs
from tests.edge.devices import (
    MODELS,
    STRICT,
    c_array,
    params_of,
    samples_of,
    weights_of,
    written,
)

from glassformer.check.gradients import leaf_errors
from glassformer.edge.emulator import Outcome, run
from glassformer.edge.layers import program_of
from glassformer.edge.learning import LearningSource
from glassformer.edge.objects import compiled
from glassformer.edge.plan import layout_of
from glassformer.edge.targets import Target, find
from glassformer.edge.training import Tune, lesson_of
from glassformer.errors import EngineError, SettingError
from glassformer.layers.contract import param_shapes
from glassformer.names import named_leaves, with_leaves
from glassformer.train.optimiser import Optimiser
from glassformer.train.tune import LowRank

QUICKLY = {"xla_backend_optimization_level": 0}
HOST, RATE, SMOOTHING = find("host"), 0.05, 0.1
FULL, HEAD, BIAS, LORA = "full", "head", "bias", "lora"
MANY = LowRank(rank=5, alpha=3.0, targets=("*.attn.w_?", "*.ff.w_*", "patch.w"))


def source_of(
    model: Any, tune: Tune = "full", optimiser: str = "sgd", batch: int = 1, lora: LowRank | None = None
) -> LearningSource:
    chosen = Optimiser(optimiser, weight_decay=0.01 if optimiser == "adamw" else 0.0)
    source = LearningSource.of("model", "a model", model, weights_of(model), tune, chosen, batch, SMOOTHING, lora)
    thin = {name: array for name, array in source.weights.items() if name not in weights_of(model)}
    draw = np.random.default_rng(2)  # random throughout, as the others: b is zero at the start
    drawn = {name: draw.normal(0, 0.3, array.shape).astype(np.float32) for name, array in thin.items()}
    return replace(source, weights=source.weights | drawn)


def trained_in_jax(source: LearningSource, model: Any) -> tuple[Any, Any]:
    """What is trained, and its params; those of the model itself have `base.` in front where it is tuned by lora."""
    if source.lesson.lora is None:
        return model, params_of(model)
    network = source.lesson.lora.network(model)
    shapes = param_shapes(network)
    thin = {name: source.weights[name] for name in named_leaves(shapes) if not name.startswith("base.")}
    return network, with_leaves(shapes, thin)._replace(base=params_of(model))


def as_on_device(leaves: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("base."): leaf for name, leaf in leaves.items()}


def learning(source: LearningSource, samples: np.ndarray, labels: np.ndarray) -> str:
    """A program that learns from each sample; it reports losses, then all that lasts, and the first sample's logits."""
    return f"""#include "emulator.h"
#include "model.h"
{c_array("samples", samples)}{c_array("labels", labels)}
static uint32_t memory[MODEL_ARENA / 4 + 2];
int main(void)
{{
    float loss, logits[MODEL_OUTPUTS];
    memory[0] = memory[MODEL_ARENA / 4 + 1] = 0x12345678;
    if (model_begin(memory + 1, MODEL_ARENA)) return 1;
    for (int i = 0; i < {len(samples)}; i++) {{
        const uint8_t *x = (const void *)(samples + i * MODEL_INPUTS);
        if (model_train_step(&loss, (const void *)x, labels[i], {RATE}f, memory + 1, MODEL_ARENA)) return 2;
        emulator_report("loss", &loss, sizeof loss);
    }}
    emulator_report("state", memory + 1, {source.state});
    if (model_predict(logits, samples, memory + 1, MODEL_ARENA) < 0) return 3;
    emulator_report("logits", logits, sizeof logits);
    return memory[0] == 0x12345678 && memory[MODEL_ARENA / 4 + 1] == 0x12345678 ? 0 : 4;
}}
"""


def learned(source: LearningSource, model: Any, folder: Path, target: Target = HOST, count: int = 6) -> Outcome:
    outcome = run(
        target, [written(source, folder)], learning(source, samples_of(model, count), labels_of(model, count))
    )
    assert outcome.status == 0
    return outcome


def labels_of(model: Any, count: int) -> np.ndarray:
    classes = model.forward(params_of(model), samples_of(model, 1))[0].shape[-1]
    return (np.arange(count) % classes).astype(np.int32)


def copy_of(outcome: Outcome, source: LearningSource, which: str) -> dict[str, np.ndarray]:
    """The weights, the gradient, m or v, by name."""
    floats = outcome.values("state", np.float32)[4:].reshape(len(source.copies), -1)[source.copies.index(which)]
    ends = np.cumsum([int(np.prod(shape)) for shape in source.lesson.trained.values()])[:-1]
    parts = np.split(floats, ends)
    return {name: part.reshape(shape) for (name, shape), part in zip(source.lesson.trained.items(), parts, strict=True)}


def loss_of(model: Any, params: Any, x: Any, label: Any) -> Any:
    log_p = jax.nn.log_softmax(model.forward(params, x[None])[0][0])
    return -((1 - SMOOTHING) * log_p[label] + SMOOTHING * jnp.mean(log_p))


QUICK = [
    ("vit, class token", FULL),
    ("patch attention", HEAD),
    ("iris", BIAS),
    ("somebody's kernel", FULL),
    ("vit", LORA),
    ("iris", LORA),
]
REFUSED = [("somebody's kernel", BIAS), ("somebody's kernel", LORA), ("mlp", LORA)]  # the last two have no w_q
CASES = [case for case in product(MODELS, (FULL, BIAS, HEAD, LORA)) if case not in REFUSED]


@needs("host")
@pytest.mark.parametrize(
    ("name", "tune"), [case if case in QUICK else pytest.param(*case, marks=pytest.mark.slow) for case in CASES]
)
def test_gradients_are_those_of_autodiff(name: str, tune: Tune, tmp_path: Path) -> None:
    model, count = MODELS[name], 2
    source = source_of(model, tune, batch=count + 1, lora=MANY if name == "vit" else None)  # the gradient stays
    outcome = learned(source, model, tmp_path, count=count)
    network, params = trained_in_jax(source, model)
    gradient = jax.jit(jax.value_and_grad(partial(loss_of, network)), compiler_options=QUICKLY)
    samples = zip(samples_of(model, count), labels_of(model, count), strict=True)
    both = [gradient(params, x, label) for x, label in samples]
    np.testing.assert_allclose(outcome.values("loss", np.float32), [loss for loss, _ in both], rtol=1e-5)
    summed = as_on_device(named_leaves(jax.tree.map(lambda *parts: sum(parts), *(gradient for _, gradient in both))))
    found = copy_of(outcome, source, "gradient")
    assert max(leaf_errors(found, {name: summed[name] for name in found}).values()) < 1e-5


@needs("host")
@pytest.mark.parametrize(
    ("optimiser", "batch"),
    [
        ("sgd", 1),
        ("adamw", 2),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in product(("momentum", "adam"), (1, 2))),
    ],
)
def test_steps_are_those_of_optax(optimiser: str, batch: int, tmp_path: Path) -> None:
    model, count = MODELS["iris"], 6
    source = source_of(model, optimiser=optimiser, batch=batch)
    assert source.at_once == (optimiser == "sgd" and batch == 1)
    outcome = learned(source, model, tmp_path, count=count)
    expected = by_optax(source, model, count)
    found = copy_of(outcome, source, "weights")
    seen = {
        name: array for name, array in expected.items() if name != "attn.b_k"
    }  # softmax does not see the key's bias
    assert max(leaf_errors(found, seen).values()) < 1e-5
    after = model.forward(with_leaves(params_of(model), expected), samples_of(model, count)[:1])[0][0]
    np.testing.assert_allclose(outcome.values("logits", np.float32), after, atol=1e-5)


def by_optax(source: LearningSource, model: Any, count: int) -> dict[str, np.ndarray]:
    one = source.optimiser
    network, begin = trained_in_jax(source, model)
    transform = {
        "sgd": lambda: optax.sgd(RATE),
        "momentum": lambda: optax.sgd(RATE, one.momentum),
        "adam": lambda: optax.adam(RATE, one.b1, one.b2),
        "adamw": lambda: optax.adamw(RATE, one.b1, one.b2, weight_decay=one.weight_decay),
    }[one.name]()
    samples, labels = (
        part.reshape(-1, source.batch, *part.shape[1:]) for part in (samples_of(model, count), labels_of(model, count))
    )

    def mean_loss(params: Any, samples: Any, labels: Any) -> Any:
        return jnp.mean(jax.vmap(partial(loss_of, network, params))(samples, labels))

    gradient = jax.jit(jax.grad(mean_loss), compiler_options=QUICKLY)
    with jax.enable_x64(True):  # Adam divides small gradients by themselves, and JAX's own rounding with them
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), begin)
        state = transform.init(params)
        for batch in zip(samples, labels, strict=True):
            changes, state = transform.update(gradient(params, *batch), state, params)
            new = named_leaves(optax.apply_updates(params, changes))
            learns = [name for name in new if name.removeprefix("base.") in source.lesson.trained]
            params = with_leaves(params, {name: new[name] for name in learns})
        return as_on_device({name: np.asarray(leaf, np.float32) for name, leaf in named_leaves(params).items()})


@needs("host")
@pytest.mark.parametrize(
    ("name", "tune"),
    [
        ("vit, class token", FULL),
        ("patch attention", LORA),
        *(pytest.param(one, FULL, marks=pytest.mark.slow) for one in ("vit", "patch attention", "mlp")),
    ],
)
def test_at_once_is_the_same_step(name: str, tune: Tune, tmp_path: Path) -> None:
    """Without a gradient: no weight is updated before backward has read it."""
    model = MODELS[name]
    source = source_of(model, tune)
    assert source.at_once
    found = copy_of(learned(source, model, tmp_path, count=2), source, "weights")
    expected = by_optax(source, model, 2)
    assert max(leaf_errors(found, {name: expected[name] for name in found}).values()) < 2e-6


@needs("host")
def test_what_lora_learned_is_used_in_prediction(tmp_path: Path) -> None:
    model = MODELS["vit, class token"]
    source = source_of(model, LORA, "adamw", 2)
    outcome = learned(source, model, tmp_path, count=4)
    network, params = trained_in_jax(source, model)
    now = {
        name if name[:2] in ("a.", "b.") else f"base.{name}": one
        for name, one in copy_of(outcome, source, "weights").items()
    }
    after = network.forward(with_leaves(params, now), samples_of(model, 4)[:1])[0][0]
    np.testing.assert_allclose(outcome.values("logits", np.float32), after, atol=1e-5)
    before = model.forward(params_of(model), samples_of(model, 4)[:1])[0][0]
    assert np.abs(before - after).max() > 0.1


@needs("host")
@pytest.mark.parametrize("target", EMULATED)
def test_the_same_bits_on_every_board(target: Target, tmp_path: Path) -> None:
    for name in ["iris"] if target.name == "m4" else ["iris", "vit, class token", "patch block, normed, residual"]:
        for tune in (LORA,) if target.name == "m4" else (FULL, BIAS, HEAD, LORA):
            source = source_of(MODELS[name], tune, "adamw", 2)
            here, there = (learned(source, MODELS[name], tmp_path, one, 4) for one in (HOST, target))
            assert here.reports["state"] == there.reports["state"], name
            assert here.reports["logits"] == there.reports["logits"]


def test_somebodys_kernel_gives_all_gradients_or_none() -> None:
    with pytest.raises(
        EngineError, match=r"scale_backward of scale\.h gives the gradients of all its weights; train them all"
    ):
        lesson_of(MODELS["somebody's kernel"], "bias")


def test_a_kernel_that_may_read_a_weight_late_gets_a_gradient_of_its_own() -> None:
    source = source_of(MODELS["somebody's kernel"])
    assert "scale.gain is used more than once" in source.lesson.hazard
    assert not source.at_once


def test_what_is_trained() -> None:
    model = MODELS["vit"]
    names = list(weights_of(model))
    assert list(lesson_of(model, "full").trained) == names
    assert list(lesson_of(model, "head").trained) == ["head.w", "head.b"]
    biases = {name for name in names if name.rpartition(".")[2][0] == "b"}
    assert set(lesson_of(model, "bias").trained) == biases | {"head.w"}
    thin = {f"{part}.blocks.{i}.attn.{name}" for part in "ab" for i in range(2) for name in ("w_q", "w_v")}
    lora = lesson_of(model, "lora")
    assert set(lora.trained) == thin | {"head.w", "head.b"}
    assert lora.trained["a.blocks.0.attn.w_q"] == (18, 4)
    assert lora.parameters == 2 * 2 * 4 * (18 + 18) + 3 * 18 + 3


def test_lora_on_a_device_as_the_run_was_tuned_and_refused() -> None:
    assert lesson_of(MODELS["vit"], "lora", MANY).trained["b.patch.w"] == (5, 18)
    with pytest.raises(SettingError, match=r"the target '\*\.w_q' matches no matrix.*layers\.0\.w"):
        lesson_of(MODELS["mlp"], "lora")


def test_the_head_alone_needs_no_memory_of_the_rest() -> None:
    model = MODELS["vit"]
    predict, head = layout_of(program_of(model)).arena, source_of(model, "head")
    assert head.arena - head.state < predict + 200
    assert source_of(model, "bias").arena < source_of(model, "full").arena


@pytest.mark.parametrize("compiler", [pytest.param(find(name), marks=needs(name), id=name) for name in ("host", "m4")])
@pytest.mark.parametrize(
    "optimiser", ["adamw", *(pytest.param(one, marks=pytest.mark.slow) for one in ("sgd", "momentum"))]
)
def test_compilers_have_nothing_to_say(compiler: Target, optimiser: str, tmp_path: Path) -> None:
    for tune in (FULL, BIAS, HEAD, LORA):
        compiled(compiler, [written(source_of(MODELS["vit"], tune, optimiser), tmp_path)], ("-O2", *STRICT))


SAVING = """#include <string.h>
#include "emulator.h"
#include "model.h"
SAMPLES
static float first[MODEL_ARENA / 4], second[MODEL_ARENA / 4], a[MODEL_OUTPUTS], b[MODEL_OUTPUTS], loss;
static unsigned char slots[2][MODEL_SAVED + 1], other[MODEL_SAVED];
static int check;
#define EXPECT(value) if (check++, !(value)) return check
int main(void)
{
    uint32_t number = 7;
    EXPECT(model_predict(a, samples, first, sizeof first) == MODEL_NOT_BEGUN);
    EXPECT(model_train_step(&loss, samples, 0, 0.1f, first, sizeof first) == MODEL_NOT_BEGUN);
    EXPECT(model_save(slots[0], sizeof slots[0], 1, first, sizeof first) == MODEL_NOT_BEGUN);
    EXPECT(model_begin(first, MODEL_ARENA - 1) == MODEL_ARENA_TOO_SMALL);
    EXPECT(model_begin(first, sizeof first) == 0);
    EXPECT(model_train_step(&loss, samples, -1, 0.1f, first, sizeof first) == MODEL_NO_SUCH_LABEL);
    EXPECT(model_train_step(&loss, samples, MODEL_OUTPUTS, 0.1f, first, sizeof first) == MODEL_NO_SUCH_LABEL);
    EXPECT(model_newest(&number, slots[0], slots[1], MODEL_SAVED) == MODEL_SAVED_BY_ANOTHER && number == 7);
    EXPECT(model_save(slots[0], MODEL_SAVED - 1, 1, first, sizeof first) == MODEL_SAVED_TOO_SHORT && !slots[0][0]);
    EXPECT(model_train_step(&loss, samples, 1, 0.1f, first, sizeof first) == 0);
    EXPECT(model_save(slots[0], sizeof slots[0], 1, first, sizeof first) == 0 && !slots[0][MODEL_SAVED]);
    EXPECT(model_newest(&number, slots[0], slots[1], MODEL_SAVED) == 0 && number == 1);
    EXPECT(model_predict(a, samples, first, sizeof first) >= 0);
    EXPECT(model_train_step(&loss, samples, 1, 0.1f, first, sizeof first) == 0);
    EXPECT(model_save(slots[1], sizeof slots[1], 2, first, sizeof first) == 0);
    EXPECT(model_newest(&number, slots[0], slots[1], MODEL_SAVED) == 1 && number == 2);
    EXPECT(model_newest(&number, slots[1], slots[0], MODEL_SAVED) == 0 && number == 2);
    /* power fails while the newer one is written: any part of it is missing or wrong */
    for (int at = 0; at < MODEL_SAVED; at++) {
        slots[1][at] ^= 0x10;
        EXPECT(model_newest(&number, slots[0], slots[1], MODEL_SAVED) == 0 && number == 1);
        EXPECT(model_load(second, sizeof second, slots[1], MODEL_SAVED) < 0);
        slots[1][at] ^= 0x10;
    }
    EXPECT(model_load(second, sizeof second, slots[1], MODEL_SAVED - 1) == MODEL_SAVED_TOO_SHORT);
    EXPECT(model_load(second, MODEL_ARENA - 4, slots[0], MODEL_SAVED) == MODEL_ARENA_TOO_SMALL);
    EXPECT(model_load(second, sizeof second, slots[0], MODEL_SAVED) == 0);
    EXPECT(model_predict(b, samples, second, sizeof second) >= 0 && !memcmp(a, b, sizeof a));
    /* numbers begin again after the last one */
    EXPECT(model_save(slots[0], sizeof slots[0], 0xffffffffu, first, sizeof first) == 0);
    EXPECT(model_save(slots[1], sizeof slots[1], 0, first, sizeof first) == 0);
    EXPECT(model_newest(&number, slots[0], slots[1], MODEL_SAVED) == 1 && number == 0);
    memcpy(other, slots[0], sizeof other);
    other[4] ^= 1; /* another model */
    EXPECT(model_load(second, sizeof second, other, sizeof other) == MODEL_SAVED_BY_ANOTHER);
    return 0;
}
"""


@needs("host")
def test_saved_weights(tmp_path: Path) -> None:
    model = MODELS["iris"]
    main = SAVING.replace("SAMPLES", c_array("samples", samples_of(model, 1)))
    assert run(HOST, [written(source_of(model), tmp_path)], main).status == 0


def test_optimisers_that_no_device_has() -> None:
    with pytest.raises(SettingError, match="a device has the optimisers sgd, momentum, adam, adamw, and lion came"):
        source_of(MODELS["iris"], optimiser="lion")
