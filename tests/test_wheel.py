"""What a user gets: the wheel, installed into a clean environment, used from another folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, folder: Path) -> str:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.network
@pytest.mark.slow
def test_wheel_installs_and_works_elsewhere(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT, folder=tmp_path)
    (wheel,) = tmp_path.glob("glassformer-*.whl")
    inside = zipfile.ZipFile(wheel).namelist()
    assert "glassformer/py.typed" in inside
    assert {f"glassformer/edge/start/emulator.{kind}" for kind in ("c", "h", "S", "ld")} <= set(inside)
    assert not [name for name in inside if name.startswith(("tests", "docs"))]

    run(sys.executable, "-m", "venv", "clean", folder=tmp_path)
    python, command = (tmp_path / "clean/bin" / name for name in ("python", "glassformer"))
    run(python, "-m", "pip", "install", "--quiet", wheel, folder=tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = run(python, "-c", "import glassformer; print(glassformer.__file__)", folder=elsewhere)
    assert "clean" in where
    assert "3,114" in run(command, "info", "patch_attention", folder=elsewhere)
    assert "1 of 1 keep the contract" in run(command, "gradcheck", "layer norm", folder=elsewhere)
    run(command, "view", "-", "test:0", "--out", "page.html", folder=elsewhere)
    assert (elsewhere / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert "attention-accuracy-quick" in run(command, "investigate", "--list", folder=elsewhere)
    without_extra = subprocess.run([command, "studio", "--no-browser"], cwd=elsewhere, capture_output=True, text=True)
    assert without_extra.returncode == 1
    assert "pip install 'glassformer[studio]'" in without_extra.stderr
