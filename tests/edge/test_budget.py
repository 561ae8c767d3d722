"""The plan before flashing: what it says is what the linker and the emulator say; what does not fit is refused."""

import json
import re
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import glassformer
from tests.edge.boards import EMULATED, needs
from tests.edge.devices import GREY, MODELS, c_array, samples_of, written
from tests.edge.test_export import run_of

from glassformer.edge import boards, budget, targets
from glassformer.edge.boards import BOARDS
from glassformer.edge.budget import Budget, Impossible, Variant, bytes_of, device_of
from glassformer.edge.emulator import layout, run
from glassformer.edge.learning import LearningSource
from glassformer.edge.lives import lives_of, steps_by_function
from glassformer.edge.objects import compiled, compiler, sizes, symbols
from glassformer.edge.targets import Target, find
from glassformer.edge.training import lesson_of
from glassformer.edge.write import struct_bytes
from glassformer.errors import EngineError, SettingError, UnknownNameError
from glassformer.models import MLP, ViT
from glassformer.predict.run import Run, load
from glassformer.train.optimiser import Optimiser
from glassformer.train.run_folder import RunFolder
from glassformer.train.tasks import Regress

SMALL = ViT(images=GREY, width=10, hidden=14, heads=2, depth=1)
DATA, CONSTANT = "bBdDgGrRsS", "rR"  # nm's letters
KERNELS_OWN = {"int8_exp2", "zeros"}  # tables that are part of int8 code
WAYS = ("float", "int8", "head", "bias", "lora", "full")
M4 = find("m4")


def budget_of(model: Any = SMALL, optimiser: str = "sgd", batch: int = 1, path: str = "model", **device: str) -> Budget:
    return Budget(run_of(model, Path(path)), device_of(**device), Optimiser(optimiser), batch)


def variant(way: Any, model: Any = SMALL, **settings: Any) -> Variant:
    found = budget_of(model, **settings).of_run(way)
    assert isinstance(found, Variant), found
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", EMULATED)
def test_weights_and_arena_are_what_the_linker_says(target: Target, way: str, tmp_path: Path) -> None:
    for model in (SMALL, MODELS["iris"]):
        one = variant(way, model)
        (tmp_path / "arena.c").write_text(
            '#include "model.h"\n#include <stdint.h>\n'
            "static uint32_t arena[MODEL_ARENA / 4];\nvoid *memory(void) { return arena; }\n"
        )
        objects = compiled(target, [written(one.source, tmp_path), tmp_path / "arena.c"], ("-O2",))
        found = {symbol.name.partition(".")[0]: symbol for symbol in symbols(target, objects) if symbol.kind in DATA}
        arena = found.pop("arena")
        assert (arena.kind, arena.size) == ("b", one.arena)
        assert one.arena == int(re.findall(r"_ARENA (\d+)", one.source.header())[0])
        constants = {name: symbol.size for name, symbol in found.items() if name not in KERNELS_OWN}
        assert constants == one.source.constant_bytes
        assert {symbol.kind for symbol in found.values()} <= set(CONSTANT)
        assert one.weights == sum(constants.values())
        assert sizes(target, objects).ram == one.arena  # nothing else lies in RAM


@needs("m4")
@pytest.mark.parametrize("way", ["float", "int8", "head", "full"])
def test_the_map_of_a_linked_program_agrees(way: str, tmp_path: Path) -> None:
    one = variant(way)
    (tmp_path / "main.c").write_text(
        '#include "model.h"\n#include <stdint.h>\nstatic uint32_t arena[MODEL_ARENA / 4];\n'
        "static float logits[MODEL_OUTPUTS];\nstatic uint8_t sample[MODEL_INPUTS];\n"
        + ("void learn(void) { model_begin(arena, sizeof arena); }\n" if way in ("head", "full") else "")
        + "int main(void) { return model_predict(logits, sample, arena, sizeof arena); }\n"
    )
    objects = compiled(M4, [written(one.source, tmp_path), tmp_path / "main.c"], ("-O2",))
    linker = f"-Wl,--entry=main,-Map={tmp_path / 'map'}" + (",-ulearn" if way in ("head", "full") else "")
    compiler(M4, *layout(M4), linker, *map(str, objects), "-o", str(tmp_path / "elf"), "-lm")
    said = (tmp_path / "map").read_text().partition("Linker script and memory map")[2]
    lines = re.findall(r"^ \.(rodata|bss)\.(\w+)\S*\s+0x0*(\w+)\s+0x(\w+)", said, re.MULTILINE)
    placed = {name: int(size, 16) for _, name, _, size in lines if name not in KERNELS_OWN}
    assert placed == one.source.constant_bytes | {"arena": one.arena, "logits": one.logits, "sample": one.input}


