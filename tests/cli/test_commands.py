"""The commands as a user runs them: what they print, what they return, what they say when something is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .command import glassformer

BROKEN = '''
"""A student's layer: scale every channel by a learned factor. Two mistakes in backward."""
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class Params(NamedTuple):
    scale: Float[Array, "C"]
    shift: Float[Array, "C"]


class Cache(NamedTuple):
    x: Float[Array, "B T C"]


@dataclass(frozen=True)
class Scale:
    width: int

    def init(self, key):
        return Params(scale=jnp.ones(self.width), shift=jnp.zeros(self.width))

    def forward(self, params: Params, x: Float[Array, "B T C"]) -> tuple[Float[Array, "B T C"], Cache]:
        return x * params.scale + params.shift, Cache(x=x)

    def backward(self, params: Params, cache: Cache, dy):
        dscale = jnp.sum(dy * cache.x, axis=(0, 1)) / dy.shape[0]      # wrong: a mean over the batch
        return dy, Params(scale=dscale, shift=jnp.sum(dy, axis=(0, 1)))  # wrong: dx forgets the scale


ready = Scale(4)
unfinished = 3
'''
COMMANDS = [
    *(
        ("train",),
        ("eval",),
        ("compare",),
        ("predict",),
        ("attend",),
        ("trace",),
        ("info",),
        ("gradcheck",),
        ("data",),
        ("bench",),
    ),
    *(("generate",), ("import",), ("export",), ("template",), ("embed",)),
    *(("view",), ("studio",), ("investigate",), ("diagnose",)),
    *(
        ("bench", "gradients"),
        ("bench", "train"),
        ("bench", "latency"),
        ("bench", "scaling"),
        ("bench", "generate"),
        ("bench", "fine-tuning"),
        ("data", "list"),
        ("data", "get"),
        ("data", "sheet"),
        ("data", "show"),
    ),
]
RIGHT = BROKEN.replace(" / dy.shape[0]", "").replace("return dy, Params", "return dy * params.scale, Params")


@pytest.fixture
def student(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(BROKEN)
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "crash.py").write_text("1 / 0")
    return tmp_path


def test_help_lists_the_commands_and_every_command_shows_an_example() -> None:
    top = glassformer("--help")
    assert top.returncode == 0
    for command in ("train", "eval", "predict", "attend", "info", "gradcheck", "data", "bench"):
        assert command in top.stdout
    for command in COMMANDS:
        assert "Example: " in glassformer(*command, "--help").stdout


def test_a_broken_layer_gets_a_message_that_says_what_is_wrong_and_where_to_read(student: Path) -> None:
    result = glassformer("gradcheck", "mine.py:Scale(width=6)", folder=student)
    assert result.returncode == 1
    assert "dscale is wrong by" in result.stdout
    assert "it is 0.5 times the right one" in result.stdout
    assert "dx is wrong by" in result.stdout
    assert "the cache field 'x' is not tagged under its own name" in result.stdout
    assert "dshift" not in result.stdout
    assert "docs/derivations/README.md" in result.stdout
    assert "0 of 1 keep the contract" in result.stdout
    assert "Traceback" not in result.stderr


def test_a_right_layer_passes_as_class_call_or_instance(student: Path) -> None:
    for address in ("right.py:Scale(6)", "right.py:Scale(width=3)", "right.py:ready"):
        result = glassformer("gradcheck", address, folder=student)
        assert result.returncode == 0, result.stdout + result.stderr
        assert "1 of 1 keep the contract" in result.stdout


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("none.py:Scale", "none.py: there is no such file"),
        ("mine.py:Scal(6)", "nothing is called 'Scal' there (did you mean 'Scale'?)"),
        ("mine.py:Scale", "missing a required argument: 'width'"),
        ("mine.py:Scale(depth=2)", "its settings are (width: int)"),
        ("mine.py:unfinished", "unfinished has no init and no forward and no backward"),
        ("mine.py:import os", "expected a name or a call with plain values"),
        ("crash.py:Scale", "crash.py: importing it failed: ZeroDivisionError: division by zero"),
    ],
)
def test_an_address_that_leads_nowhere_is_explained(student: Path, address: str, message: str) -> None:
    result = glassformer("gradcheck", address, folder=student)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_layer_that_raises_is_reported_with_its_line(student: Path) -> None:
    (student / "raises.py").write_text(RIGHT.replace("jnp.sum(dy * cache.x, axis=(0, 1))", "dy @ cache.x"))
    result = glassformer("gradcheck", "raises.py:Scale(6)", folder=student)
    assert result.returncode == 1
    assert "raises.py, line 30: TypeError" in result.stdout
    assert "Traceback" not in result.stderr


def test_an_input_without_annotation_needs_a_shape(student: Path) -> None:
    (student / "bare.py").write_text(RIGHT.replace('x: Float[Array, "B T C"])', "x)"))
    refused = glassformer("gradcheck", "bare.py:Scale(6)", folder=student)
    assert refused.returncode == 1
    assert "--x 2,5,6" in refused.stdout
    accepted = glassformer("gradcheck", "bare.py:Scale(6)", "--x", "2,5,6", folder=student)
    assert accepted.returncode == 0, accepted.stdout
    assert glassformer("gradcheck", "bare.py:Scale(6)", "--x", "2,b", folder=student).returncode == 2


def test_gradcheck_as_json() -> None:
    result = glassformer("gradcheck", "LayerNorm", "softmax", "--json")
    answer = json.loads(result.stdout.splitlines()[-1])
    assert answer["ok"] is True
    assert [layer["name"] for layer in answer["layers"]] == ["layer norm", "softmax"]
    assert answer["layers"][0]["parameters"] == 12
    assert answer["layers"][0]["against_autodiff"] < 1e-9


def test_an_unknown_layer_gets_the_nearest_name() -> None:
    result = glassformer("gradcheck", "sofmax")
    assert result.returncode == 1
    assert "no layer is called 'sofmax' (did you mean 'softmax'?)" in result.stderr


def test_info_shows_the_costs_of_a_model() -> None:
    result = glassformer("info", "patch_attention", "--batch", "32")
    assert "177,344" in result.stdout
    answer = json.loads(glassformer("info", "vit", "--set", "width=16", "--set", "images.classes=3", "--json").stdout)
    assert answer["total"]["parameters"] == sum(part["parameters"] for part in answer["parts"])
    assert answer["parts"][-1]["shape"] == [1, 3]


def test_info_about_the_machine() -> None:
    answer = json.loads(glassformer("info", "--json").stdout)
    assert {"glassformer", "python", "jax", "devices"} <= answer.keys()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("info", "vti"), 1, "is called 'vti' (did you mean 'vit'?); known: mlp, patch_attention, vit"),
        (("info", "vit", "--set", "widht=3"), 1, "ViT has no setting 'widht' (did you mean 'width'?)"),
        (("info", "vit", "--set", "width=wide"), 1, "width: 'wide' came; input should be a valid integer"),
        (("info", "vit", "--set", "width"), 1, "'width' is not a setting; write name=value, such as"),
        (("info", "vit", "--set", "width.x=1"), 1, "width is a plain value and has no setting 'x'"),
        (("info", "vit", "--set", "heads=5"), 1, "width 64 does not divide into 5 heads; try heads=4"),
        (("info", "vit", "--set", "patch_size=5"), 1, "sizes that fit: 1, 2, 4, 7, 14, 28"),
        (("info", "vit", "--batch", "0"), 2, "Invalid value for '--batch'"),
        (("nothing",), 2, "No such command 'nothing'"),
    ],
)
def test_mistakes_get_a_message_and_no_traceback(arguments: tuple[str, ...], code: int, message: str) -> None:
    result = glassformer(*arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_version() -> None:
    assert glassformer("--version").stdout.startswith("glassformer 0.")


def test_the_module_is_the_command_and_its_errors_are_one_line_in_a_process_of_its_own() -> None:
    result = subprocess.run([sys.executable, "-m", "glassformer", "info", "vti"], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("glassformer: ")


def test_bench_gradients_prints_a_ratio_for_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.bench import gradients
    from glassformer.models import MLP

    monkeypatch.setattr(gradients, "CONTESTS", {"mlp": (MLP(hidden=(8,)), 4)})
    (result,) = gradients.compare(count=2, rounds=1)
    assert result.ratio == result.autodiff_ms / result.explicit_ms > 0
