"""Generated models under sanitizers, and through compilers that are told to complain: odd sizes, all ways to train."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.layers import Attention, LoRA, Rotary
from glassformer.models import BERT, GPT, MLP, Llama, Network, PatchAttention, PatchBlock, ViT
from glassformer.models.bert import BERTFor
from glassformer.models.images import Images
from glassformer.models.patch_block import NormedResidual, WithResidual
from glassformer.models.text import Text
from glassformer.native import build, plan
from glassformer.native.lower import plan_for
from glassformer.native.write import source

from .compiled import X86, c_compiler

pytestmark = pytest.mark.slow  # each program is compiled with its sanitizer

MAIN = (Path(__file__).parent / "main.c").read_text()
SMALL = Images((8, 6, 1), 3, 0.4, 0.3)

LITTLE = BERT(text=Text(9, 7), width=10, hidden=17, heads=2, depth=1, dropout=0.1)
WORDY = replace(LITTLE, text=Text(67, 37))  # a piece of 64 symbols and 3; more tokens than a product takes

MODELS: dict[str, tuple[Network, int]] = {  # and the samples it takes at once
    "vit": (ViT(images=SMALL, patch_size=2, width=10, hidden=17, heads=2, depth=2, with_class_token=True), 1),
    "patch attention": (PatchAttention(images=SMALL, patch_size=2, width=7, hidden=33), 1),
    "patch block": (PatchBlock(images=SMALL, patch_size=2, width=7, hidden=33, block=WithResidual()), 1),
    "patch block, normed": (
        PatchBlock(images=SMALL, patch_size=2, width=10, hidden=17, block=NormedResidual(), heads=5, output=True),
        1,
    ),
    "mlp": (MLP(images=SMALL, hidden=(17, 5)), 3),
    "gpt": (  # a tile, and a part of one
        GPT(text=Text(7, 37), width=10, hidden=17, heads=2, depth=2, dropout=0.1, attend=Attention(dropout=0.1)),
        2,
    ),
    "llama, lora": (
        Llama(
            text=Text(19, 39), width=12, hidden=17, heads=6, key_heads=2, depth=1, head_norm=True, tied=False, window=3
        ),
        3,
    ),
    "bert": (BERTFor(LITTLE, LITTLE.head_for("masked", 0)), 2),
    "bert, span": (BERTFor(replace(LITTLE, first_position=2), LITTLE.head_for("span", 0)), 1),
    "bert, large table": (BERTFor(WORDY, WORDY.head_for("masked", 0)), 2),
    "gpt, large weights": (GPT(text=Text(7, 5), width=34, hidden=1930, heads=1, depth=1, rotary=Rotary()), 1),
    "mlp, large weights": (MLP(images=Images((28, 28, 1), 3, 0.4, 0.3), hidden=(90,)), 3),  # cut by columns: 64 and 26
}
PATHS = {"vector": (build.processor_flag(),), "scalar": ("-DGF_SCALAR",)}
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-c")


def program(name: str, *, training: bool = True) -> str:
    return ("" if training else "#define GF_FORWARD_ONLY\n") + source_of(name) + MAIN


def source_of(name: str) -> str:
    model, samples = MODELS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LARGE_TABLE", 1 if name.endswith("large table") else plan.LARGE_TABLE)
        adapter = LoRA(model, rank=3) if name.endswith("lora") else None
        return source(plan_for(model, samples, padded=name.startswith("bert"), adapter=adapter))


def compiled(compiler: str, flags: tuple[str, ...], source: str, folder: Path) -> tuple[Path, str]:
    """What it made, and what it said."""
    text, made = folder / "model.c", folder / "model"
    text.write_text(source)
    command = [compiler, *build.FLAGS, *flags, f"-I{build.kernels()}", str(text), "-o", str(made)]
    libraries = () if "-c" in flags else build.LIBRARIES
    done = subprocess.run([*command, *libraries], capture_output=True, text=True)
    return made, done.stderr


def run_sanitized(sanitizer: str, flags: tuple[str, ...], source: str, threads: int, folder: Path) -> None:
    compiler = c_compiler()
    checked = (f"-fsanitize={sanitizer}", *SANITIZED)
    empty, said = compiled(compiler, checked, "int main(void) { return 0; }\n", folder)
    if not empty.exists() or subprocess.run([empty]).returncode:
        pytest.skip(f"{compiler} has no {sanitizer} sanitizer here: {said[:200]}")
    empty.unlink()
    made, said = compiled(compiler, (*checked, *flags), source, folder)
    assert made.exists(), said
    at_once = os.environ | {"TSAN_OPTIONS": "halt_on_error=1"}  # whoever races may also wait for ever
    done = subprocess.run([made, str(threads)], capture_output=True, text=True, timeout=300, env=at_once)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", MODELS)
def test_no_step_outside_memory_and_nothing_undefined(name: str, path: str, tmp_path: Path) -> None:
    run_sanitized("address,undefined", PATHS[path], program(name), 2, tmp_path)


@pytest.mark.skipif(not X86, reason="AVX2 is of x86")
@pytest.mark.parametrize("flags", [("-mavx2", "-mfma"), ()], ids=["avx2", "sse"])
@pytest.mark.parametrize("name", ["vit", "bert"])
def test_nor_on_older_processors(name: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    if flags and not {"avx2", "fma"} <= set(build.processor().split()):
        pytest.skip("this processor has no AVX2")
    run_sanitized("address,undefined", flags, program(name), 1, tmp_path)


def test_nor_without_training(tmp_path: Path) -> None:
    run_sanitized("address,undefined", PATHS["vector"], program("vit", training=False), 1, tmp_path)


@pytest.mark.parametrize("threads", [3, 5])
@pytest.mark.parametrize("name", MODELS)
def test_threads_do_not_race(name: str, threads: int, tmp_path: Path) -> None:
    run_sanitized("thread", PATHS["vector"], program(name), threads, tmp_path)


def test_a_sanitizer_sees_an_array_that_is_too_short(tmp_path: Path) -> None:
    source = program("mlp").replace("*m = room(PARAMETERS *", "*m = room((PARAMETERS - 1) *")
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run_sanitized("address,undefined", PATHS["vector"], source, 1, tmp_path)


def begun_early() -> str:
    """phases.h, where a phase begins when all items of the one before are taken, but not done."""
    header = (build.kernels() / "phases.h").read_text()
    take, count = (line + "\n" for line in header.splitlines() if "all->take(" in line or "&all->done, 1)" in line)
    assert take + count in header
    return header.replace(take + count, count + take)


def must_race(source: str, folder: Path) -> None:
    """A sanitizer sees it where threads meet, which on a busy machine they may not at once."""

    def several_times() -> None:
        for _ in range(10):
            run_sanitized("thread", PATHS["vector"], source, 3, folder)

    with pytest.raises(AssertionError, match="data race"):
        several_times()


def test_a_sanitizer_sees_a_phase_that_begins_too_early(tmp_path: Path) -> None:
    must_race(begun_early() + program("mlp"), tmp_path)


FLAGS = {
    "vector": PATHS["vector"],
    "scalar": PATHS["scalar"],
    "forward only": (*PATHS["vector"], "-DGF_FORWARD_ONLY"),
    "forward only, scalar": (*PATHS["scalar"], "-DGF_FORWARD_ONLY"),
    **({"avx": ("-mavx",), "avx2": ("-mavx2",), "sse": ()} if X86 else {}),
}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", FLAGS)
def test_compilers_have_nothing_to_say(compiler: str, flags: str, tmp_path: Path) -> None:
    found = shutil.which(compiler) or pytest.skip(f"no {compiler}")
    for name in MODELS if flags in ("vector", "scalar") else ["vit"]:
        made, said = compiled(found, (*STRICT, *FLAGS[flags]), source_of(name), tmp_path)
        assert made.exists(), said
        assert said == ""