def test_structs_are_as_c_lays_them_out() -> None:
    def bytes_of_types(*types: str) -> int:
        return struct_bytes({str(i): np.zeros(3, kind) for i, kind in enumerate(types)})

    assert bytes_of_types("float32", "int16", "int8") == 24  # 12 + 6 + 3, to a multiple of 4
    assert bytes_of_types("int8", "int16") == 10
    assert bytes_of_types("int8", "float32", "int8") == 20
    assert bytes_of_types("int8") == 3


@pytest.mark.parametrize(
    ("name", "way"), [case for case in product(("vit, class token", "iris", "mlp"), WAYS) if case != ("mlp", "lora")]
)
def test_no_two_buffers_share_bytes_while_both_are_alive(name: str, way: str) -> None:
    source = variant(way, MODELS[name]).source
    lives, steps = lives_of(source), steps_by_function(source)
    assert max(life.offset + life.bytes for life in lives) == source.arena
    assert set(steps) <= set(source.api)
    for life in lives:
        assert life.first is None or 0 <= life.first <= (life.last or 0) < len(steps[life.function])
        assert life.bytes >= np.prod(life.shape)
    for a, b in combinations([life for life in lives if not life.within], 2):
        if a.function and b.function and a.function != b.function:
            continue
        always = None in (a.first, b.first)
        together = always or max(a.first, b.first) <= min(a.last, b.last)  # pyright: ignore[reportArgumentType, reportOptionalOperand]
        apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
        assert apart or not together, (a, b)


def test_multiply_adds_of_a_training_step() -> None:
    first, second = 96 * 33, 33 * 3  # of the pixels no gradient is made
    model = MLP(images=GREY, hidden=(33,))
    assert variant("float", model).multiply_adds == first + second
    assert lesson_of(model, "full").multiply_adds == 2 * first + 3 * second
    assert lesson_of(model, "bias").multiply_adds == first + 3 * second
    assert lesson_of(model, "head").multiply_adds == first + 2 * second
    T, C, F = 6, 10, 14  # projections of q, k, v and the output, attention, feed-forward, patches
    blocks = T * (4 * C * C + 2 * T * C + C * F)
    assert variant("full").multiply_adds > 2 * blocks + T * 16 * C


def calling(one: Variant) -> str:
    """A program in which the stack is painted before each call."""
    learns = isinstance(one.source, LearningSource)
    step = """if (model_begin(memory, MODEL_ARENA)) return 1;
        emulator_begin();
        if (model_train_step(&loss, samples, 1, 0.05f, memory, MODEL_ARENA)) return 2;
        emulator_end("train_step");"""
    return f"""#include "emulator.h"
#include "model.h"
{c_array("samples", samples_of(one.model, 1))}
static uint32_t memory[MODEL_ARENA / 4];
int main(void)
{{
    float loss = 0.0f, logits[MODEL_OUTPUTS];
    {step if learns else ""}
    emulator_begin();
    if (model_predict(logits, samples, memory, MODEL_ARENA) < 0) return 3;
    emulator_end("predict");
    return loss < 0.0f;
}}
"""


LEVELS = [
    pytest.param(*target.values, level, id=f"{target.id}{level}", marks=[*target.marks, *more])
    for target in EMULATED
    for level in ("-Os", "-O2", "-O3")
    for more in [[] if (target.id, level) == ("m4", "-O2") else [pytest.mark.slow]]
]


@pytest.mark.parametrize(("target", "level"), LEVELS)
def test_stack_bounds_hold_and_are_close(target: Target, level: str, tmp_path: Path) -> None:
    for way, model in [("int8", SMALL), ("float", SMALL), ("full", SMALL), ("full", MODELS["iris"])]:
        one = variant(way, model, target=target.name, flags=level)
        outcome = run(target, [written(one.source, tmp_path)], calling(one), (level,))
        assert outcome.status == 0
        assert one.measured is not None
        assert set(one.measured.stack) == set(one.source.api)
        for function in ("predict", "train_step") if way == "full" else ("predict",):
            painted, bound = outcome.measured(function).stack, one.measured.stack[function]
            assert painted <= bound.bytes <= 1.25 * painted, f"{way} {function}: {painted} bytes were used, of {bound}"


@needs("m4")
def test_totals_are_those_of_the_linked_program() -> None:
    one = variant("head", ram="64K", flash="256K")
    assert one.measured is not None
    assert one.flash == one.measured.flash == one.weights + (one.code or 0)
    assert one.ram == one.arena + (one.stack or 0) + one.input + one.logits + one.measured.static
    assert (one.input, one.logits) == (8 * 12, 4 * 3)
    assert one.stack == max(bound.bytes for bound in one.measured.stack.values())
    assert not one.shortage
    smaller = variant("head", ram=str(one.ram), flash=str(one.flash))
    assert not smaller.shortage
    for short in ({"ram": str(one.ram - 1)}, {"flash": str(one.flash - 1)}):
        assert variant("head", **short).shortage == " and ".join(
            f"{getattr(one, name):,} bytes of {words}, of {getattr(one, name) - 1:,}"
            for name, words in [("ram", "RAM"), ("flash", "flash")]
            if name in short
        )


