"""Inputs that once were more than a reader could bear, and a few new ones."""

from pathlib import Path

import pytest

from .fuzz import CORPUS, Inputs
from .readers import READERS, write_seeds

KEPT = sorted(CORPUS.glob("*.bin"))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    root = tmp_path_factory.mktemp("fuzz") / "root"
    write_seeds(root)
    return Inputs(root, root.with_name("scratch"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_what_once_failed(file: Path, inputs: Inputs) -> None:
    name = file.stem.rpartition("-")[0]
    if name not in READERS:
        pytest.skip(f"{name} needs a package that is not installed")
    assert not inputs.read(name, file.read_bytes())


@pytest.mark.parametrize("name", READERS)
def test_right_inputs_are_read(name: str, inputs: Inputs) -> None:
    """Else damaged ones would prove nothing."""
    reader = READERS[name]
    inputs.read(name, inputs.right(name)[0])
    reader.read(inputs.scratch / name)
