"""The documentation is true: its code runs, what it quotes stands in the source, and its links lead somewhere."""

import re
import textwrap
import traceback
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
PAGES = [page for page in PAGES if page.exists()]

FENCED = re.compile(r"^[ \t]*```(?P<info>[^`\n]*)\n(?P<code>.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?(?P<inline>[^)\s>]+)[^)]*\)|^\[[^\]]+\]:\s*<?(?P<reference>[^\s>]+)", re.MULTILINE)
HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
DERIVATION = re.compile(r"\bdocs/derivations/[\w-]+\.md")


class Block(NamedTuple):
    words: list[str]  # after ```python: [], ["no-run"], or ["no-run", the file it quotes]
    code: str
    line: int  # of the first line of code in the page, counted from 1


def python_blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    blocks = []
    for match in FENCED.finditer(text):
        language, *words = match["info"].split() or [""]
        if language == "python":
            line = text.count("\n", 0, match.start("code")) + 1
            blocks.append(Block(words=words, code=textwrap.dedent(match["code"]), line=line))
    return blocks


def run_page(page: Path) -> None:
    """Run the blocks in order, in one namespace; a traceback names the page and the line in it."""
    namespace = {"__name__": page.stem}
    for block in python_blocks(page):
        if "no-run" not in block.words:
            padded = "\n" * (block.line - 1) + block.code
            exec(compile(padded, str(page), "exec"), namespace)


def relative_links(page: Path) -> list[str]:
    prose = INLINE_CODE.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))
    links = [match["inline"] or match["reference"] for match in LINK.finditer(prose)]
    return [link for link in links if not link.startswith("#") and not HAS_SCHEME.match(link)]


def of_root(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=of_root)
def test_code_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page)], ids=of_root)
def test_quoted_lines_stand_in_the_source(page):
    for block in python_blocks(page):
        for quoted in block.words[1:]:
            source = iter([line.strip() for line in (ROOT / quoted).read_text(encoding="utf-8").splitlines()])
            for number, line in enumerate(block.code.splitlines(), start=block.line):
                # the iterator moves on, so the lines have to stand there in this order
                assert line.strip() in source, f"{of_root(page)}:{number} quotes a line that {quoted} does not have"


@pytest.mark.parametrize("page", PAGES, ids=of_root)
def test_relative_links_lead_to_a_file(page):
    broken = [link for link in relative_links(page) if not (page.parent / link.partition("#")[0]).exists()]
    assert broken == []


def test_derivations_named_in_the_source_exist():
    sources = [path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".c", ".h"}]
    named = {(source, name) for source in sources for name in DERIVATION.findall(source.read_text(encoding="utf-8"))}
    assert named
    assert sorted(f"{of_root(source)}: {name}" for source, name in named if not (ROOT / name).exists()) == []


def test_a_false_claim_fails_at_its_own_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n"
        "```python no-run\nassert False\n```\n"
        "```python\nx = 1\n```\n"
        "- in a list\n\n"
        "  ```python\n  assert x == 1\n  assert x == 2\n  ```\n",
        encoding="utf-8",
    )
    with pytest.raises(AssertionError) as caught:
        run_page(page)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.filename, frame.line) == (str(page), "assert x == 2")


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "[here](page.md#top) [away](https://x.org) [top](#top) `[no](link.md)` ![gone](gone.png)\n\n[ref]: lost.md\n",
        encoding="utf-8",
    )
    assert relative_links(page) == ["page.md#top", "gone.png", "lost.md"]