def test_without_a_compiler_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    one = variant("float", ram="64K")
    assert one.measured is one.stack is one.code is None
    assert one.ram == one.arena + one.input + one.logits
    assert (
        one.device.unmeasured
        == "m4 needs arm-none-eabi-gcc (apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi)"
    )
    assert one.facts["stack"] is None
    assert not one.shortage
    assert "RAM, of 500" in variant("float", ram="500").shortage
    assert "no Cortex-M0+" in device_of(board="rp2040").unmeasured


def test_optimisers_and_batches_take_their_memory() -> None:
    sgd, adamw = variant("full"), variant("full", optimiser="adamw", batch=4)
    size = 4 * lesson_of(SMALL, "full").parameters
    assert adamw.arena == sgd.arena + 3 * size  # the gradient, m and v
    names = [life.name for life in lives_of(adamw.source) if life.first is None]
    assert names == ["counters", "weights", "gradient", "m", "v"]


def saved(model: Any, path: Path, accuracy: float, data: str = "nowhere.npz") -> Run:
    found = run_of(model, path)
    recipe = replace(found.recipe, data=data)
    folder = RunFolder(path)
    folder.create(recipe)
    folder.save_model(recipe, found.params, found.classes, 1)
    folder.save_metrics({"test_accuracy": accuracy})
    return load(path)


