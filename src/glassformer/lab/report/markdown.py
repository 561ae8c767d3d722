"""report.md: the same in Markdown, in tables instead of pictures."""

import re
from collections.abc import Sequence

from glassformer.lab.report import facts
from glassformer.lab.report.cell_table import head as cell_head
from glassformer.lab.report.cell_table import values
from glassformer.lab.report.cost_words import cost_markdown
from glassformer.lab.report.dose_words import dose_markdown
from glassformer.lab.report.in_words import effect_of, to_target
from glassformer.lab.report.learning import learning_curves
from glassformer.lab.report.names_inside import about_inside
from glassformer.lab.report.numbers import count, duration, mean_and_spread, ranks
from glassformer.lab.report.opening import facts as opening_facts
from glassformer.lab.study import Study

SPECIAL = re.compile(r"([\\`*_|~$]|\](?=[\[(:]))")
AT_THE_START = re.compile(r"^(?=[#+=-])|^(\d+)(?=[.)])")
ROWS = 12  # of a learning curve


def markdown(study: Study) -> str:
    plan = study.plan
    parts = [
        f"# {safe(plan.question or plan.name)}",
        *map(paragraph, facts.answer(study)),
        "\n".join(f"- {name}: **{safe(value)}**{said(more)}" for name, value, *more in opening_facts(study)),
        *causes(study),
        *curves(study),
        *dose_markdown(study, table, paragraph),
        *both_ways(study),
        *pairs(study),
        *cost_markdown(study, table, paragraph),
        "## Every cell",
        f"Mean ± standard deviation over seeds: {facts.level_of(study)}.",
        table(cell_head(study), [[words for words, _ in values(study, summary)] for summary in study.cells], 1),
        *inside(study),
        "## Notes",
        "\n".join(f"- {paragraph(note)}" for note in (*study.warnings, *study.notes))
        or "Nothing failed and nothing was skipped.",
        *repeat(study),
    ]
    return "\n\n".join(parts) + "\n"


def said(more: Sequence[str]) -> str:
    known = "; ".join(one for one in more if one)
    return f" ({safe(known)})" if known else ""


def causes(study: Study) -> list[str]:
    parts = ["## What it is, and what it is not"]
    lines = facts.ranked(study)
    parts.append(lines_table(study, lines) if lines else "No factor has been compared with the baseline yet.")
    if any(one.tied for one in lines):
        parts.append(f"= {facts.TIE}")
    if others := facts.comparators(study):
        parts += ["For comparison, not ranked:", lines_table(study, others)]
    for title, about, own, _ in facts.apart(study):
        parts += [f"### {safe(title)}", *([paragraph(about)] if about else []), lines_table(study, own)]
    return parts


def lines_table(study: Study, lines: Sequence[facts.Line]) -> str:
    head = ["factor", "hypothesis", study.plan.metric.unit, facts.coverage(study), "d", "p", "p (Holm)"]
    head += ["epochs to target", "verdict", "evidence"]
    rows = []
    for one in lines:
        numbers = [*effect_of(one.finding), to_target(one.finding)]
        rows.append([one.name, one.hypothesis, *numbers, one.finding.word, one.finding.evidence])
    if not any(one.rank for one in lines):
        return table(head, rows, 2, 2)
    own = [ranks(one.rank) + (" =" if one.tied else "") for one in lines]
    return table(["ranks", *head], [[rank, *row] for rank, row in zip(own, rows, strict=True)], 3, 2)


def curves(study: Study) -> list[str]:
    found = learning_curves(study)
    if not found:
        return [
            "## How they learn",
            f"No validation {study.plan.metric.name} was recorded by epoch, so there are no curves.",
        ]
    last = max(len(curve.mean) for curve in found)
    epochs = sorted({round(1 + i * (last - 1) / (ROWS - 1)) for i in range(ROWS)})
    rows = []
    for epoch in epochs:
        at = [(c.mean[epoch - 1], (c.high - c.low)[epoch - 1] / 2) if epoch <= len(c.mean) else None for c in found]
        rows.append([str(epoch), *("" if one is None else f"{one[0]:.1f} ± {one[1]:.1f}" for one in at)])
    about = f"Validation {facts.level_of(study)} by epoch: mean over seeds ± half of its 95 % interval."
    return ["## How they learn", about, table(["epoch", *(curve.label for curve in found)], rows, 1)]


def both_ways(study: Study) -> list[str]:
    title, found = "## Added alone, and taken away from the best", facts.both_ways(study)
    if not found:
        return [title, "No factor was taken away from a best combination."]
    sure = facts.coverage(study)
    head = ("factor", "alone", sure, "with all others", sure, "verdict there")
    rows = [
        [one.name, *effect_of(one.add.finding)[:2], *effect_of(one.remove.finding)[:2], one.remove.finding.word]
        for one in found
    ]
    return [title, table(head, rows, 1, 1)]


def pairs(study: Study) -> list[str]:
    title, found = "## Two at a time", facts.pairs(study)
    if not found:
        return [title, "No two factors were tried together."]
    head = ("pair", f"beyond the sum, {found[0].unit}", facts.coverage(study), "d", "p", "p (Holm)", "verdict")
    return [title, table(head, [[" + ".join(o.comparison.factors), *effect_of(o), o.word] for o in found], 1, 1)]


def inside(study: Study) -> list[str]:
    shown, rows = facts.inside(study)
    if not rows:
        return ["## What changed inside", "The trained models were not looked into."]
    body = [[about_inside(name)[0], *map(mean_and_spread, columns)] for name, columns in rows]
    return ["## What changed inside", table(["measured", *(one.label for one in shown)], body, 1)]


def repeat(study: Study) -> list[str]:
    head = ("machine", "engine", "runs", "failed", "time")
    rows = [
        [one.name, ", ".join(one.engines), count(one.runs), count(one.failed), duration(one.seconds)]
        for one in facts.machines(study)
    ]
    parts = ["## What ran, and how to repeat it", f"{duration(study.seconds)} of computing over all runs."]
    parts += [table(head, rows, 2)] if rows else []
    parts += [fenced(study.command, "sh")] if study.command else []
    return [*parts, *(["The plan:", fenced(study.plan.text, "toml")] if study.plan.text else [])]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int, right: int = 0) -> str:
    """The first `left` and the last `right` columns are words, the others numbers."""
    words = [i < left or i >= len(head) - right for i in range(len(head))]
    ruled = [":--" if word else "--:" for word in words]
    return "\n".join(
        f"| {' | '.join(row)} |" for row in ([safe(cell) for cell in head], ruled, *(map(safe, row) for row in rows))
    )


def safe(words: str) -> str:
    r"""Shown as it is: no Markdown, no HTML, no second line.

    >>> print(safe("a|b <i>*x* [1, 2] [c](d)"))
    a\|b &lt;i&gt;\*x\* [1, 2] [c\](d)
    """
    words = " ".join(words.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return SPECIAL.sub(r"\\\1", words)


def paragraph(words: str) -> str:
    r"""It does not become a heading or a list, either.

    >>> print(paragraph("# a"), paragraph("1. b"))
    \# a 1\. b
    """
    return AT_THE_START.sub(r"\1\\", safe(words))


def fenced(words: str, kind: str) -> str:
    """In a fence longer than any inside."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", words)), default=0))
    return f"{fence}{kind}\n{words.rstrip()}\n{fence}"
