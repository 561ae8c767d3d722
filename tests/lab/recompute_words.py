"""Lists of names behind a word, for recompute.py: each name is what the word says."""

import re
from collections.abc import Iterable
from typing import Any


def check(checker: Any, text: str) -> None:
    """Lists of names after a word, and of subjects in the sentence that is short."""
    if text.startswith("In short, "):
        for part in text.removeprefix("In short, ").rstrip(".").split("; "):
            word, _, names = part.partition(": ")
            for subject in names_in(names, {one["subject"] for one in checker.factors.values()}):
                checker.same(text, f"{subject}: {word}", holds(checker, subject, word), True)
    for word, names in re.findall(r"(?:^|; )(Not decided|not decided): ([^;]*?)(?:;|\.$)", text):
        for name in [] if text.startswith("In short") else names_in(names, checker.factors):
            said = checker.added(name)["word"] if name in checker.factors else "no factor"
            checker.same(text, f"{name} in the list", said, word.lower())


def holds(checker: Any, subject: str, word: str) -> bool:
    names = {one["name"] for one in checker.factors.values() if one["subject"] == subject and not one["group"]}
    names -= {name for name in names if checker.factors[name]["comparator"]}
    alone = [
        checker.word(one) for one in checker.json["findings"] if one["kind"] == "add" and one["factors"][0] in names
    ]
    top = [checker.word(one) for one in checker.json["findings"] if one["kind"] == "top" and one["factors"][0] in names]
    helps = "explains" in alone or "contributes" in alone
    return {
        "what explains it": "explains" in alone,
        "what contributes": helps and "explains" not in alone,
        "what contributes on top of that": not helps and ("explains" in top or "contributes" in top),
        "not decided": set(alone) == {"not decided"},
    }.get(word, set(alone) == {"no effect"})


def names_in(listed: str, known: Iterable[str]) -> list[str]:
    """Of "a, b and c", "a, b, c and 3 more"; a name may have an "and" of its own."""
    rest, found = re.sub(r" and \d+ more$", "", listed), []
    while rest:
        name = max((one for one in known if re.match(rf"{re.escape(one)}(, | and |$)", rest)), key=len, default="")
        if not name:
            return [*found, rest]  # nobody's name: it holds no word
        found.append(name)
        rest = re.sub(r"^(, | and )", "", rest[len(name) :])
    return found