def test_the_nearest_variant_has_the_accuracy_of_a_run_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # by what is planned alone
    deep, middle = replace(SMALL, depth=3), replace(SMALL, depth=2)
    asked = saved(deep, tmp_path / "deep", 0.9)
    saved(middle, tmp_path / "elsewhere", 0.7, data="other.npz")
    saved(replace(middle, width=12), tmp_path / "wider", 0.7)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/metrics.json").write_text("{")
    optimiser = Optimiser("sgd")

    def weights(way: Any, model: Any) -> int:
        return variant(way, model).weights

    def nearest(way: Any, **limits: str) -> Any:
        return Budget(asked, device_of(**limits), optimiser).nearest(way)

    head = nearest("full", ram=str(variant("head", deep).ram))
    assert (head.variant.way, head.depth, head.accuracy, head.run) == ("head", None, 0.9, "deep")
    int8 = nearest("float", flash=str(weights("int8", deep)))
    assert (int8.variant.way, int8.depth, int8.accuracy) == ("int8", None, None)  # its data are not here
    shallow = nearest("int8", flash=str(weights("int8", middle)))
    assert (shallow.variant.way, shallow.depth, shallow.accuracy) == ("int8", 2, None)
    trained = nearest("full", ram=str(variant("full", middle).ram))
    assert (trained.variant.way, trained.depth) == ("lora", None)  # rather less training than fewer blocks
    flash = str(weights("float", middle))
    monkeypatch.setattr(budget, "quantise", not_possible)
    assert nearest("float", flash=flash).accuracy is None
    saved(middle, tmp_path / "middle", 0.8)
    found = nearest("float", flash=flash)
    assert (found.variant.way, found.depth, found.accuracy, found.run) == ("float", 2, 0.8, "middle")
    assert re.fullmatch(
        r"float at depth 2: [\d,]+ bytes of RAM, [\d,]+ of flash, test accuracy 80.00 % \(middle\)", str(found)
    )
    assert found.facts["depth"] == 2
    assert nearest("float", ram="100") is None
    assert Budget(run_of(MODELS["mlp"], tmp_path / "mlp"), device_of(ram="100"), optimiser).nearest("full") is None


def not_possible(*_: Any) -> Any:
    raise EngineError("int8: not now")


def test_what_is_not_possible_says_why(tmp_path: Path) -> None:
    regression = run_of(SMALL, tmp_path, task=Regress())
    found = Budget(regression, device_of(), Optimiser("sgd")).of_run("head")
    assert isinstance(found, Impossible)
    assert "a device learns classes by cross-entropy" in found.reason
    assert found.facts["fits"] is False


def test_boards() -> None:
    assert {"esp32-s3", "stm32f4", "rp2040", "nrf52840", "stm32f1"} <= set(BOARDS)
    for name, board in BOARDS.items():
        assert board.name == name
        assert 16 * 1024 <= board.ram < board.flash
        assert board.source
        target = board.target
        assert target is None or target.processor[:9] == board.processor[:9]
        assert target is None or target.fpu == ("with FPU" in board.processor)
    known = device_of(board="stm32f4")
    assert (known.ram, known.flash, known.target) == (131072, 524288, M4)
    smaller = device_of(board="stm32f4", ram="32K", target="m7", flags="-O3 -g")
    assert (smaller.ram, smaller.flash, smaller.flags) == (32768, 524288, ("-O3", "-g"))
    assert smaller.target is targets.TARGETS["m7"]
    with pytest.raises(
        UnknownNameError, match=r"no board is called 'stm32-f4' \(did you mean 'stm32f4'\?\); there are"
    ):
        boards.find("stm32-f4")
    with pytest.raises(SettingError, match="--target host has no stack"):
        device_of(target="host")


@pytest.mark.parametrize("text", ["", "64 KB", "K", "1.5M", "-3K", "0", "0K", "64G", "0x10", "many"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(SettingError, match=rf"--ram '{re.escape(text)}' is no size; expected 64K, 2M or 65536"):
        bytes_of(text, "--ram")


@needs("m4")
def test_the_command(tmp_path: Path) -> None:
    path = saved(SMALL, tmp_path / "small", 0.9).path
    limits = [f"--ram={variant('lora').ram + 1000}", "--flash", "64K"]
    done = glassformer("export", path, "--to", "c", "--plan", *limits, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    fits = {one["variant"]: one["fits"] for one in answer["variants"]}
    assert fits == {"float": True, "int8": True, "head": True, "bias": True, "lora": True, "full": False}
    assert answer["device"]["flash"] == 65536
    assert (answer["nearest"], answer["out"]) == (None, None)
    full = answer["variants"][-1]
    assert full["weights"] == {"exported": 4 * lesson_of(SMALL, "full").parameters}
    assert {life["function"] for life in full["buffers"]} == {"", "predict", "train_step"}
    out = tmp_path / "out"
    refused = glassformer("export", path, "--to", "c", out, "--train", "full", *limits)
    assert refused.returncode == 1
    assert re.fullmatch(
        r"glassformer: .*small: --train full does not fit: it takes [\d,]+ bytes of RAM, of [\d,]+; the nearest that "
        r"does is --train lora: [\d,]+ bytes of RAM, [\d,]+ of flash, test accuracy 90.00 % as exported \(small\)\n",
        refused.stderr,
    )
    assert not out.exists()


def test_the_text(tmp_path: Path) -> None:
    path = saved(SMALL, tmp_path / "small", 0.9).path
    text = glassformer("export", path, "--to", "c", "--plan", "--board", "rp2040", "--ram", "2500").stdout
    assert "rp2040: Raspberry Pi Pico, Cortex-M0+ without FPU or DSP (RP2040 data sheet" in text
    assert "bytes there: 2,500 of RAM, 2,097,152 of flash\nstack, library and code: not measured" in text
    assert re.search(r"^--train full .* does not fit$", text, re.MULTILINE)
    assert re.search(r"^float .* may fit$", text, re.MULTILINE)
    assert re.search(r"^blocks.0.attn.pattern +predict +9 attend_row +9 attend_row +\(6\) +24 ", text, re.MULTILINE)
    assert re.search(r"^weights +always +always +\(33\) +132 +16\n", text, re.MULTILINE)
    text = glassformer("export", path, "--to", "c", "--plan", "--board", "rp2040", "--ram", "100").stdout
    assert "nothing fits; the nearest that would: none\n" in text
    out = tmp_path / "out"
    done = glassformer("export", path, "--to", "c", out, "--board", "rp2040")
    assert done.returncode == 0, done.stderr
    assert "stack and code were not measured: glassformer compiles for no Cortex-M0+" in done.stdout
    assert (out / "src").is_dir()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--to", "c", "--plan", "--board", "esp32s3"], 1, "did you mean 'esp32-s3'?"),
        (["--to", "c", "--plan", "--ram", "lots"], 1, "--ram 'lots' is no size"),
        (["--to", "c", "--plan", "--target", "m5"], 1, "no target is called 'm5'"),
        (["--to", "c", "--plan", "--batch", "0"], 1, "batch is 0, expected 1 or more"),
        (["--to", "c", "--plan", "--train", "head"], 1, "--train would do nothing: --plan shows every variant"),
        (["--to", "c", "--plan", "--keep-float", "nowhere"], 1, "no layer fits 'nowhere'"),
        (["--to", "hf", "out", "--board", "rp2040"], 1, "--board would do nothing"),
        (["--to", "onnx", "--plan"], 1, "--plan would do nothing"),
        (["--to", "c"], 2, "nothing says where to write"),
        (["--to", "c", "out", "--plan"], 2, "--plan writes nothing"),
    ],
)
def test_wrong_commands(words: list[str], status: int, message: str, tmp_path: Path) -> None:
    done = glassformer("export", load().path, *words, folder=tmp_path)
    assert done.returncode == status
    assert message in " ".join(done.stderr.split())
    assert not [*tmp_path.iterdir()]
