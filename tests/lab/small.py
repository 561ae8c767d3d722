"""Studies that are run in a moment: images of 8x8 in three classes, an MLP, two epochs."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glassformer.lab.plan import Plan, load_plan, parse
from glassformer.lab.record import FILE, Record

from ..train.small import small_data, write_npz

FACTORS = """
[factors.fast]
subject = "rate"
hypothesis = "the learning rate is too small"
set = { "optimiser.lr" = 0.1 }

[factors.batch]
set = { "training.batch" = 5 }
"""
MODEL = 'model = { kind = "mlp", hidden = [5] }'


def text_of_plan(
    folder: Path, factors: str = FACTORS, *, head: str = "seeds = 7", sets: str = "", engine: str = "native"
) -> str:
    """As a user would write it, with the data beside it."""
    data = folder / "small.npz"
    if not data.exists():
        write_npz(data, small_data())
    settings = f'data = "{data}", {MODEL}, optimiser = {{ lr = 0.01 }}, engine = {{ name = "{engine}" }}'
    training = "training = { epochs = 2, batch = 10 }"
    return f"""\
question = "Why?"
{head}

[baseline]
settings = {{ {settings}, {training} }}
set = {{ {sets} }}
{factors}
"""


def small_plan(folder: Path, factors: str = FACTORS, **words: Any) -> Plan:
    return parse(text_of_plan(folder, factors, **words), "small")


def plan_file(folder: Path, factors: str = FACTORS, **words: Any) -> Path:
    file = folder / "why.toml"
    file.write_text(text_of_plan(folder, factors, **words))
    assert load_plan(file)
    return file


def lines_of(study: Path) -> list[dict[str, Any]]:
    """Every line, which must be whole."""
    return [json.loads(line) for line in (study / FILE).read_text().splitlines()]


def numbers_of(study: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """What was found, less the time it took; every cell and seed is there once."""
    lines = lines_of(study)
    twice = [place for place, count in Counter((line["key"], line["seed"]) for line in lines).items() if count > 1]
    assert not twice
    return {(line["key"], line["seed"]): untimed(line) for line in lines}


def untimed(record: Record | dict[str, Any]) -> dict[str, Any]:
    plain = asdict(record) if isinstance(record, Record) else record
    return {name: value for name, value in plain.items() if name not in ("seconds", "compile_seconds")}
