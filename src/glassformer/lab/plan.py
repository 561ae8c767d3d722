"""A plan: the question, a baseline, and factors, each a named change of the recipe with the hypothesis it tests.

question = "Why is the accuracy only 38 %?"
target = 0.85                                  # what would be good enough
seeds = 10                                     # seeds 1 to 10, the same in every cell; nothing: ten, or more for many

[baseline]
preset = "attention-pool"                      # or recipe = "file.toml", or settings = { … }
set = { "training.epochs" = 42 }

[factors."positions sinusoidal"]
hypothesis = "positions start too small for attention to tell places apart"
subject = "positions"                          # of one subject only one can be chosen; nothing: the settings changed
set = { "model.start" = "sinusoidal" }

[factors."rate 0.003, wide"]
on = ["wide"]                                  # compared with the baseline that has this factor already
set = { "optimiser.lr" = 0.003 }

[groups.as-published]                          # a part of the study with a baseline and a measure of its own
measure = "test"                               # nothing: "validation"
set = { "validation.share" = 0.0 }
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from glassformer.data.text_sources import existing
from glassformer.errors import FileError, SettingError, UnknownNameError, at_least
from glassformer.lab.sample_size import seeds_needed, usual_seeds
from glassformer.names import nearest
from glassformer.reading import MOST_TOML, parse_toml, read_text
from glassformer.train.presets import preset, recipe_file
from glassformer.train.recipe import MOST_SEEDS, Recipe
from glassformer.train.resolve import lasting_name
from glassformer.train.settings import from_plain, with_change

Measure = Literal["validation", "test"]
MAIN = ""  # the group of factors that name none
PAIRS = 3
FEWEST = 3  # seeds: with fewer there is no interval worth the name


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


@dataclass(frozen=True)
class Group:
    name: str
    about: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    measure: Measure = "validation"


@dataclass(frozen=True)
class Plan:
    name: str
    question: str
    baseline: Recipe
    factors: tuple[Factor, ...]
    seeds: tuple[int, ...]
    target: float | None = None  # accuracy, 0..1
    groups: tuple[Group, ...] = ()
    pairs: int = PAIRS  # subjects that are crossed with each other: the strongest so many; 0: none
    needs_native: bool = False  # too slow without the native engine: says so
    text: str = ""  # as it was written

    def __post_init__(self) -> None:
        if not self.factors:
            raise SettingError(f"{self.name}: the plan has no factor; write one: [factors.wide], set = {{ … }}")
        if len(set(self.seeds)) != len(self.seeds):
            raise SettingError(f"{self.name}: seeds {list(self.seeds)} came, expected each once")
        if len(self.seeds) < FEWEST:
            raise SettingError(
                f"{self.name}: {len(self.seeds)} seeds came, expected {FEWEST} or more, and to decide about "
                f"{len(self.ranked)} factors {seeds_needed(len(self.ranked))}"
            )
        if self.target is not None and not 0 < self.target <= 1:
            raise SettingError(f"{self.name}: target is {self.target}, expected an accuracy above 0, up to 1")
        at_least(self.name, 0, pairs=self.pairs)
        for factor in self.factors:
            for other in factor.on:
                if other not in self.by_name:
                    raise UnknownNameError(
                        f"{self.name}: factor {factor.name!r} is on {other!r}{nearest(other, self.by_name)}, "
                        f"which is no factor; there are {', '.join(self.by_name)}"
                    )
            self.group(factor.group)

    @cached_property
    def by_name(self) -> dict[str, Factor]:
        return {factor.name: factor for factor in self.factors}

    @cached_property
    def cells(self) -> dict[Any, Any]:
        """Those that were made so far, by factors and group: they are asked for again and again."""
        return {}

    @property
    def ranked(self) -> list[Factor]:
        """Those of the main question."""
        return [factor for factor in self.factors if is_ranked(factor)]

    def group(self, name: str) -> Group:
        if name == MAIN:
            return Group(MAIN)
        known = {group.name: group for group in self.groups}
        if name not in known:
            raise UnknownNameError(
                f"{self.name}: no group is called {name!r}{nearest(name, known)}; write [groups.{name}]"
            )
        return known[name]

    def recipe(self, factors: Iterable[str], group: str = MAIN) -> Recipe:
        """The baseline of a group with these factors in it, in the plan's order: later ones win."""
        chosen = set(factors)
        recipe = changed(self.baseline, self.group(group).changes, f"{self.name}: group {group!r}")
        for factor in self.factors:
            if factor.name in chosen:
                recipe = changed(recipe, factor.changes, f"{self.name}: factor {factor.name!r}")
        return recipe

    def subject_of(self, factor: Factor) -> str:
        return factor.subject or ", ".join(factor.changes)


