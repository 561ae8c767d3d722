"""Imports point down only, and the lower rooms need nothing that a bare JAX machine lacks."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import glassformer

SOURCE = Path(glassformer.__file__).parent
ROOMS = [  # each may import from those above it, and from itself
    "shapes",
    "errors",
    "names",
    "reading",
    "files",
    "cgroups",
    "cores",
    "memory",
    "user_cache",
    "tables",
    "probabilities",
    "formula_functions",
    "formulas",
    "registry",
    "layers",
    "losses",
    "structure",
    "data",
    "models",
    "train",
    "recipes",
    "native",
    "generate",
    "predict",
    "check",
    "hub",
    "lens",
    "edge",
    "bench",
    "lab",
    "plans",
    "templates",
    "api",
    "cli",
]
LEVEL = {room: level for level, room in enumerate(ROOMS)}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("glassformer.")}
        if isinstance(node, ast.ImportFrom) and node.module == "glassformer":
            found |= {alias.name for alias in node.names if alias.name in LEVEL}
    return found


def test_imports_point_down() -> None:
    upward = [
        f"{path.relative_to(SOURCE)} imports {room}"
        for path in SOURCE.rglob("*.py")
        if room_of(path) not in ("__init__", "__main__")
        for room in imported_rooms(path)
        if LEVEL[room] > LEVEL[room_of(path)]
    ]
    assert upward == []


@pytest.mark.parametrize(
    "room", ["layers", "losses", "models", "data", "train", "check", "hub", "generate", "predict", "hub.onnx_file"]
)
def test_lower_rooms_import_with_jax_alone(room: str) -> None:
    code = f"""
import sys
for name in ("typer", "rich", "pydantic", "pooch", "matplotlib", "tokenizers", "babel", "tomlkit", "filelock", "onnx"):
    sys.modules[name] = None  # importing it now fails
import glassformer.{room}
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_command_line_loads_jax_only_when_a_command_needs_it() -> None:
    code = "import sys, glassformer.cli; sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_folder_says_what_lives_in_it() -> None:
    for init in SOURCE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(init.read_text())), init
