"""The device at the desk: its numbers are those of the trace; broken lines and broken devices are refused."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import glassformer
from tests.edge.boards import needs
from tests.edge.devices import MODELS, source_of, written
from tests.edge.test_export import GCC, make, passes, run_of, small_vit

from glassformer.edge.desk import device_numbers, fingerprint
from glassformer.edge.export import export, optimiser_for
from glassformer.edge.objects import compiled
from glassformer.edge.quantise import quantise_run
from glassformer.edge.targets import find
from glassformer.errors import DeviceError, SettingError
from glassformer.lens.device import Compared, DeviceNumbers, compare
from glassformer.lens.payload import traced_on
from glassformer.lens.trace_input import TraceInput, image_input, text_input
from glassformer.models import TinyIris, ViT
from glassformer.models.columns import Columns
from glassformer.models.images import Images
from glassformer.names import gradient_name, named_leaves
from glassformer.predict.run import Run, load

CLASS_TOKEN = ViT(Images((8, 12, 2), 4), patch_size=4, width=8, hidden=12, heads=2, depth=2, with_class_token=True)
IRIS = TinyIris(columns=Columns(mean=(1.5, -2.0, 0.0, 7.0), std=(0.5, 2.0, 1.0, 3.0)))


def input_for(run: Run, label: Any = 2) -> TraceInput:
    if run.model.example(1).dtype != np.uint8:
        return text_input(run, "a row", "5.1, 3.5, -1.4, 0.2", run.classes[label])
    image = np.random.default_rng(1).integers(0, 256, run.model.example(1).shape[1:], dtype=np.uint8)
    return image_input(run, "an image", image, label)


def compared(run: Run, given: TraceInput, device: str | Path) -> dict[str, Compared]:
    numbers = device_numbers(run, given, str(device), 20.0)
    return {one.name: one for one in compare(traced_on(run, given), numbers)}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a small ViT that learns, under sanitizers."""
    out = tmp_path_factory.mktemp("desk") / "out"
    export(small_vit(Path("small-vit")), out, tune="full")
    passes(out, "desk", "CFLAGS=-O1 -fsanitize=address,undefined -fno-sanitize-recover=all")
    return out / "build/desk"


@GCC
def test_its_numbers_are_those_of_the_trace(desk: Path) -> None:
    run = small_vit(Path())
    given = input_for(run)
    found = compared(run, given, desk)
    gradients = {gradient_name(name) for name in named_leaves(run.params)}
    assert set(found) == {"head.y", "blocks.0.attn.pattern", "loss"} | gradients
    assert found["blocks.0.attn.pattern"].device.shape == (2, 4, 4)
    for one in found.values():
        assert one.came.all()
        assert one.differences.max() <= 1e-5 * max(1.0, one.scale), one.name
    assert max(found[name].scale for name in gradients) > 0.1
    again = compared(run, given, desk)  # what it is asked changes nothing
    assert all((again[name].device == one.device).all() for name, one in found.items())
    other = compared(run, input_for(run, label=1), desk)
    assert not np.allclose(other["head.dw"].device, found["head.dw"].device)


@GCC
@pytest.mark.parametrize(
    ("model", "tune", "optimiser"),
    [(CLASS_TOKEN, None, "sgd"), (IRIS, "full", "adamw"), (CLASS_TOKEN, "lora", "momentum")],
    ids=["class token", "iris, adamw", "lora"],
)
def test_ways_of_exporting(model: Any, tune: Any, optimiser: str, tmp_path: Path) -> None:
    run = run_of(model, tmp_path / "run")
    given = input_for(run)
    export(run, tmp_path / "out", tune=tune, optimiser=optimiser_for(run, optimiser), batch=2)
    passes(tmp_path / "out", "desk")
    found = compared(run, given, tmp_path / "out/build/desk")
    for one in found.values():
        assert one.differences.max() <= 1e-5 * max(1.0, one.scale), one.name
    kinds = [one.kind for one in found.values()]
    trained = {None: 0, "full": len(named_leaves(run.params)), "lora": 2}[tune]  # of lora: the head
    assert (kinds.count("gradient"), kinds.count("loss")) == (trained, tune is not None)
    if model is CLASS_TOKEN:  # in the last block one query is computed, and one is compared
        first, last = (found[f"blocks.{i}.attn.pattern"].came for i in range(2))
        assert first.all()
        assert last[:, 0].all()
        assert not last[:, 1:].any()


