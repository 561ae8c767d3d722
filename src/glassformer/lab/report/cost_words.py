"""What accuracy costs, in words and plain values."""

from collections.abc import Callable
from typing import Any

from glassformer.lab.pareto import Front, Point, fronts
from glassformer.lab.plan import MAIN
from glassformer.lab.report.dose_words import score_label, value
from glassformer.lab.report.numbers import interval_of, percent
from glassformer.lab.scaling import Law, laws
from glassformer.lab.study import Study, Summary

ABOUT = (
    "Every cell by what it costs. Dominated: another one costs no more and is surely better (paired t test over seeds, "
    "p at most 0.05 after Holm over all such pairs). Front: not dominated, and nothing that costs no more has a better "
    "mean. Undecided: something that costs no more has a better mean, but not surely."
)
DRAWN = (
    f"{ABOUT} Discs with a number are the front, and stand in the table; rings are undecided, grey dots dominated. "
    "Percentages are drawn by their distance from 100 %, on a logarithmic axis."
)
SIZES = (
    "Numbers that change how many parameters N there are: the mean error with its 95 % interval, and error = a · N^-b "
    "+ c fitted to the means. The power b, and c where four sizes or more tell it from zero, have 95 % intervals by "
    "drawing the seeds again."
)
NONE = "Fewer than two cells differ in what they cost."


def main_fronts(study: Study) -> list[Front]:
    """Of the main question."""
    return [one for one in fronts(study) if one.group == MAIN]


def kept(found: list[Front]) -> list[Summary]:
    """The cells that are on some front, by their first cost."""
    there = {one.summary.cell.key: one.summary for front in found for one in front.points if one.standing == "front"}
    return sorted(there.values(), key=lambda one: (point_of(found[0], one).cost, one.mean))


def cost_rows(found: list[Front]) -> tuple[list[str], list[list[tuple[str, str]]]]:
    """A table of the cells on some front: head, and rows of words, each with how the cell stands by that cost."""
    head = ["", "cell", "score", "95 %", *(front.about for front in found)]
    rows = []
    for number, summary in enumerate(kept(found), 1):
        row = [(word, "") for word in (str(number), summary.cell.title, percent(summary), interval_of(summary))]
        points = [(front, point_of(front, summary)) for front in found]
        rows.append([*row, *((cost(front, point.cost), point.standing) for front, point in points)])
    return head, rows


def point_of(front: Front, summary: Summary) -> Point:
    return next(one for one in front.points if one.summary.cell.key == summary.cell.key)


def cost(front: Front, amount: float) -> str:
    return f"{amount:.3g} s" if front.cost == "seconds" else f"{amount:,.0f}"


def law_sentence(one: Law) -> str:
    """What may be said of how the error falls with size."""
    sizes, low, high = len(one.sizes), *(f"{end:.2f}" for end in one.b_between)
    start = f"With {one.dose.setting}, {sizes} sizes from {one.sizes[0]:,.0f} to {one.sizes[-1]:,.0f} parameters"
    if not one.falls:
        return f"{start}: the error does not surely fall (power {one.b:.2f} [{low}, {high}]), and no law is claimed."
    if one.offset and one.c_between:
        least, most = (value(end) for end in one.c_between)
        return (
            f"{start}: {one.kind} = {value(one.a)} · N^-{one.b:.2f} + {value(one.c)}, the power within [{low}, {high}] "
            f"and what no size removes within [{least}, {most}]."
        )
    why = "three sizes cannot tell" if one.c_between is None else "these sizes and seeds cannot tell"
    return (
        f"{start}: {one.kind} = {value(one.a)} · N^-{one.b:.2f}, the power within [{low}, {high}]; {why} whether some "
        "of it stays at any size (the offset is not identifiable), so do not extrapolate."
    )


def cost_markdown(study: Study, table: Callable[..., str], paragraph: Callable[[str], str]) -> list[str]:
    found = main_fronts(study)
    parts = ["## What it costs", ABOUT if found else NONE]
    if found:
        head, rows = cost_rows(found)
        words = [[f"{word} ({standing})" if standing else word for word, standing in row] for row in rows]
        parts += [f"The cells that are on some front, by {score_label(study, MAIN)}:", table(head, words, 2)]
    fitted = [paragraph(law_sentence(one)) for one in laws(study)]
    return [*parts, *(["## Error and size", SIZES, *fitted] if fitted else [])]


def plain(study: Study) -> dict[str, Any]:
    return {"fronts": [plain_front(one) for one in fronts(study)], "scaling": [plain_law(one) for one in laws(study)]}


def plain_front(one: Front) -> dict[str, Any]:
    points = [
        {"cell": p.summary.cell.key, "cost": p.cost, "standing": p.standing, "dominated_by": p.dominated_by}
        for p in one.points
    ]
    return {"cost": one.cost, "counted": one.about, "group": one.group, "pairs_tested": one.pairs, "points": points}


def plain_law(one: Law) -> dict[str, Any]:
    return {
        "setting": one.dose.setting,
        "group": one.dose.group,
        "parameters": one.sizes.tolist(),
        "errors": one.errors.tolist(),
        "a": one.a,
        "b": one.b,
        "c": one.c,
        "b_interval": list(one.b_between),
        "c_interval": list(one.c_between) if one.c_between else None,
        "offset_identifiable": one.offset,
        "falls": one.falls,
        "sentence": law_sentence(one),
    }
