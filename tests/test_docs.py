"""The documentation is true: its code runs, what it quotes stands in the source, and its links lead somewhere."""

import re
import textwrap
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from glassformer.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
PAGES = [page for page in PAGES if page.exists()]
SLOW = {
    "docs/edge.md",
    "docs/lens.md",
    "docs/native.md",
    "docs/own-models.md",
    "docs/text.md",
}  # they train, compile, draw

FENCED = re.compile(r"^[ \t]*```(?P<info>[^`\n]*)\n(?P<code>.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?(?P<inline>[^)\s>]+)[^)]*\)|^\[[^\]]+\]:\s*<?(?P<reference>[^\s>]+)", re.MULTILINE)
HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
DERIVATION = re.compile(r"\bdocs/derivations/[\w-]+\.md")


class Block(NamedTuple):
    words: list[str]  # after ```python: [], ["no-run"], or ["no-run", the file it quotes], or the command, word by word
    code: str
    line: int  # of the first line of code in the page, counted from 1


def blocks_in(page: Path, *languages: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    blocks = []
    for match in FENCED.finditer(text):
        language, *words = match["info"].split() or [""]
        if language in languages:
            line = text.count("\n", 0, match.start("code")) + 1
            blocks.append(Block(words=words, code=textwrap.dedent(match["code"]), line=line))
    return blocks


def python_blocks(page: Path) -> list[Block]:
    return blocks_in(page, "python")


def quoting_blocks(page: Path) -> list[Block]:
    return [block for block in blocks_in(page, "python", "c", "text", "toml") if len(block.words) > 1]


@cache
def printed_by(command: str) -> str:
    result = CliRunner().invoke(app, command.split()[1:])
    assert result.exit_code == 0, f"{command}: {result.output}"
    return result.stdout


def false_quotes(page: Path) -> Iterator[str]:
    for block in quoting_blocks(page):
        is_command = block.words[1] == "glassformer"
        for quoted in [" ".join(block.words[1:])] if is_command else block.words[1:]:
            text = printed_by(quoted) if is_command else (ROOT / quoted).read_text(encoding="utf-8")
            source = iter([line.strip() for line in text.splitlines()])
            for number, line in enumerate(block.code.splitlines(), start=block.line):
                # the iterator moves on, so the lines have to stand there in this order
                if line.strip() not in source:
                    yield f"{page.name}:{number} quotes a line that {quoted} does not have: {line}"
                    break


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


def marked(page: Path) -> Any:
    return pytest.param(page, marks=pytest.mark.slow if of_root(page) in SLOW else ())


@pytest.fixture(scope="session")
def cache_for_pages(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.usefixtures("registry_as_it_was")
@pytest.mark.parametrize("page", [marked(page) for page in PAGES if python_blocks(page)], ids=of_root)
def test_code_on_the_page_runs(page, cache_for_pages, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(cache_for_pages))  # compiled models
    run_page(page)


@pytest.mark.parametrize("page", [page for page in PAGES if quoting_blocks(page)], ids=of_root)
def test_quoted_lines_stand_in_the_source(page):
    assert list(false_quotes(page)) == []


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


@pytest.mark.parametrize(
    ("block", "false"),
    [
        ("c no-run src/glassformer/native/c/relu.h\n#ifndef GF_RELU_H\n#endif\n", ""),
        ("c no-run src/glassformer/native/c/relu.h\n#endif\n#ifndef GF_RELU_H\n", "#ifndef GF_RELU_H"),
        ("c no-run glassformer info attention-pool --c\n    CLASSES = 10,\n    PARAMETERS = 3114,\n", ""),
        ("c no-run glassformer info attention-pool --c\n    CLASSES = 11,\n", "CLASSES = 11,"),
        ("c\nint not_a_quote;\n", ""),
    ],
)
def test_a_false_quote_is_found(block, false, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```{block}```\n", encoding="utf-8")
    assert [quote.partition("does not have: ")[2] for quote in false_quotes(page)] == ([false] if false else [])
