"""The parts of a plan: factors, sweeps of a number, groups; how each is read, and what is refused."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from glassformer.errors import SettingError
from glassformer.lab.looks import evenly
from glassformer.names import nearest
from glassformer.train.recipe import MOST_SEEDS

Measure = Literal["validation", "test"]
Match = Literal["", "steps", "compute", "parameters"]
Grid = Mapping[str, tuple[Any, ...]]  # setting -> values to choose from
MAIN = ""  # the group of factors that name none
MOST_POINTS = 64  # of a grid


@dataclass(frozen=True)
class Factor:
    """One change, and what it would mean if it helped."""

    name: str
    changes: Mapping[str, Any]  # {"model.start": "sinusoidal"}
    hypothesis: str = ""
    subject: str = ""
    group: str = MAIN
    on: tuple[str, ...] = ()  # factors that its reference has, too
    comparator: bool = False  # another model altogether: shown beside the others, never ranked or combined
    combine: bool = True  # False: ranked, but kept out of pairs and of the best: too slow there, or not a choice
    tune: Grid = field(default_factory=dict)  # values of its own, in place of the group's: as many


@dataclass(frozen=True)
class Sweep:
    """A number at several values: levels of one subject, and a dose-response curve."""

    name: str  # the subject of its factors
    setting: str  # "optimiser.lr"
    values: tuple[float, ...]  # ascending
    factors: tuple[str, ...]  # of each value; "": the baseline has it
    hypothesis: str = ""
    group: str = MAIN
    combine: bool = True
    widen: bool = False  # where the best value is the first or the last, values beyond it are tried, too


@dataclass(frozen=True)
class Group:
    name: str
    about: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    measure: Measure = "validation"
    tune: Grid = field(default_factory=dict)  # each arm takes the value that is best for it, by validation
    match: Match = ""  # arms are given the baseline's number of updates, multiply-adds or parameters


def parse_factor(plan: str, name: str, plain: Any) -> Factor:
    where = f"{plan}: factor {name!r}"
    if not isinstance(plain, dict):
        raise SettingError(f"{where}: {plain!r} came, expected a table: [factors.{name}], set = {{ … }}")
    must_be_known(where, plain, {"set", *(f.name for f in fields(Factor) if f.name not in ("name", "changes"))})
    must_be(where, plain, hypothesis=str, subject=str, group=str, comparator=bool, combine=bool)
    changes = table(where, plain, "set")
    if not changes:
        raise SettingError(f"{where}: it changes nothing; say what: set = {{ 'model.width' = 64 }}")
    on = [plain["on"]] if isinstance(plain.get("on"), str) else plain.get("on", [])
    if not isinstance(on, list) or not all(isinstance(one, str) for one in on):
        raise SettingError(f"{where}: on is {on!r}, expected names of factors: on = ['wide']")
    rest = {key: value for key, value in plain.items() if key not in ("set", "on", "tune")}
    return Factor(name=name, changes=changes, on=tuple(on), tune=parse_grid(where, plain), **rest)


def parse_sweep(plan: str, name: str, plain: Any, base: Any) -> Sweep:
    """`base`: the value of a setting in the baseline, or None where it has none."""
    where = f"{plan}: sweep {name!r}"
    if not isinstance(plain, dict):
        raise SettingError(f"{where}: {plain!r} came, expected a table: [sweeps.{name}], setting = …, values = […]")
    must_be_known(where, plain, {"setting", "values", "hypothesis", "group", "combine", "widen"})
    must_be(where, plain, setting=str, hypothesis=str, group=str, combine=bool, widen=bool)
    values = plain.get("values")
    if not plain.get("setting"):
        raise SettingError(f'{where}: it names no setting; write setting = "optimiser.lr"')
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values) or len(values) < 2:
        raise SettingError(f"{where}: values is {values!r}, expected two numbers or more: values = [0.01, 0.03, 0.1]")
    if len(set(values)) != len(values):
        raise SettingError(f"{where}: values {values} came, expected each once")
    rest = {key: value for key, value in plain.items() if key not in ("setting", "values")}
    return sweep_of(name, plain["setting"], values, base(plain["setting"]), **rest)


def sweep_of(name: str, setting: str, values: Iterable[float], base: Any, **more: Any) -> Sweep:
    ordered = tuple(sorted(values))
    factors = tuple("" if value == base else f"{name} {value:g}" for value in ordered)
    return Sweep(name, setting, ordered, factors, **more)


def factors_of(sweep: Sweep) -> list[Factor]:
    return [
        Factor(
            name,
            {sweep.setting: value},
            hypothesis=sweep.hypothesis,
            subject=sweep.name,
            group=sweep.group,
            combine=sweep.combine,
        )
        for name, value in zip(sweep.factors, sweep.values, strict=True)
        if name
    ]


def parse_group(plan: str, name: str, plain: Any) -> Group:
    where = f"{plan}: group {name!r}"
    if not isinstance(plain, dict):
        raise SettingError(f"{where}: {plain!r} came, expected a table: [groups.{name}], measure = 'test'")
    must_be_known(where, plain, {"set", "measure", "about", "tune", "match"})
    must_be(where, plain, about=str)
    measure = plain.get("measure", "validation")
    if measure not in ("validation", "test"):
        raise SettingError(f"{where}: measure is {measure!r}, expected validation or test")
    return Group(
        name=name,
        about=plain.get("about", ""),
        changes=table(where, plain, "set"),
        measure=measure,
        tune=parse_grid(where, plain),
        match=parse_match(where, plain),
    )


def parse_grid(where: str, plain: dict[str, Any]) -> Grid:
    grid = table(where, plain, "tune")
    for setting, values in grid.items():
        if not isinstance(values, list) or not values:
            raise SettingError(f"{where}: tune: {setting} is {values!r}, expected values: [0.001, 0.01, 0.1]")
    points = points_of(grid)
    if len(points) > MOST_POINTS:
        raise SettingError(f"{where}: tune has {len(points)} points, expected {MOST_POINTS} at most; take fewer values")
    return {setting: tuple(values) for setting, values in grid.items()}


def points_of(grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of a grid's values."""
    points: list[dict[str, Any]] = [{}]
    for setting, values in grid.items():
        points = [{**point, setting: value} for point in points for value in values]
    return points


