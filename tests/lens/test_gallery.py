"""The pages of docs/gallery: there, small, whole, and named in the docs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "gallery").glob("*.html"))


def test_the_gallery_has_the_models_that_the_docs_name() -> None:
    told = (DOCS / "lens.md").read_text()
    assert [page.stem for page in PAGES] == ["bert", "gpt", "lstm", "own", "t5", "vit"]
    for page in PAGES:
        assert f"(gallery/{page.name})" in told


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_small_and_asks_for_nothing(page: Path) -> None:
    text = page.read_text()
    assert len(text.encode()) < 2_000_000
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    assert "default-src 'none'" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text


def shown(name: str) -> dict[str, Any]:
    text = (DOCS / "gallery" / f"{name}.html").read_text()
    (found,) = re.findall(r'<script type="application/json" id="trace">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_what_the_pages_answer_is_right() -> None:
    """Digits their labels, a date as ISO 8601 writes it, a BERT the symbols that were covered up."""
    for name in ("vit", "own"):
        answer = shown(name)["answer"]
        assert answer["known"]
        assert answer["probabilities"].index(max(answer["probabilities"])) == answer["label"] == 3
    assert shown("t5")["input"]["name"] == "<de> 5. September 2024"
    assert shown("t5")["answer"]["written"] == "2024-09-05"
    bert = shown("bert")
    assert [bert["answer"]["places"][one["place"]][0] for one in bert["answer"]["asked"]] == [".", "t"]
    for name, next_one in (("gpt", "i"), ("lstm", "i")):  # str-ing, ra-ised
        assert shown(name)["answer"]["places"][-1][0] == next_one


def test_every_page_is_of_today() -> None:
    """With all that a page has: the tabs What if and Why, and which models work in it by themselves."""
    for page in PAGES:
        assert shown(page.stem)["why"]
        assert (shown(page.stem)["forward"]["reason"] == "") == (page.stem != "lstm")
