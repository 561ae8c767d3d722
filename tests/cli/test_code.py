"""--code: parts of one's own in every command, and the template that one begins from."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click import Command
from typer.main import get_command

from glassformer.cli import app

from ..train.small import small_data, write_npz
from .command import glassformer

pytestmark = pytest.mark.usefixtures("registry_as_it_was")

TAKE_CODE = {
    *("train", "eval", "predict", "attend", "trace", "view", "studio", "generate"),
    *("gradcheck", "investigate", "compare", "diagnose", "export", "info", "embed"),
}
SMALL = ("--data", "small.npz", "--set", "model.width=8", "--set", "model.hidden=8", "--epochs", "1")


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template, and a small data set beside it."""
    folder = tmp_path_factory.mktemp("template") / "mine"
    made = glassformer("template", "model", folder, "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["files"] == ["README.md", "my_model.py", "recipe.toml", "test_my_model.py"]
    write_npz(folder / "small.npz", small_data())
    return folder


def test_every_command_that_opens_a_run_or_trains_takes_it() -> None:
    commands: dict[str, Command] = get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    having = {name for name, command in commands.items() for option in command.params if "--code" in option.opts}
    assert having == TAKE_CODE


def test_a_template_overwrites_nothing(mine: Path) -> None:
    before = (mine / "my_model.py").read_text()
    (mine / "README.md").unlink()
    again = glassformer("template", "model", mine)
    assert again.returncode == 1
    assert "my_model.py: is there already, and nothing is overwritten" in again.stderr
    assert (mine / "my_model.py").read_text() == before
    assert not (mine / "README.md").exists()


def test_the_template_keeps_the_contract(mine: Path) -> None:
    checked = glassformer("gradcheck", "--code", "my_model.py", "--json", folder=mine)
    assert checked.returncode == 0, checked.stdout
    assert [layer["name"] for layer in json.loads(checked.stdout)["layers"]] == ["my-gate", "my-model"]


def test_the_test_of_the_template_passes(mine: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_model.py"]
    done = subprocess.run(command, cwd=mine, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_template_trains_and_its_run_asks_for_the_code(mine: Path) -> None:
    own = ("--code", "my_model.py")
    trained = glassformer("train", *own, "--recipe", "recipe.toml", *SMALL, "--out", "run", "--json", folder=mine)
    assert trained.returncode == 0, trained.stderr
    result = json.loads(trained.stdout)
    assert (result["epochs"], result["engine"]) == (1, "jax")
    assert "engine jax: the native engine has no Gate yet (gate)" in trained.stderr
    asked = glassformer("info", "run", *own, folder=mine)
    assert "MyModel" in asked.stdout
    shutil.copytree(mine / "run", mine / "twin")
    compared = glassformer("compare", "run", "twin", *own, "--json", folder=mine)
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout)["pairs"][0]["word"] == "not decided"


def test_without_its_code_a_run_says_what_to_give(mine: Path) -> None:
    (mine / "other").mkdir()
    (mine / "other" / "recipe.toml").write_text('[model]\nkind = "my-model"\n')
    for arguments in (("info", "other"), ("train", "--resume", "other"), ("train", "--set", "model.kind=my-model")):
        result = glassformer(*arguments, folder=mine)
        assert result.returncode == 1
        assert "model.kind: 'my-model' came" in result.stderr
        assert "if it is your own, install its package or give its file: --code FILE" in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--code", "gone.py", "softmax"), "gone.py: there is no such file; expected a Python file"),
        (
            ("--code", "broken.py"),
            "broken.py: importing it failed: ZeroDivisionError: division by zero (line 1: 1 / 0)",
        ),
        (("--code", "nothing.py"), "--code: nothing to check is registered there; name it: my_layers.py:MyLayer"),
        (("--code", "my_model.py", "my-gate(depth=3)"), "its settings are (width: int = 16)"),
    ],
)
def test_code_that_is_of_no_use_is_explained(mine: Path, arguments: tuple[str, ...], message: str) -> None:
    (mine / "broken.py").write_text("1 / 0\n")
    (mine / "nothing.py").write_text("x = 1\n")
    result = glassformer("gradcheck", *arguments, folder=mine)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_layer_by_its_registered_name(mine: Path) -> None:
    file = ("--code", "my_model.py")
    checked = glassformer("gradcheck", *file, "my-gate(width=3)", folder=mine)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 of 1 keep the contract" in checked.stdout
    costs = glassformer("info", *file, "my-model", "--set", "width=8", "--json", folder=mine)
    assert json.loads(costs.stdout)["model"].startswith("MyModel(")