@pytest.mark.slow
@GCC
def test_int8_sends_what_it_computes(tmp_path: Path) -> None:
    run = load()
    quantised = quantise_run(run, "", ())
    export(run, tmp_path / "out", int8=quantised)
    passes(tmp_path / "out", "desk")
    given = image_input(run, "18", run.load_data().test.images[18], 3)
    numbers = device_numbers(run, given, str(tmp_path / "out/build/desk"), 20.0)
    assert "does not learn here" in numbers.without
    assert numbers.loss is None
    np.testing.assert_array_equal(numbers.logits, quantised.logits(given.x)[0])
    (pattern,) = (one for one in compare(traced_on(run, given), numbers) if one.kind == "attention")
    np.testing.assert_allclose(pattern.device.sum(axis=-1), 1, atol=1e-5)
    assert 1e-5 < pattern.differences.max() < 0.05


def answers(desk: Path, *lines: bytes) -> list[str]:
    done = subprocess.run([desk], input=b"\n".join(lines), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [
        re.sub(r"^(logits|loss|gradient \S+|attention .*? \d+ \d+) .*", r"\1 …", line)
        for line in done.stdout.decode().splitlines()
    ]


@GCC
def test_broken_lines_are_refused_and_the_next_is_answered(desk: Path) -> None:
    good = b"input " + b"0a" * 64
    weights = {name: np.asarray(leaf) for name, leaf in named_leaves(small_vit(Path()).params).items()}
    model = [f"glassformer 1 small_vit 64 3 bytes {fingerprint(weights)}", "end"]
    assert answers(desk, b"model", b"", b"\r", b"model\r") == model * 2
    for line, error in {
        b"hello": "expected model, input or label",
        b"models": "expected model, input or label",
        b"x" * 300_000: "expected model, input or label",
        bytes(range(128, 256)) + b"\0": "expected model, input or label",
        b"input": "input: too few digits",
        good[:-1]: "input: too few digits",
        good + b"0": "input: too many digits",
        good * 10_000: "input: expected the digits 0-9 and a-f",
        good[:-1] + b"G": "input: expected the digits 0-9 and a-f",
        good[:-1] + b"\xff": "input: expected the digits 0-9 and a-f",
        b"label 1": "label: expected an input first",
        b"label": "label: expected the number of a class",
        b"label 1 2": "label: expected the number of a class",
        b"label 99999999999999999999": "label: expected the number of a class",
    }.items():
        assert answers(desk, line, b"model") == [f"error {error}", *model], line[:20]
    for label in (b"label 3", b"label -1"):
        assert answers(desk, good, label, b"model")[-3:-2][0].startswith("error label: ")
    said = answers(
        desk, good.replace(b"a0", b"a 0"), good[:-2], b"label 1", b"label 1"
    )  # a bad input forgets the last one
    assert said[-3:] == ["error input: too few digits", *["error label: expected an input first"] * 2]
    assert said.count("logits …") == 1


HELLO = "input(); input(); print('glassformer 1 liar 64 3 bytes', sys.argv[1], flush=True); print('end', flush=True); "
READ = "input(); "
DEVICES = {
    "hangs": ("time.sleep(60)", r"no model answered within 0\.5 s; expected a program such as the desk\.c"),
    "says other things": ("[print('boot', flush=True) or time.sleep(0.1) for _ in range(600)]", "no model answered"),
    "hangs later": (HELLO + READ + "time.sleep(60)", r"silent for 0\.5 s; .* --device-timeout"),
    "dies": ("sys.exit('no such board')", r"ended before it had answered \(status 1\): no such board"),
    "dies later": (HELLO + READ + "print('logits 3f8'); sys.exit(3)", r"cannot be read: 'logits 3f8'"),
    "ends early": (HELLO + READ + "print('logits', *['3f800000'] * 3)", r"ended before it had answered \(status 0\)"),
    "another version": ("print('glassformer 2 a\\nend')", "version 2 of the protocol"),
    "another model": ("print('glassformer 1 a 784 10 bytes 0\\nend')", r"784 bytes in, 10 .* this run has 64 bytes"),
    "other weights": ("print('glassformer 1 a 64 3 bytes 0\\nend')", r"a has other weights \(0\) than this run"),
    "refuses": (HELLO + READ + "print('error of mine')", "the device refused it: of mine"),
    "no sense": (HELLO + READ + "print('attention x 0 -1 3f800000')", "cannot be read: 'attention x 0 -1 3f800000'"),
    "too few logits": (HELLO + READ + "print('logits 3f800000\\nend\\nerror')", "head.y: 1 numbers came, expected 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEVICES)
def test_devices_that_lie_hang_or_die(name: str) -> None:
    run = small_vit(Path())
    program, message = DEVICES[name]
    weights = {name: np.asarray(leaf) for name, leaf in named_leaves(run.params).items()}
    words = [sys.executable, "-c", f"import sys, time\n{program}", fingerprint(weights)]
    with pytest.raises(DeviceError, match=message):
        compare(traced_on(run, input_for(run)), device_numbers(run, input_for(run), shlex.join(words), 0.5))


def test_sizes_and_names_that_the_model_does_not_have() -> None:
    run = small_vit(Path())
    traced = traced_on(run, input_for(run))
    plain = DeviceNumbers("liar", "", np.zeros(3, np.float32), {}, None, {}, "")
    rows = {(0, 4): np.zeros(4, np.float32)}
    for numbers, message in (
        (plain._replace(attention={"blocks.0.attn.pattern": rows}), r"query 4, 4 keys came, the model has 2 x 4 x 4"),
        (plain._replace(attention={"a.pattern": rows}), "'a.pattern', which this model does not have"),
        (plain._replace(gradients={"head.w": np.zeros(5)}), r"head.dw: 5 numbers came, expected 24"),
        (plain._replace(gradients={"tail.w": np.zeros(5)}), "'tail.w', which this model does not have"),
    ):
        with pytest.raises(DeviceError, match=message):
            compare(traced, numbers)
    (logits,) = compare(traced, plain._replace(logits=np.array([np.nan, 0, 0], np.float32)))
    assert logits.summary(1.0)["largest"] is None  # never hidden
    assert logits.summary(1.0)["where"] == [0]


@GCC
def test_a_serial_port(desk: Path) -> None:
    run = small_vit(Path())
    ours, port = os.openpty()
    with subprocess.Popen([desk], stdin=ours, stdout=ours) as process:
        found = compared(run, input_for(run), f"{os.ttyname(port)}:9600")
        process.kill()
    os.close(ours)
    os.close(port)
    assert max(one.differences.max() for one in found.values()) < 1e-4
    with pytest.raises(SettingError, match=r"12345 came as the speed of /dev/null"):
        device_numbers(run, input_for(run), "/dev/null:12345", 1.0)
    with pytest.raises(DeviceError, match=r"/dev/null: this is no serial port"):
        device_numbers(run, input_for(run), "/dev/null", 1.0)


def test_what_cannot_be_asked(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for words, message in (
        (["--device", "no-such-program"], "no-such-program: the command cannot be run: No such file or directory"),
        (["--device", ""], "--device: expected a command, or a serial port"),
        (["--device", "'"], "is no command"),
        (["--device", "cat", "--device-timeout", "0"], "--device-timeout: 0 came, expected seconds above 0"),
    ):
        done = glassformer("view", "-", "test:18", *words, "--out", out)
        assert done.returncode == 1
        assert message in done.stderr
        assert not out.exists()


@needs("m4")
def test_the_hook_costs_nothing(tmp_path: Path) -> None:
    """The same object without the lines that it stands in."""
    path = written(source_of(MODELS["vit"]), tmp_path)
    text = path.read_text()
    assert text.count('ATTENTION_QUERY("blocks.') == 2
    (with_hook,) = compiled(find("m4"), [path], ("-O2",))
    path.write_text(re.sub(r"^ *ATTENTION_\w+\(.*\);\n", "", text, flags=re.MULTILINE))
    (without,) = compiled(find("m4"), [path], ("-O2",))
    assert with_hook != without
    assert with_hook.read_bytes() == without.read_bytes()


@pytest.mark.slow
@GCC
@needs("m4")
def test_an_emulated_board_at_the_desk(tmp_path: Path) -> None:
    """vit-pico on a Cortex-M4F, through its serial port, with `view --device`."""
    assert glassformer("export", load().path, "--to", "c", tmp_path / "out", "--train", "full").returncode == 0
    command = shlex.join([sys.executable, "-m", "glassformer.edge.emulated_desk", str(tmp_path / "out"), "m4"])
    words = ["--device", command, "--device-timeout", "60", "--out", tmp_path / "page.html", "--json"]
    done = glassformer("view", "-", "test:18", *words)
    assert done.returncode == 0, done.stderr
    device = json.loads(done.stdout.splitlines()[-1])["device"]
    assert device["name"] == "vit_pico"
    assert len(device["compared"]) == 3 + len(named_leaves(load().params))
    for one in device["compared"]:
        assert one["numbers"] == one["of"]
        assert one["largest"] <= 1e-5 * max(1.0, one["scale"]), one
    assert '"device":{"name":"vit_pico"' in (tmp_path / "page.html").read_text()
    assert make(tmp_path / "out", "desk").returncode == 0
