"""docs/edge.md: the generated C that it shows is what is written; its picture and its plan are those of the model."""

import json
import re
from runpy import run_path

import pytest
from tests.cli.command import glassformer
from tests.test_docs import ROOT, blocks_in

from glassformer.edge.export import folder_of, optimiser_for
from glassformer.edge.layers import program_of
from glassformer.edge.plan import layout_of
from glassformer.predict.run import load

PAGE = ROOT / "docs" / "edge.md"


@pytest.fixture(scope="module")
def exported() -> list[str]:
    """All that is written of the model that comes with the package: as it is, and as one that learns."""
    run = load()
    optimiser = optimiser_for(run)
    folders = [folder_of(run, "", None, optimiser, 1), folder_of(run, "digits", "head", optimiser, 1)]
    return [text for folder in folders for text in folder.files.values()]


def stands_in(lines: list[str], text: str) -> bool:
    """In this order."""
    source = iter([line.strip() for line in text.splitlines()])
    return all(line.strip() in source for line in lines)


def test_generated_c_on_the_page(exported: list[str]) -> None:
    shown = [block.code.splitlines() for block in blocks_in(PAGE, "c") if not block.words]
    assert len(shown) == 3
    for lines in shown:
        assert any(stands_in(lines, text) for text in exported), lines[0]
        wrong = [lines[0], *reversed(lines[1:]), "int x;"]
        assert not any(stands_in(wrong, text) for text in exported)


def test_the_picture_is_that_of_the_layout() -> None:
    script = run_path(str(ROOT / "scripts" / "arena_picture.py"))
    assert script["OUT"].read_text(encoding="utf-8") == script["picture"](layout_of(program_of(load().model)))


@pytest.mark.slow
def test_the_plan_on_the_page() -> None:
    """What does not depend on the compiler; another training of the same model takes as many bytes."""
    done = glassformer("export", load().path, "--to", "c", "--plan", "--json")
    assert done.returncode == 0, done.stderr
    names = {f"--train {name}": name for name in ("head", "bias", "lora", "full")} | {
        "--int8": "int8",
        "float": "float",
    }
    for one in json.loads(done.stdout)["variants"]:
        (title,) = (title for title, name in names.items() if name == one["variant"])
        weights = sum(one["weights"].values())
        figures = f"{one['arena']:,} . {one['input']} {one['logits']} . . {weights:,} . . {one['multiply_adds']:,} "
        row = re.escape(f"{title} {figures}").replace(r"\ ", " +").replace(r"\.", r"\S+")
        assert re.search(f"^{row}", PAGE.read_text(encoding="utf-8"), re.MULTILINE), row