def is_ranked(factor: Factor) -> bool:
    return factor.group == MAIN and not factor.comparator


def changed(recipe: Recipe, changes: Mapping[str, Any], where: str) -> Recipe:
    for name, value in changes.items():
        try:
            recipe = with_change(recipe, name, value, name)
        except SettingError as error:
            raise SettingError(f"{where}: {error}") from None
    return recipe


def plan_names() -> list[str]:
    found = files("glassformer.plans").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in found if file.name.endswith(".toml"))


def about_plan(name: str) -> str:
    """In one line, as its file begins."""
    return plan_text(name).partition("\n")[0].removeprefix("# ")


def plan_text(name: str) -> str:
    if name not in plan_names():
        raise UnknownNameError(
            f"no plan is called {name!r}{nearest(name, plan_names())}; known: {', '.join(plan_names())}; "
            "a plan of your own is a file: glassformer investigate --template > plan.toml"
        )
    return (files("glassformer.plans") / f"{name}.toml").read_text()


def load_plan(name: str | Path) -> Plan:
    """A built-in plan by its name, or a file."""
    path = Path(name)
    if path.suffix != ".toml":
        return parse(plan_text(str(name)), str(name))
    try:
        text = read_text(path, MOST_TOML).replace("\r\n", "\n")
    except FileError as error:
        raise FileError(f"{error}; a plan to start from: glassformer investigate --template > plan.toml") from None
    return parse(text, path.stem, path.parent)


def parse(text: str, name: str, folder: Path = Path()) -> Plan:
    plain = parse_toml(text, name, SettingError)
    known = {"question", "target", "seeds", "pairs", "needs_native", "baseline", "factors", "groups"}
    must_be_known(name, plain, known)
    must_be(name, plain, question=str, target=float, pairs=int, needs_native=bool)
    groups = tuple(parse_group(name, key, value) for key, value in table(name, plain, "groups").items())
    factors = tuple(parse_factor(name, key, value) for key, value in table(name, plain, "factors").items())
    plan = Plan(
        name=name,
        question=plain.get("question", ""),
        baseline=parse_baseline(name, table(name, plain, "baseline"), folder),
        factors=factors,
        seeds=parse_seeds(name, plain.get("seeds", usual_seeds(sum(is_ranked(factor) for factor in factors)))),
        target=plain.get("target"),
        groups=groups,
        pairs=plain.get("pairs", PAIRS),
        needs_native=plain.get("needs_native", False),
        text=text,
    )
    if "recipe" not in plain["baseline"]:
        return plan
    from glassformer.lab.plan_text import plan_text as written

    return replace(plan, text=written(plan))  # the recipe lies beside this plan, not beside the study's copy of it


def parse_baseline(name: str, plain: dict[str, Any], folder: Path) -> Recipe:
    where = f"{name}: baseline"
    must_be_known(where, plain, {"preset", "recipe", "settings", "set"})
    must_be(where, plain, preset=str, recipe=str)
    given = [key for key in ("preset", "recipe", "settings") if key in plain]
    if len(given) != 1:
        raise SettingError(
            f"{where}: expected one of preset, recipe and settings; {', '.join(given) or 'nothing'} came; "
            'write [baseline], preset = "vit-pico"'
        )
    try:
        if "settings" in plain:
            recipe = from_plain(Recipe, table(where, plain, "settings"))
        else:
            recipe = preset(plain["preset"]) if "preset" in plain else recipe_file(folder / plain["recipe"])
    except (SettingError, UnknownNameError, FileError) as error:
        raise type(error)(f"{where}: {error}") from None
    return with_lasting_data(changed(recipe, table(where, plain, "set"), where))


def with_lasting_data(recipe: Recipe) -> Recipe:
    """A path means the same to every process that works on the study, wherever it runs."""
    return recipe if existing(recipe.data) is None else replace(recipe, data=lasting_name(recipe.data))


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
    return Factor(name=name, changes=changes, on=tuple(on), **without(plain))


def without(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if key not in ("set", "on")}


def parse_group(plan: str, name: str, plain: Any) -> Group:
    where = f"{plan}: group {name!r}"
    if not isinstance(plain, dict):
        raise SettingError(f"{where}: {plain!r} came, expected a table: [groups.{name}], measure = 'test'")
    must_be_known(where, plain, {"set", "measure", "about"})
    must_be(where, plain, about=str)
    measure = plain.get("measure", "validation")
    if measure not in ("validation", "test"):
        raise SettingError(f"{where}: measure is {measure!r}, expected validation or test")
    return Group(name=name, about=plain.get("about", ""), changes=table(where, plain, "set"), measure=measure)


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
