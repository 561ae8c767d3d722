"""What the tests of `glassformer bench` share."""

import json
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner, Result

from glassformer.bench import training
from glassformer.cli import app
from glassformer.errors import EngineError
from glassformer.native import build

NO_COMPILER = "no C compiler is installed"


def has_c_compiler() -> bool:
    try:
        return bool(build.compiler())
    except EngineError:
        return False


needs_c_compiler = pytest.mark.skipif(not has_c_compiler(), reason="no C compiler")
needs_compiler = pytest.mark.skipif(not training.has_compiler(), reason="no C++ compiler")


def bench(*arguments: str) -> Result:
    environment = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}
    return CliRunner().invoke(app, ["bench", *arguments], env=environment)


def answer_of(output: Result) -> dict[str, Any]:
    assert output.exit_code == 0, output.output
    return json.loads(output.stdout.splitlines()[-1])


def take_the_c_compiler_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> NoReturn:
        raise EngineError(NO_COMPILER)

    monkeypatch.setattr(build, "compiler", missing)


def compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's compiler takes seconds; what it would return is, here, what it was given."""
    import torch

    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
