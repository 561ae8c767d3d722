"""New inputs for every reader, and properties of what is written and read back. A million of them: make fuzz."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import GlassformerError
from glassformer.lab.plan import parse, plan_names, plan_text
from glassformer.lab.plan_text import plan_text as written
from glassformer.lab.record import Record
from glassformer.lab.record import parse as parse_record
from glassformer.reading import parse_toml
from glassformer.train.presets import preset, preset_names
from glassformer.train.recipe import Recipe
from glassformer.train.settings import from_plain, must_survive, to_plain, to_toml, with_change, with_changes

from .readers import READERS

ROOT = Path(__file__).parents[2]

texts = st.text(st.characters(exclude_categories=["Cs"]))  # no half characters
numbers = st.floats(allow_nan=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def names_of(value: Any, name: str = "") -> list[str]:
    """Dotted names of all settings."""
    if not isinstance(value, dict):
        return [name]
    return [one for key, inner in value.items() for one in names_of(inner, f"{name}.{key}".lstrip("."))]


RECIPES = {name: preset(name) for name in preset_names()}
SETTINGS = [(name, place) for name, recipe in RECIPES.items() for place in names_of(to_plain(recipe))]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SETTINGS), plain)
def test_any_value_of_any_setting_is_refused_or_read_back(place: tuple[str, str], value: Any) -> None:
    name, setting = place
    try:
        recipe = with_change(RECIPES[name], setting, value, setting)
        must_survive(recipe)
    except GlassformerError:
        return
    assert from_plain(Recipe, parse_toml(to_toml(to_plain(recipe)), "recipe")) == recipe


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(SETTINGS), st.text())
def test_any_change_on_the_command_line(place: tuple[str, str], text: str) -> None:
    name, setting = place
    for change in (f"{setting}={text}", text):
        try:
            must_survive(with_changes(RECIPES[name], [change]))
        except GlassformerError:
            continue


@settings(max_examples=100, deadline=None)
@given(texts, st.lists(numbers, max_size=3), st.none() | numbers, st.integers(0, 1 << 62))
def test_a_record_is_read_back(text: str, losses: list[float], test: float | None, seed: int) -> None:
    record = Record(text, seed, text, tuple(losses), (), test, engine=text, inside={text: 0.5})
    assert parse_record(json.dumps(asdict(record)).encode()) == record


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(plan_names()), texts, texts, numbers)
def test_a_plan_is_read_back(name: str, question: str, factor: str, lr: float) -> None:
    plan = parse(plan_text(name), name)
    first = replace(plan.factors[0], name=factor, hypothesis=question, changes={"optimiser.lr": lr})
    try:
        changed = replace(plan, question=question, factors=(first, *plan.factors[1:]))
        text = written(changed)
    except GlassformerError:
        return
    assert replace(parse(text, name), text="") == replace(changed, text="")


def test_damaged_files_for_every_reader() -> None:
    """In processes of their own, which may hang or be killed."""
    command = [sys.executable, "-m", "tests.fuzz.fuzz", "--count", "2000", "--jobs", "2", "--seed", "7", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert sum(found["counts"].values()) == 2000
    assert found["counts"].keys() == READERS.keys()
