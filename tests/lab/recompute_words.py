"""Lists of names behind a word, for recompute.py: each name is what the word says."""

import re
from typing import Any


def check(checker: Any, text: str) -> None:
    """Lists of names after a word, and of subjects in the sentence that is short."""
    if text.startswith("In short, "):
        for part in text.removeprefix("In short, ").rstrip(".").split("; "):
            word, _, names = part.partition(": ")
            for subject in names_in(names):
                checker.same(text, f"{subject}: {word}", holds(checker, subject, word), True)
    own = {"Not decided": "not decided", "not decided": "not decided"}
    for word, names in re.findall(r"(?:^|; )(Not decided|not decided): ([^;]*?)[.;]", text + ";"):
        for name in [] if text.startswith("In short") else names_in(names):
            if name in checker.factors:
                checker.same(text, f"{name} in the list", checker.added(name)["word"], own[word])


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


def names_in(listed: str) -> list[str]:
    """Of "a, b and c", "a, b, c and 3 more"."""
    listed = re.sub(r" and \d+ more$", "", listed)
    first, _, last = listed.rpartition(" and ")
    return [name for name in [*first.split(", "), last] if name]
