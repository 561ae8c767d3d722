"""The shipped study, recomputed by a program that shares nothing with the lab; and that this program sees mistakes."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import recompute_beside, recompute_looks
from .recompute import Checker

STUDY = Path(__file__).parents[2] / "studies/attention-accuracy"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(STUDY)


def test_every_number_and_every_sentence_follows_from_the_runs(checker: Checker) -> None:
    assert checker.check() == []
    assert checker.checked > 1000


def test_it_shares_nothing_with_the_lab() -> None:
    files = sorted(Path(__file__).parent.glob("recompute*.py"))
    imported = {name for one in files for name in re.findall(r"^(?:import|from) (\S+)", one.read_text(), re.MULTILINE)}
    imported -= {".", *(f".{one.stem}" for one in files)}
    assert len(files) == 5
    assert imported <= {
        "collections.abc",
        "json",
        "math",
        "re",
        "sys",
        "tomllib",
        "functools",
        "itertools",
        "pathlib",
        "typing",
    } | {
        "numpy",
        "scipy",
    }


def other_verdict(study: dict[str, Any]) -> None:
    study["findings"][10]["word"] = "hurts"


def narrower(study: dict[str, Any]) -> None:
    study["findings"][10]["effect"]["low"] += 0.01


def a_tie_that_is_none(study: dict[str, Any]) -> None:
    claim = next(one for s in study["sentences"] for one in s["claims"] if one["where"] == "rank" and not one["group"])
    claim["factors"] = [study["ranks"][0]["factor"], study["ranks"][-1]["factor"]]


def wrong_number(study: dict[str, Any]) -> None:
    sentence = explaining(study)
    sentence["text"] = re.sub(r"\(\+(\d+)", lambda found: f"(+{int(found[1]) + 1}", sentence["text"], count=1)


def half_of_the_gap(study: dict[str, Any]) -> None:
    """What the first report said of residuals."""
    one = next(f for f in study["findings"] if f["factors"] == ["residuals"] and f["kind"] == "add")
    numbers = {key: one["effect"][key] for key in ("mean", "low", "high", "p_holm")}
    claim = {"kind": "explains", "factors": ["residuals"], "numbers": numbers, "where": "add", "group": ""}
    explaining(study)["claims"].append(claim)


def explaining(study: dict[str, Any]) -> dict[str, Any]:
    return next(one for one in study["sentences"] if one["text"].startswith("What explains it"))


@pytest.mark.parametrize("spoil", [other_verdict, narrower, a_tie_that_is_none, wrong_number, half_of_the_gap])
def test_it_sees_what_does_not_follow(checker: Checker, spoil: Callable[[dict[str, Any]], None]) -> None:
    spoilt = copy.copy(checker)
    spoilt.json, spoilt.problems = copy.deepcopy(checker.json), []
    spoil(spoilt.json)
    spoilt.check_finding(spoilt.json["findings"][10])
    for one in spoilt.json["sentences"]:
        spoilt.check_sentence(one)
    assert spoilt.problems


def another_standing(study: dict[str, Any]) -> None:
    point = study["costs"]["fronts"][0]["points"][-1]
    point["standing"] = "front" if point["standing"] != "front" else "dominated"


def an_optimum_that_is_told(study: dict[str, Any]) -> None:
    study["dose_response"][0]["interval"][0] *= 3


def a_power_that_is_none(study: dict[str, Any]) -> None:
    study["costs"]["scaling"][0]["b"] += 0.2


def a_level_that_was_spent(study: dict[str, Any]) -> None:
    study["look"]["level"] /= 2


@pytest.mark.parametrize(
    "spoil", [another_standing, an_optimum_that_is_told, a_power_that_is_none, a_level_that_was_spent]
)
def test_it_sees_what_does_not_follow_beside(checker: Checker, spoil: Callable[[dict[str, Any]], None]) -> None:
    spoilt = copy.copy(checker)
    spoilt.json, spoilt.problems = copy.deepcopy(checker.json), []
    spoil(spoilt.json)
    recompute_looks.check(spoilt)
    recompute_beside.check(spoilt)
    assert spoilt.problems
