"""results.json: everything, for programs. What is no finite number is null."""

import json
import math
from dataclasses import asdict
from typing import Any

from glassformer.lab.claims import RULES, said
from glassformer.lab.dose_response import doses
from glassformer.lab.report import cost_words, dose_words
from glassformer.lab.report.facts import key_of, measure_of, test_of
from glassformer.lab.study import Finding, Sentence, Study, Summary
from glassformer.train.settings import to_plain

FORMAT = 2


def as_json(study: Study) -> str:
    """One finding, one cell a line: a version control can tell what changed."""
    parts = (f"{dumped(name)}: {lines(value)}" for name, value in finite(content(study)).items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def lines(value: Any) -> str:
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return dumped(value)
    return "[\n" + ",\n".join(f"  {dumped(one)}" for one in value) + "\n]"


def dumped(value: Any) -> str:
    return json.dumps(value, allow_nan=False, default=str, ensure_ascii=False)


def content(study: Study) -> dict[str, Any]:
    plan = study.plan
    return {
        "format": FORMAT,
        "name": plan.name,
        "question": plan.question,
        "answer": study.answer,
        "sentences": [sentence(one) for one in study.sentences],
        "rules": RULES,
        "warnings": list(study.warnings),
        "metric": asdict(plan.metric),
        "look": asdict(study.look),
        "target": plan.target,
        "seeds": list(plan.seeds),
        "baseline": key_of(study.baseline),
        "best": key_of(study.best) if study.best else None,
        "factors": [asdict(factor) | {"subject": plan.subject_of(factor)} for factor in plan.factors],
        "ranks": [asdict(rank) for rank in study.ranks],
        "group_ranks": {name: [asdict(one) for one in ranks] for name, ranks in study.group_ranks.items()},
        "findings": [finding(one) for one in study.findings],
        "tuned": [asdict(one) | {"points": [point._asdict() for point in one.points]} for one in study.tuned],
        "dose_response": [dose_words.plain(one) for one in doses(study)],
        "costs": cost_words.plain(study),
        "cells": [cell(study, one) for one in study.cells],
        "notes": list(study.notes),
        "seconds": study.seconds,
        "machines": study.machines,
        "command": study.command,
        "plan": plan.text,
    }


def sentence(one: Sentence) -> dict[str, Any]:
    return {
        "text": one.text,
        "paragraph": one.paragraph,
        "claims": [asdict(claim) | {"said": said(claim)} for claim in one.claims],
    }


def finding(one: Finding) -> dict[str, Any]:
    comparison = one.comparison
    return {
        "kind": comparison.kind,
        "factors": list(comparison.factors),
        "group": comparison.group,
        "without": comparison.without.key,
        "with": comparison.with_.key,
        "effect": asdict(one.effect) if one.effect else None,
        "word": one.word,
        "evidence": one.evidence,
        "failures": one.failures,
        "failing": asdict(one.failing) if one.failing else None,
        "share_of_gap": one.share,
        "margin": one.margin,
        "unit": one.unit,
        "left_out": list(one.left_out),
        "epochs_to_target": dict(zip(("without", "with"), one.to_target, strict=True)),
    }


def cell(study: Study, one: Summary) -> dict[str, Any]:
    return {
        "title": one.cell.title,
        "factors": list(one.cell.factors),
        "group": one.cell.group,
        "key": key_of(one),
        "measure": measure_of(study, one.cell.group),
        "scores": one.scores.tolist(),
        "mean": one.mean,
        "spread": one.spread,
        "low": one.low,
        "high": one.high,
        "failing": one.failing,
        "test": test_of(study, one),
        "recipe": to_plain(one.cell.recipe),
        "records": [asdict(record) for record in one.records],
    }


def finite(value: Any) -> Any:
    """JSON knows neither NaN nor infinity."""
    if isinstance(value, dict):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