def parse_match(where: str, plain: dict[str, Any]) -> Match:
    match = plain.get("match", "")
    if match not in ("", "steps", "compute", "parameters"):
        raise SettingError(f"{where}: match is {match!r}, expected steps, compute or parameters")
    return match


def parse_seeds(name: str, given: Any) -> tuple[int, ...]:
    if isinstance(given, bool) or not isinstance(given, int | list):
        raise SettingError(f"{name}: seeds is {given!r}, expected how many, or a list of them")
    if (given if isinstance(given, int) else len(given)) > MOST_SEEDS:
        raise SettingError(f"{name}: more seeds came than {MOST_SEEDS:,}, and a few tens decide nearly everything")
    if isinstance(given, int):
        return tuple(range(1, given + 1))
    if not all(type(seed) is int and 0 <= seed < 1 << 63 for seed in given):
        raise SettingError(f"{name}: seeds {given} came, expected whole numbers from 0 to below 2^63")
    return tuple(given)


def parse_looks(name: str, given: Any, seeds: int, fewest: int) -> tuple[int, ...]:
    """After how many seeds: so many looks, evenly, from where anything can be decided; or a list. One is at the end."""
    if type(given) is int and 1 <= given <= seeds:
        return evenly(given, seeds, fewest)
    if isinstance(given, list) and given and all(type(look) is int and 1 <= look <= seeds for look in given):
        return tuple(sorted({*given, seeds}))
    raise SettingError(
        f"{name}: looks is {given!r}, expected how often the study is looked at, 1 to {seeds}, or after how many "
        f"seeds: looks = [{max(1, seeds // 2)}, {seeds}]"
    )


def table(where: str, plain: dict[str, Any], key: str) -> dict[str, Any]:
    value = plain.get(key, {})
    if not isinstance(value, dict):
        raise SettingError(f"{where}: {key} is {value!r}, expected a table")
    return value


def must_be(where: str, plain: dict[str, Any], **kinds: type) -> None:
    """Each of the kind named, where it is there at all; a whole number will do for a number, and true is none."""
    words = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
    for key, kind in kinds.items():
        value = plain.get(key, kind())
        if not (type(value) is kind or (kind is float and type(value) is int)):
            raise SettingError(f"{where}: {key} is {value!r}, expected {words[kind]}")


def must_be_known(where: str, plain: Iterable[str], known: Iterable[str]) -> None:
    known = sorted(known)
    for key in plain:
        if key not in known:
            raise SettingError(f"{where}: no setting is called {key!r}{nearest(key, known)}; known: {', '.join(known)}")
