"""What every source of text gives: examples for training and for testing, with whatever is known about them.

A task takes what it needs: next-token and masked only the text, classification the label, translation the target,
tagging and span extraction the parts, chat the messages.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Part(NamedTuple):
    """A stretch of a text that has a name: text[start:end]."""

    name: str
    start: int
    end: int


class Example(NamedTuple):
    text: str
    label: int = -1  # an index into the classes; -1: none is known
    target: str = ""  # the text to be made of it
    parts: tuple[Part, ...] = ()
    messages: tuple[Mapping[str, Any], ...] = ()  # of a conversation: role, content


class Texts(NamedTuple):
    name: str  # what `load_texts` was given
    train: tuple[Example, ...]
    test: tuple[Example, ...]
    classes: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # names that parts may have
    marks: tuple[str, ...] = ()  # words that are one symbol each: <de>
