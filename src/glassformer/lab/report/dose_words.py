"""Dose-response in words and plain values: one sentence a curve, which follows from where the optimum lies."""

from collections.abc import Callable
from typing import Any

from glassformer.lab.dose_response import Dose, doses
from glassformer.lab.report.facts import measure_of
from glassformer.lab.report.numbers import rounded
from glassformer.lab.study import Study

ABOUT = (
    "Numbers that were tried at three values or more, everything else as it was. The optimum is the vertex of the "
    "parabola through the best value and its two neighbours (over the logarithm where values spread over a factor of "
    "three or more), its 95 % interval is found by drawing the seeds again. Where the best value is the first or the "
    "last, or the interval reaches one of them, nothing is known of what lies beyond."
)
DRAWN = (
    f"{ABOUT} Thin lines are seeds, the mark is their mean with its 95 % interval; shaded, where the optimum may lie."
)
NONE = "No number was tried at three values or more, so there is no curve."


def sentence(one: Dose) -> str:
    low, high = (value(end) for end in one.between)
    if one.place == "open":
        return f"No optimum is told: its interval, {low} to {high}, spans all that was tried."
    best = value(one.values[one.best])
    if one.place != "inside":
        word, side = ("smallest", f"up to {high}") if one.place == "first" else ("largest", f"from {low} on")
        tried = "" if low == high else f" (95 %: {side})"
        return f"At the edge: {best} is the {word} value tried, and the optimum may lie beyond{tried}."
    said = f"Best at {value(one.optimum)} [{low}, {high}]"
    edges = [
        word
        for word, reached in (
            ("smallest", one.between[0] <= one.values[0]),
            ("largest", one.between[1] >= one.values[-1]),
        )
        if reached
    ]
    if edges:
        return f"{said}; the interval reaches the {' and the '.join(edges)} value tried: the optimum may lie beyond."
    return f"{said}."


def value(number: float) -> str:
    return rounded(float(number), 3)


def title(one: Dose) -> str:
    along = f" (with {', '.join(one.along)})" if one.along else ""
    return f"{one.setting}{along}"


def reference(one: Dose) -> str:
    """What it was changed in."""
    return f"{one.on}, {one.group}" if one.group else one.on


def score_label(study: Study, group: str) -> str:
    """What is on the axis."""
    suffix = study.plan.metric.suffix
    return measure_of(study, group) + (" in percent" if suffix == "%" else f" in {suffix}" if suffix else "")


def dose_markdown(study: Study, table: Callable[..., str], paragraph: Callable[[str], str]) -> list[str]:
    found = doses(study)
    parts = ["## How much of it", ABOUT if found else NONE]
    for one in found:
        head = ["", *map(value, one.values)]
        ends = zip(one.low, one.high, strict=True)
        rows = [["mean", *(f"{mean:.4g}" for mean in one.means)], ["95 %", *(f"[{a:.4g}, {b:.4g}]" for a, b in ends)]]
        where = f"{score_label(study, one.group)}, changed in {reference(one)}, {len(one.seeds)} seeds"
        parts += [paragraph(f"{title(one)}: {where}. {sentence(one)}"), table(head, rows, 1)]
    return parts


def plain(one: Dose) -> dict[str, Any]:
    return {
        "setting": one.setting,
        "subject": one.name,
        "along": list(one.along),
        "changed_in": one.on,
        "group": one.group,
        "values": one.values.tolist(),
        "cells": [summary.cell.key for summary in one.summaries],
        "seeds": list(one.seeds),
        "means": one.means.tolist(),
        "low": one.low.tolist(),
        "high": one.high.tolist(),
        "scale": "log" if one.log else "linear",
        "optimum": one.optimum if one.place == "inside" else None,
        "interval": list(one.between),
        "place": one.place,
        "sentence": sentence(one),
    }
