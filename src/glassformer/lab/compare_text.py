"""A comparison in sentences, as a table, and as plain values. No sentence says more than its test."""

import csv
import io
import math
from dataclasses import asdict
from typing import Any

from glassformer.lab.compare import SHARE, Compared, Difference, Score
from glassformer.lab.report.as_csv import word
from glassformer.lab.report.numbers import NONE, p_is, p_value, plain, signed
from glassformer.lab.sample_size import LEVEL, seeds_needed
from glassformer.tables import text_table


def as_text(found: Compared) -> str:
    lines = [heading(found), "", *text_table(*table(found)), ""]
    lines += [sentence(one) for one in found.differences if one.word]
    lines += [scope(found), *found.notes]
    return "\n".join(lines)


def heading(found: Compared) -> str:
    sides = "; ".join(
        side.name + (f" (seeds {', '.join(map(str, side.seeds))})" if len(side.paths) > 1 else "")
        for side in found.sides
    )
    return f"{sides}\non the {found.samples:,} test samples of {', '.join(found.data)}, task {found.task}"


def table(found: Compared) -> tuple[list[str], list[list[str]], int]:
    """Head, rows, and how many columns are words."""
    with_seeds = any(one.seeds for one in found.differences)
    head = ["pair", "score", "first", "second", "difference", "95 % over samples", "p", "p (Holm)"]
    head += ["95 % over seeds", "p", "p (Holm)"] if with_seeds else []
    rows = []
    for one in found.differences:
        row = [f"{one.first}, {one.second}", one.score.name, *(level(one.score, value) for value in one.values)]
        row += [change(one), between(one, one.low, one.high), p_value(one.p), p_value(one.p_holm)]
        if with_seeds:
            row += over_seeds(one)
        rows.append([*row, one.word or NONE])
    return [*head, "second is"], rows, 2


def over_seeds(one: Difference) -> list[str]:
    if one.seeds is None:
        return [NONE, NONE, NONE]
    return [between(one, one.seeds.low, one.seeds.high), p_value(one.seeds.p), p_value(one.p_seeds_holm or 0.0)]


def sentence(one: Difference) -> str:
    """What may be said of a pair by the score that decides."""
    levels = " against ".join(level(one.score, value) for value in reversed(one.values))
    numbers = f"{one.score.name} {levels}, {change(one)}{unit(one.score)} {between(one, one.low, one.high)}"
    said = f"{opening(one)}: {numbers}; {evidence(one)}"
    if one.word in ("better", "worse") and one.p_equivalent_holm is not None and one.p_equivalent_holm <= LEVEL:
        said += f", and the difference is smaller than {margin(one)} (TOST {p_is(one.p_equivalent_holm)})"
    return f"{said}."


def opening(one: Difference) -> str:
    if one.word == "equivalent within the margin":
        return f"{one.first} and {one.second} are equivalent within {margin(one)}"
    if one.word == "not decided":
        return f"Not decided between {one.first} and {one.second}"
    return f"{one.second} is {one.word} than {one.first}"


def evidence(one: Difference) -> str:
    parts = []
    if one.word == "equivalent within the margin":
        parts.append(f"TOST {p_is(one.p_equivalent_holm or 0.0)}")
    if one.only is not None:
        alone = sum(one.only)
        parts.append(
            f"of {alone:,} samples that one alone has right, {one.second} has {one.only[1]:,} (exact McNemar "
            f"{p_is(one.p_holm)})"
        )
    else:
        parts.append(f"over samples {p_is(one.p_holm)} (paired bootstrap)")
    if one.seeds:
        paired = (
            f"{one.seeds.runs[0]} paired seeds"
            if one.seeds.paired
            else "unpaired seeds {} and {}".format(*one.seeds.runs)
        )
        test = "exact sign-flip" if one.seeds.paired else "permutation"
        bounds = between(one, one.seeds.low, one.seeds.high)
        parts.append(f"over {paired} {bounds}, {p_is(one.p_seeds_holm or 0.0)} ({test})")
        if one.word == "not decided" and one.seeds.least_p * one.pairs > LEVEL:
            parts.append(f"so few seeds cannot give less than {p_is(one.seeds.least_p)}: {more_seeds(one)}")
    if one.pairs > 1:
        parts.append(f"p after Holm over {one.pairs} pairs")
    return "; ".join(parts)


def more_seeds(one: Difference) -> str:
    return f"it takes {seeds_needed(one.pairs)} paired ones"


def scope(found: Compared) -> str:
    """What all of this is about."""
    if any(one.seeds for one in found.differences):
        return (
            "A difference of recipes must hold over samples and over seeds; over samples alone it is one of these "
            "weights."
        )
    return (
        "With one run a side this is about these weights, not about their recipes: another seed may turn it round. "
        "Train several seeds of each and compare them with --with."
    )


def level(score: Score, value: float) -> str:
    return f"{value:.2f} %" if score.scale == SHARE else f"{value:.4g}"


def unit(score: Score) -> str:
    return f" {score.unit}" if score.unit else ""


def margin(one: Difference) -> str:
    return f"{one.margin:g}{unit(one.score)}"


def change(one: Difference) -> str:
    return signed(one.mean, places(one))


def between(one: Difference, low: float, high: float) -> str:
    return f"[{plain(low, places(one))}, {plain(high, places(one))}]"


def places(one: Difference) -> int:
    """Two digits of the half width of the interval."""
    half = (one.high - one.low) / 2
    return 2 if half <= 0 or one.score.scale == SHARE else max(2, 1 - math.floor(math.log10(half)))


def as_plain(found: Compared) -> dict[str, Any]:
    return {
        "task": found.task,
        "samples": found.samples,
        "data": list(found.data),
        "by": found.by,
        "sides": [
            {"name": side.name, "runs": [str(path) for path in side.paths], "seeds": list(side.seeds)}
            for side in found.sides
        ],
        "pairs": [plain_of(one) for one in found.differences],
        "notes": list(found.notes),
    }


def plain_of(one: Difference) -> dict[str, Any]:
    """Words only where the score decides."""
    found = {
        **asdict(one),
        "score": one.score.name,
        "unit": one.score.unit,
        "difference": one.mean,
        "family": one.pairs,
    }
    del found["pairs"], found["mean"]
    return {**found, "word": one.word or None, "sentence": sentence(one) if one.word else None}


def as_csv(found: Compared) -> str:
    file = io.StringIO()
    rows = [csv_row(one) for one in found.differences]
    table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return file.getvalue()


def csv_row(one: Difference) -> dict[str, Any]:
    seeds, only = one.seeds, one.only or (None, None)
    return {
        **{"first": word(one.first), "second": word(one.second), "score": one.score.name, "unit": one.score.unit},
        **{"first_value": one.values[0], "second_value": one.values[1], "difference": one.mean},
        **{"low": one.low, "high": one.high, "test": one.test, "p": one.p, "p_holm": one.p_holm},
        **{"only_first": only[0], "only_second": only[1]},
        **{
            "seeds_low": seeds and seeds.low,
            "seeds_high": seeds and seeds.high,
            "seeds_paired": seeds and seeds.paired,
        },
        **{"seeds_p": seeds and seeds.p, "seeds_p_holm": one.p_seeds_holm},
        **{"margin": one.margin, "p_equivalent": one.p_equivalent, "p_equivalent_holm": one.p_equivalent_holm},
        "word": one.word,
    }
