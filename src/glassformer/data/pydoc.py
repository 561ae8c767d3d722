"""pydoc: the chapters on the Python language that come with Python itself, English prose and examples of code.

One example is one topic of `help()`. Chapters quote each other whole: of a paragraph that stands in several topics the
shortest topic keeps it, so that every paragraph is read once and none of the test is in the training part.
The text is that of the Python that runs: another version has another wording here and there.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from glassformer.data.texts import Example, Texts
from glassformer.errors import DataError

HELD_OUT = 10  # every tenth topic is for testing
COMMON = 40  # characters: below it a paragraph is a heading or `For example:` and may stand in many topics
RULE = re.compile(r"[ |+=-]*[+=-]{3}[ |+=-]*")  # a line of a table that holds no words


def load_pydoc(name: str, cache: Path | None = None) -> Texts:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError(
            f"{name}: this Python comes without pydoc_data.topics; install its standard library whole, "
            "or give a text file of your own by path"
        ) from None
    chapters = unrepeated({topic: tidy(text) for topic, text in topics.items()})
    examples = [Example(text) for _, text in sorted(chapters.items()) if text]
    test = examples[HELD_OUT // 2 :: HELD_OUT]
    del examples[HELD_OUT // 2 :: HELD_OUT]
    return Texts(name=name, train=tuple(examples), test=tuple(test))


def unrepeated(chapters: Mapping[str, str]) -> dict[str, str]:
    """The shortest first; what one has is taken out of those that follow."""
    seen: set[str] = set()
    kept = {}
    for topic in sorted(chapters, key=lambda topic: (len(chapters[topic]), topic)):
        paragraphs = [each for each in chapters[topic].split("\n\n") if each not in seen]
        kept[topic] = "\n\n".join(paragraphs) if any(len(each) >= COMMON for each in paragraphs) else ""
        seen |= {each for each in paragraphs if len(each) >= COMMON}
    return kept


def tidy(text: str) -> str:
    """Without the rows of stars below headings, the rules of tables and the spaces at the ends of lines."""
    lines = [line.rstrip() for line in text.splitlines()]
    above = ["", *lines]
    kept = [line for line, before in zip(lines, above, strict=False) if not (underlines(line, before) or is_rule(line))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip("\n")


def underlines(line: str, heading: str) -> bool:
    return len(line) == len(heading) > 2 and len(set(line)) == 1 and line[0] in "*=-^~"


def is_rule(line: str) -> bool:
    return len(line) > 20 and RULE.fullmatch(line) is not None
