"""The exported folder: its test agrees with Python and notices what is wrong; its files are well formed."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import yaml
from tests.cli.command import glassformer
from tests.edge.boards import needs

from glassformer.edge import folder as module
from glassformer.edge.export import c_name, covered, export, folder_of, optimiser_for
from glassformer.edge.folder import MANIFEST, in_c, in_markdown
from glassformer.errors import CheckpointError, EngineError, FileError, SettingError
from glassformer.layers.contract import param_shapes
from glassformer.models import BERT, MLP, PatchAttention, PatchBlock, TinyIris, ViT
from glassformer.models.images import Images
from glassformer.names import named_leaves, with_leaves
from glassformer.predict.run import Run, load
from glassformer.train.optimiser import Optimiser
from glassformer.train.recipe import Recipe, Training
from glassformer.train.tasks import Regress

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Werror", "-O2"]
GCC = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs make and a C compiler")


def needs_program(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not shutil.which(name), reason=f"needs {name}")


def run_of(model: Any, path: Path, **recipe: Any) -> Run:
    """With random weights: zeros hide mistakes. Its data lies nowhere."""
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: rng.normal(0, 0.3, leaf.shape).astype(np.float32), param_shapes(model))
    classes = tuple(f"class {i}" for i in range(model.input.classes))
    return Run(path, Recipe(model=model, data="nowhere.npz", **recipe), params, classes)


def small_vit(path: Path, **recipe: Any) -> Run:
    images = Images(shape=(8, 8, 1), classes=3)
    return run_of(ViT(images=images, patch_size=4, width=8, hidden=12, heads=2, depth=1), path, **recipe)


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", str(folder), *words], capture_output=True, text=True)


def passes(folder: Path, *words: str) -> str:
    done = make(folder, *(words or ("test",)))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vit") / "new" / "out"
    export(small_vit(Path("runs/small-vit")), out)
    return out


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("learner") / "out"
    export(small_vit(Path("learner")), out, tune="full")
    return out


@GCC
def test_a_build_is_compared_with_python(vit: Path, tmp_path: Path) -> None:
    said = passes(vit)
    assert " ".join(STRICT[:-1]) in said
    assert "-O2" in said
    found = re.search(r"small_vit: 8 samples, logits: largest difference (\S+), wrong classes: 0", said)
    assert found
    assert float(found[1]) < 1e-5
    broken = shutil.copytree(vit, tmp_path / "broken")
    weights = broken / "src/small_vit_weights.h"
    weights.write_text(re.sub(r"\{(-?)\d", r"{\g<1>9", weights.read_text(), count=1))
    done = make(broken, "test", "CFLAGS=")
    assert done.returncode != 0
    assert "FAILED: logits are Python's" in done.stdout
    broken = shutil.copytree(vit, tmp_path / "nan")
    code = broken / "src/small_vit.c"
    code.write_text(
        code.read_text().replace("return best;", "logits[2] = 0.0f / (float)(bytes / 0x7fffffff); return best;")
    )
    assert "largest difference 1.0e+09" in make(broken, "test", "WARNINGS=", "CFLAGS=").stdout


@GCC
def test_the_example_predicts(vit: Path) -> None:
    passes(vit, "all", "CFLAGS=-O0 -DMINE")
    said = subprocess.run([vit / "build/main"], capture_output=True, text=True, check=True).stdout
    assert re.match(r"predicted class \d, expected class \d; logits:( -?[\d.]+){3}\n$", said)


@GCC
def test_learning_is_compared_with_python(learner: Path, tmp_path: Path) -> None:
    said = passes(learner, "test", "all")
    found = re.search(r"3 training steps, losses: largest difference (\S+)\n.* weights: .* (\S+)\n", said)
    assert found
    count = sum(leaf.size for leaf in jax.tree.leaves(small_vit(Path()).params))
    assert float(found[1]) < 1e-5
    assert f"changes of {count} of {count} weights" in said
    assert float(found[2]) < 2e-5
    said = subprocess.run([learner / "build/main"], capture_output=True, text=True, check=True).stdout
    losses = [float(loss) for loss in re.findall(r"step \d: loss (\S+)", said)]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    assert "begins with what was saved as number 1" in said
    broken = shutil.copytree(learner, tmp_path / "broken")
    code = broken / "src/learner.c"
    code.write_text(code.read_text().replace(", -rate);", ", -1.001f * rate);"))  # a step that is 0.1 % too long
    done = make(broken, "test", "CFLAGS=")
    assert done.returncode != 0
    assert re.findall("FAILED: (.*)", done.stdout)[-1] == "trained weights are Python's"
    code.write_text((learner / "src/learner.c").read_text().replace("^ checksum(", "^ 0u * checksum("))
    assert "FAILED: damaged weights are an error" in make(broken, "test", "CFLAGS=").stdout


SMALL = Images(shape=(12, 8, 2), classes=4)
MODELS = {
    "mlp": MLP(images=SMALL, hidden=(7, 5)),
    "logistic": MLP(images=SMALL, hidden=()),
    "patch_attention": PatchAttention(images=SMALL, patch_size=4),
    "patch_block": PatchBlock(images=SMALL, patch_size=4),
    "class_token": ViT(images=SMALL, patch_size=4, width=8, hidden=12, heads=2, depth=2, with_class_token=True),
    "tiny_iris": TinyIris(),
}


@pytest.mark.slow
@GCC
@pytest.mark.parametrize("name", MODELS)
def test_covered_models(name: str, tmp_path: Path) -> None:
    run = run_of(MODELS[name], tmp_path / name)
    for tune in (None, "head"):
        export(run, tmp_path / "out", tune=tune)
        assert f"{name}: failures: 0" in passes(tmp_path / "out", "test", "all", "CC=cc")


@pytest.mark.slow
@GCC
@pytest.mark.parametrize(
    ("tune", "optimiser", "batch"),
    [
        ("full", "adamw", 3),
        ("full", "momentum", 2),
        ("head", "adamw", 1),
        ("bias", "adamw", 1),
        ("bias", "sgd", 1),
        ("lora", "sgd", 1),
        ("lora", "adamw", 2),
    ],
)
def test_ways_of_learning(tune: Any, optimiser: str, batch: int, tmp_path: Path) -> None:
    smoothed = small_vit(tmp_path / "run", training=Training(label_smoothing=0.1))
    chosen = replace(optimiser_for(smoothed, optimiser), weight_decay=0.1 if optimiser == "adamw" else 0.0)
    export(smoothed, tmp_path / "out", tune=tune, optimiser=chosen, batch=batch)
    said = passes(tmp_path / "out", "test", "all")
    found = re.search(r"changes of (\d+) of (\d+)", said)
    assert found
    assert int(found[1]) >= (0.8 if optimiser == "adamw" else 1) * int(found[2])
    said = subprocess.run([tmp_path / "out/build/main"], capture_output=True, text=True, check=True).stdout
    losses = [float(loss) for loss in re.findall(r"step \d+: loss (\S+)", said)]
    assert losses[-1] < losses[0]


@GCC
def test_two_models_in_one_program(vit: Path, learner: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(
        '#include "small_vit.h"\n#include "learner.h"\n'
        "static float a[SMALL_VIT_ARENA / 4], b[LEARNER_ARENA / 4], y[3];\n"
        "static uint8_t x[LEARNER_INPUTS];\n"
        "int main(void) { return learner_begin(b, sizeof b) || small_vit_predict(y, x, a, sizeof a)"
        " != learner_predict(y, x, b, sizeof b); }\n"
    )
    sources = [tmp_path / "main.c", vit / "src/small_vit.c", learner / "src/learner.c"]
    folders = [f"-I{vit / 'src'}", f"-I{learner / 'src'}"]
    subprocess.run(["cc", *STRICT, *folders, *sources, "-o", tmp_path / "main", "-lm"], check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0


ARDUINO = """
#include <stdint.h>
struct { template<class T> void print(T) {} template<class T> void println(T) {} void begin(long) {} } Serial;
inline void delay(int) {}
"""


@needs_program("g++")
def test_arduino_files(vit: Path, learner: Path, tmp_path: Path) -> None:
    (tmp_path / "Arduino.h").write_text(ARDUINO)
    for folder, name in (vit, "small_vit"), (learner, "learner"):
        given = dict(line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines())
        required = {
            "name",
            "version",
            "author",
            "maintainer",
            "sentence",
            "paragraph",
            "category",
            "url",
            "architectures",
        }
        assert required <= set(given)
        assert (given["name"], given["includes"], given["category"]) == (name, f"{name}.h", "Data Processing")
        assert re.fullmatch(r"\d+\.\d+\.\d+", given["version"])
        assert re.fullmatch(r"\w+(,\w+)*", given["architectures"])
        assert (folder / "src" / given["includes"]).is_file()
        sketch = folder / "examples/predict/predict.ino"
        flags = ["-x", "c++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-include", "Arduino.h", f"-I{tmp_path}"]
        subprocess.run(["g++", *flags, f"-I{folder / 'src'}", sketch], check=True)


def test_esp_idf_files(vit: Path) -> None:
    manifest = yaml.safe_load((vit / "idf_component.yml").read_text())
    assert manifest["version"] == "1.0.0"
    assert manifest["dependencies"] == {"idf": ">=5.0"}
    lists = (vit / "CMakeLists.txt").read_text()
    assert re.search(
        r'if\(ESP_PLATFORM\).*\n +idf_component_register\(SRCS "src/small_vit.c" INCLUDE_DIRS "src"\)\n', lists
    )
    assert lists.index("return()") < lists.index("project(")


@needs_program("cmake")
def test_cmake_as_esp_idf_reads_it(vit: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(idf C)\nset(ESP_PLATFORM 1)\n"
        'macro(idf_component_register _ source)\nmessage(STATUS "registered ${_};${source};${ARGN}")\n'
        "add_library(component STATIC ${source})\nset(COMPONENT_LIB component)\nendmacro()\n"
        f'add_subdirectory("{vit}" component)\n'
    )
    done = subprocess.run(["cmake", "-B", tmp_path / "build", tmp_path], capture_output=True, text=True, check=True)
    assert "registered SRCS;src/small_vit.c;INCLUDE_DIRS;src" in done.stdout


@pytest.mark.slow
@needs_program("cmake")
def test_cmake_builds_and_tests(learner: Path, tmp_path: Path) -> None:
    for command in ["cmake", "-S", learner, "-B", tmp_path], ["cmake", "--build", tmp_path]:
        subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(["ctest", "--test-dir", tmp_path], capture_output=True, text=True)
    assert "100% tests passed, 0 tests failed out of 1" in done.stdout


@pytest.mark.slow
@needs_program("cmake")
@needs("m4")
def test_cmake_builds_for_a_cortex_m4(learner: Path, tmp_path: Path) -> None:
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={learner / 'cortex-m4.cmake'}"
    for command in ["cmake", "-S", learner, "-B", tmp_path, toolchain], ["cmake", "--build", tmp_path]:
        subprocess.run(command, check=True, capture_output=True)
    said = subprocess.run(
        ["arm-none-eabi-readelf", "-A", tmp_path / "liblearner_model.a"], capture_output=True, text=True, check=True
    ).stdout
    assert "Tag_CPU_arch: v7E-M" in said
    assert "VFP registers" in said


def test_names_for_c() -> None:
    names = {
        "vit-pico": "vit_pico",
        "2026-10 run": "model_2026_10_run",
        "Größe": "Gr_e",
        "while": "while_model",
        "class": "class_model",  # of C++
        "Math": "Math_model",  # a header of the library
        "__x": "x",
        "...": "model",
        "": "model",
    }
    assert {name: c_name(name) for name in names} == names
    assert all(c_name(name) == name for name in names.values())
    for name in "9lives", "my-model", "for", "a*/b":
        with pytest.raises(SettingError, match=f"is no name for C; try --name {c_name(name)}$"):
            folder_of(small_vit(Path("x")), name, None, Optimiser(), 1)


def test_texts_of_others_cannot_leave_their_place() -> None:
    assert in_c('a"b\\n??/é\n') == r'"a\042b\134n\077\077/\303\251\012"'
    assert in_markdown("a`b\n# c") == "`a'b # c`"


@GCC
def test_a_regression_gives_numbers(tmp_path: Path) -> None:
    images = Images(shape=(4, 4, 1), classes=2)
    numbers = replace(run_of(MLP(images=images, hidden=(5,)), tmp_path, task=Regress()), classes=('"height"', "*/"))
    export(numbers, tmp_path / "out")
    passes(tmp_path / "out", "test", "all")
    said = subprocess.run([tmp_path / "out/build/main"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r'"height": \S+\n\*/: \S+\n', said)
    with pytest.raises(
        SettingError, match="a device learns classes by cross-entropy, and the task regress with the loss"
    ):
        export(numbers, tmp_path / "learner", tune="head")


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    out, good = tmp_path / "out", small_vit(tmp_path / "run")
    leaves = named_leaves(good.params)
    bad = with_leaves(good.params, {name: leaves[name] * np.nan for name in ("patch.b", "head.w")})
    with pytest.raises(CheckpointError, match=rf"2 of {len(leaves)} tensors .* not finite.*patch\.b.*head\.w"):
        export(replace(good, params=bad), out)
    text = BERT()
    with pytest.raises(EngineError, match=r"there is no C of it for a device: .* BERT reads texts"):
        covered(Run(tmp_path, Recipe(model=text), None, ()))
    with pytest.raises(SettingError, match=r"a device has the optimisers sgd, momentum, .* and lion came"):
        export(good, out, tune="head", optimiser=Optimiser(name="lion"))
    with pytest.raises(SettingError, match="export: batch is 0, expected 1 or more"):
        export(good, out, tune="head", batch=0)
    assert not out.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_others_is_not_touched(vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {path: path.read_text() for path in vit.rglob("*") if path.is_file() and "build" not in path.parts}
    texts = {path.relative_to(vit).as_posix(): text for path, text in files.items()}
    other = tmp_path / "other"
    other.mkdir()
    module.write(other, texts)  # it was empty
    (other / "build").mkdir()
    (other / "build/main").write_text("built")
    module.write(other, texts)  # by us, with what make has built
    assert not (other / "build").exists()
    (other / "mine.c").write_text("int x;")
    with pytest.raises(FileError, match=r"other: mine\.c was added after the export, and would be lost"):
        module.write(other, texts)
    (other / "mine.c").unlink()
    (other / "main.c").write_text("int y;")
    with pytest.raises(FileError, match=r"other: main\.c was changed after the export"):
        module.write(other, texts)
    (other / MANIFEST).write_text("[]")
    with pytest.raises(FileError, match=r"holds CMakeLists\.txt, and was not written by `glassformer export --to c`"):
        module.write(other, texts)
    with pytest.raises(FileError, match=r"main\.c: is there, and is no folder"):
        module.write(other / "main.c", texts)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="is the current folder"):
        module.write(Path(), texts)
    assert (other / "main.c").read_text() == "int y;"


def test_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    out, written = tmp_path / "new" / "out", []

    def killed(path: Path, text: str) -> None:
        written.append(path)
        if len(written) == 3:
            raise KilledError
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    texts = {f"file{i}": str(i) for i in range(5)}
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_whole", killed)
        with pytest.raises(KilledError):
            module.write(out, texts)
    assert len(written) == 3
    assert list(tmp_path.iterdir()) == []

    out.mkdir(parents=True)
    rename, calls = Path.rename, []

    def failing(path: Path, target: Path) -> Path:
        calls.append(target)
        if target == out and len(calls) == 2:
            raise OSError("no space")
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", failing)
        with pytest.raises(FileError, match="no space"):
            module.write(out, texts)
    assert calls[-1] == out  # the old folder is where it was
    assert list(out.parent.iterdir()) == [out]
    assert list(out.iterdir()) == []

    left = out.parent / ".out.0123.part"
    left.mkdir()
    module.write(out, texts)
    assert left.exists()  # it may be under way
    os.utime(left, (0, 0))
    shutil.rmtree(out)
    module.write(out, texts)
    assert not left.exists()
    assert sorted(path.name for path in out.iterdir()) == sorted(texts)


def test_the_command(tmp_path: Path) -> None:
    shipped = load().path
    done = glassformer("export", shipped, "--to", "c", tmp_path / "out", "--name", "digits", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    out = tmp_path / "out"
    assert (answer["name"], answer["to"], answer["out"]) == ("digits", "c", str(out))
    assert (answer["weights"], answer["multiply_adds"]) == (13928, 189888)
    assert answer["vectors"] == "test samples of mnist-mini"
    assert sorted(answer["files"]) == sorted(
        path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()
    )
    assert f"#define DIGITS_ARENA {answer['arena']} " in (out / "src/digits.h").read_text()
    assert json.loads((out / MANIFEST).read_text())["arena"] == answer["arena"]
    readme = (out / "README.md").read_text()
    assert f"| {answer['arena']} |" in readme
    assert "No hardware has confirmed it." in " ".join(readme.split())
    assert not re.search(r"@\w+@", "".join(path.read_text() for path in out.rglob("*") if path.is_file()))
    assert str(tmp_path) not in readme
    again = glassformer("export", shipped, "--to", "c", out, "--train", "head", "--batch", "2")
    assert again.returncode == 0, again.stderr
    assert again.stdout.endswith(f"wrote {out}; next: make -C {out} test\n")
    assert "src/vit_pico.c\n" in again.stdout
    assert not (out / "src/digits.c").exists()
    refused = glassformer("export", shipped, "--to", "hf", tmp_path / "hf", "--train", "head")
    assert refused.stderr == "glassformer: export: --train would do nothing: --to hf came, expected --to c\n"
    refused = glassformer("export", shipped, "--to", "c", tmp_path / "new", "--optimiser", "sgd")
    assert "--optimiser and --batch belong to --train" in refused.stderr
    assert not (tmp_path / "new").exists()


@GCC
def test_the_command_with_int8(tmp_path: Path) -> None:
    out, words = tmp_path / "out", ("export", load().path, "--to", "c")
    done = glassformer(*words, out, "--int8", "--keep-float", "*.attn", "--keep-float", "head")
    assert done.returncode == 0, done.stderr
    assert re.search(r"\nstays float +blocks\.0\.attn, head\n", done.stdout)
    assert "wrong classes: 0" in passes(out)
    assert "float blocks_0_attn_w_q_float[256];" in (out / "src/vit_pico_weights.h").read_text()
    mixed = json.loads((out / MANIFEST).read_text())
    done = glassformer(*words, out, "--int8", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert "logits: largest difference 0.0e+00, wrong classes: 0" in passes(out)
    assert "float " not in re.sub(r"float head_y_scale\[10\];", "", (out / "src/vit_pico_weights.h").read_text())
    assert answer["arena"] < min(mixed["arena"], 4096)
    assert answer["weights"] < mixed["weights"] < 13928
    broken = out / "src/vit_pico_weights.h"
    broken.write_text(re.sub(r"\{(-?)(\d)", r"{\g<1>1\2", broken.read_text(), count=1))
    assert "FAILED: logits are Python's" in make(out, "test", "CFLAGS=").stdout


def test_int8_that_cannot_be_exported(tmp_path: Path) -> None:
    words = ("export", load().path, "--to", "c", tmp_path / "out")
    parts = {"train_images": (3, 8, 8), "test_images": (2, 8, 8), "train_labels": (3,), "test_labels": (2,)}
    arrays: Any = {name: np.zeros(shape, np.uint8) for name, shape in parts.items()}
    np.savez(tmp_path / "small.npz", **arrays)
    refusals = {
        ("--int8", "--train", "head"): "weights of int8 do not learn; export twice, once --int8 and once --train",
        ("--keep-float", "head"): "--keep-float and --data belong to --int8; add it",
        ("--int8", "--keep-float", "heads"): "keep-float: no layer fits 'heads'; there are blocks.0.attn, ",
        ("--int8", "--data", str(tmp_path / "small.npz")): "int8 is calibrated on training data, which cannot be used: "
        "predict: images of shape (3, 8, 8, 1) came, expected (N, 28, 28, 1); give others by --data",
        ("--int8", "--data", str(tmp_path / "gone.npz")): "gone.npz: there is no such file",
    }
    for more, said in refusals.items():
        refused = glassformer(*words, *more)
        assert refused.returncode == 1
        assert said in refused.stderr
    assert not (tmp_path / "out").exists()
