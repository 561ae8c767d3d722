"""The pages of docs/gallery: small models, trained in a few minutes, one page each: `python scripts/gallery.py [RUNS]`.

Every model begins at its recipe's seed. What their pages answer is checked in tests/lens/test_gallery.py.
Runs that are in the folder RUNS already are not trained again. Every page is one file, under 2 MB, with all it needs.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
TEMPLATE = ROOT / "src" / "glassformer" / "templates" / "model"  # a model that glassformer does not know
LARGEST = 2_000_000  # bytes of a page


class Entry(NamedTuple):
    train: str
    input: str
    code: tuple[str, ...] = ()  # of a model of one's own


ENTRIES = {
    "vit": Entry("vit-nano --epochs 20", "test:18"),
    "gpt": Entry(
        "gpt-nano --epochs 20 --set model.width=48 --set model.hidden=192 --set model.depth=2",
        "Return a copy of the str",
    ),
    "bert": Entry(
        "bert-nano --epochs 24 --set training.samples=16000 --set model.width=32 --set model.hidden=64",
        "<de> 5<mask> Sep<mask>ember 2024",
    ),
    "t5": Entry(
        "t5-nano --epochs 14 --set training.samples=16000 --set model.width=24 --set model.hidden=48 "
        "--set model.head_width=8",
        "<de> 5. September 2024",
    ),
    "lstm": Entry(
        "lstm-nano --epochs 16 --set training.samples=1500 --set model.width=48 --set model.hidden=96",
        "If the file is not found, ra",
    ),
    "own": Entry(
        f"--recipe {TEMPLATE / 'recipe.toml'} --epochs 20", "test:18", ("--code", str(TEMPLATE / "my_model.py"))
    ),
}


def made(name: str, entry: Entry, runs: Path) -> Path:
    """The page of one model, which is trained where it has not been yet."""
    run, page = runs / name, GALLERY / f"{name}.html"
    if not (run / "metrics.json").exists():
        glassformer("train", *entry.train.split(), *entry.code, "--out", str(run))
    glassformer("view", str(run), entry.input, *entry.code, "--out", str(page))
    size = page.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"{page}: {size:,} bytes, at most {LARGEST:,} are wanted")
    return page


def glassformer(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "glassformer", *words], check=True)


if __name__ == "__main__":
    GALLERY.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder)
        for name, entry in ENTRIES.items():
            print(made(name, entry, runs))
