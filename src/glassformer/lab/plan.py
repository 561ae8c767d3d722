"""A plan: the question, a baseline, and factors, each a named change of the recipe with the hypothesis it tests.

question = "Why is the accuracy only 38 %?"
metric = "accuracy"                            # nothing: what the task is judged by
target = 0.85                                  # what would be good enough, in the metric
extends = "attention-accuracy"                 # a built-in plan that this one adds to; nothing: none
seeds = 10                                     # seeds 1 to 10, the same in every cell; nothing: ten, or more for many
looks = [6, 10]                                # after so many seeds what is there is looked at; nothing: at the end
futility = 0.1                                 # at a look, arms stop that would help at the end with less probability

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

[sweeps.batch]                                 # factors "batch 16", "batch 64": a curve of the metric over the number
setting = "training.batch"
values = [16, 32, 64]

[groups.as-published]                          # a part of the study with a baseline and a measure of its own
measure = "test"                               # nothing: "validation"
set = { "validation.share" = 0.0 }

[groups.fair]                                  # for factors of the main question: tune and match above [baseline]
tune = { "optimiser.lr" = [0.003, 0.01] }      # each arm at the value that is best for it
match = "compute"                              # and with as many multiply-adds: steps, compute or parameters
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data.text_sources import existing
from glassformer.errors import FileError, SettingError, UnknownNameError, at_least
from glassformer.lab.data_identity import identity
from glassformer.lab.metric import ACCURACY, LOSS, Metric, metric_named, metric_names
from glassformer.lab.plan_parts import (
    MAIN,
    Factor,
    Grid,
    Group,
    Match,
    Measure,
    Sweep,
    factors_of,
    must_be,
    must_be_known,
    parse_factor,
    parse_grid,
    parse_group,
    parse_looks,
    parse_match,
    parse_seeds,
    parse_sweep,
    points_of,
    table,
)
from glassformer.lab.sample_size import seeds_needed, usual_seeds
from glassformer.names import nearest
from glassformer.reading import MOST_TOML, parse_toml, read_text
from glassformer.train.presets import preset, recipe_file
from glassformer.train.recipe import MOST_SEEDS, Recipe
from glassformer.train.resolve import lasting_name
from glassformer.train.settings import from_plain, to_plain, with_change

__all__ = ["FEWEST", "MAIN", "PAIRS", "Factor", "Group", "Measure", "Plan", "Sweep", "load_plan", "parse"]
PAIRS = 3
FEWEST = 3  # seeds: with fewer there is no interval worth the name
TUNE_SEEDS = tuple(range(MOST_SEEDS + 1, MOST_SEEDS + 4))  # no plan that counts its seeds has these


class Arm(NamedTuple):
    """What was settled for one combination of factors before it is compared."""

    changes: Mapping[str, Any]  # of the recipe
    about: str  # "optimiser.lr = 0.003, best of 5 on validation"


@dataclass(frozen=True)
class Plan:
    name: str
    question: str
    baseline: Recipe
    factors: tuple[Factor, ...]
    seeds: tuple[int, ...]
    target: float | None = None  # raw, in the metric: an accuracy from 0 to 1, a loss in nats
    groups: tuple[Group, ...] = ()
    pairs: int = PAIRS  # subjects that are crossed with each other: the strongest so many; 0: none
    needs_native: bool = False  # too slow without the native engine: says so
    metric: Metric = ACCURACY
    sweeps: tuple[Sweep, ...] = ()  # their factors are among `factors`
    tune: Grid = field(default_factory=dict)  # of the main question; groups have their own
    tune_seeds: tuple[int, ...] = TUNE_SEEDS  # with which arms are tuned, and never compared
    match: Match = ""
    looks: tuple[int, ...] = ()  # after how many seeds; nothing: at the end
    futility: float = 0.0  # an arm stops at a look when it would help at the end with less probability; 0: none does
    text: str = ""  # as it was written
    data: str = field(default="", compare=False)  # what the data is by its content, where the folder knows it
    arms: dict[tuple[tuple[str, ...], str], Arm] = field(default_factory=dict, compare=False)  # settled so far

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
        self.check_target()
        if not 0 <= self.futility < 1:
            raise SettingError(f"{self.name}: futility is {self.futility}, expected a probability from 0 to below 1")
        if set(self.tune_seeds) & set(self.seeds):
            raise SettingError(
                f"{self.name}: seeds {sorted(set(self.tune_seeds) & set(self.seeds))} are for tuning and comparing; "
                "arms are compared on seeds that did not choose their settings: choose other tune_seeds"
            )
        at_least(self.name, 0, pairs=self.pairs)
        for factor in self.factors:
            self.check_grid(factor)
            for other in factor.on:
                if other not in self.by_name:
                    raise UnknownNameError(
                        f"{self.name}: factor {factor.name!r} is on {other!r}{nearest(other, self.by_name)}, "
                        f"which is no factor; there are {', '.join(self.by_name)}"
                    )
            self.group(factor.group)

    def check_target(self) -> None:
        if self.target is None or self.metric.name == "time to target":
            return
        where = f"{self.name}: target is {self.target:g}, expected"
        in_percent = self.metric.high == 1 and 1 < self.target <= 100
        advice = f"; for {self.target:g} % write {self.target / 100:g}" if in_percent else ""
        if self.metric == replace(ACCURACY, margin=self.metric.margin, worst=self.metric.worst):
            if not 0 < self.target <= 1:
                raise SettingError(f"{where} an accuracy above 0, up to 1{advice}")
        elif not self.metric.low <= self.target <= self.metric.high:
            raise SettingError(f"{where} {self.metric.name} from {self.metric.low:g} to {self.metric.high:g}{advice}")

    def check_grid(self, factor: Factor) -> None:
        """The same number of points for every arm; what a factor sets itself cannot be tuned for it."""
        where, grid = f"{self.name}: factor {factor.name!r}", self.group(factor.group).tune
        if factor.tune and len(points_of(factor.tune)) != len(points_of(grid)):
            raise SettingError(
                f"{where}: tune has {len(points_of(factor.tune))} points, that of the others {len(points_of(grid))}; "
                "every arm is tuned with the same effort: give as many"
            )
        both = [setting for setting in grid if setting in factor.changes and setting not in factor.tune]
        if both and not factor.tune:
            raise SettingError(
                f"{where}: it sets {both[0]}, which is tuned for every arm; leave it out, or give it values of its "
                f"own: tune = {{ {both[0]!r} = […] }}"
            )

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
            return Group(MAIN, tune=self.tune, match=self.match)
        known = {group.name: group for group in self.groups}
        if name not in known:
            raise UnknownNameError(
                f"{self.name}: no group is called {name!r}{nearest(name, known)}; write [groups.{name}]"
            )
        return known[name]

    def recipe(self, factors: Iterable[str], group: str = MAIN) -> Recipe:
        """The baseline of a group with these factors in it, and with what was settled for it."""
        names = self.in_order(factors)
        arm = self.arms.get((names, group))
        return changed(self.unsettled(names, group), arm.changes if arm else {}, f"{self.name}: {' + '.join(names)}")

    def in_order(self, factors: Iterable[str]) -> tuple[str, ...]:
        chosen = set(factors)
        return tuple(factor.name for factor in self.factors if factor.name in chosen)

    def grid(self, factors: Iterable[str], group: str) -> list[dict[str, Any]]:
        """What an arm is tuned over, point by point; nothing: it is not."""
        own = [self.by_name[name].tune for name in factors if self.by_name[name].tune]
        return points_of(own[-1] if own else self.group(group).tune) if self.group(group).tune else []

    @cached_property
    def identity(self) -> str:
        """What the data is by its content."""
        return self.data or identity(self.baseline.data)

    def unsettled(self, factors: Iterable[str], group: str = MAIN) -> Recipe:
        """With the factors in the plan's order: later ones win."""
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
    plain = extended(parse_toml(text, name, SettingError), name)
    of_arms = {"metric", "margin", "sweeps", "tune", "tune_seeds", "match", "looks", "futility"}
    known = {"question", "target", "seeds", "pairs", "needs_native", "baseline", "factors", "groups", *of_arms}
    must_be_known(name, plain, known)
    must_be(name, plain, question=str, target=float, pairs=int, needs_native=bool)
    must_be(name, plain, metric=str, margin=float, futility=float)
    baseline = parse_baseline(name, table(name, plain, "baseline"), folder)
    groups = tuple(parse_group(name, key, value) for key, value in table(name, plain, "groups").items())
    sweeps = tuple(
        parse_sweep(name, key, value, lambda setting: setting_of(baseline, setting))
        for key, value in table(name, plain, "sweeps").items()
    )
    factors = [parse_factor(name, key, value) for key, value in table(name, plain, "factors").items()]
    factors += [factor for sweep in sweeps for factor in factors_of(sweep)]
    if twice := [one.name for i, one in enumerate(factors) if one.name in {other.name for other in factors[:i]}]:
        raise SettingError(f"{name}: a factor and a value of a sweep are both called {twice[0]!r}; rename one")
    ranked = sum(is_ranked(factor) for factor in factors)
    seeds, fewest = parse_seeds(name, plain.get("seeds", usual_seeds(ranked))), seeds_needed(ranked)
    plan = Plan(
        name=name,
        question=plain.get("question", ""),
        baseline=baseline,
        factors=tuple(factors),
        seeds=seeds,
        target=plain.get("target"),
        groups=groups,
        pairs=plain.get("pairs", PAIRS),
        needs_native=plain.get("needs_native", False),
        metric=parse_metric(name, plain, baseline),
        sweeps=sweeps,
        tune=parse_grid(name, plain),
        tune_seeds=parse_tune_seeds(name, plain.get("tune_seeds", len(TUNE_SEEDS))),
        match=parse_match(name, plain),
        looks=parse_looks(name, plain["looks"], len(seeds), fewest) if "looks" in plain else (),
        futility=float(plain.get("futility", 0)),
        text=text,
    )
    if "recipe" not in plain["baseline"] and not extends(text):
        return plan
    from glassformer.lab.plan_text import plan_text as written

    return replace(plan, text=written(plan))  # what it refers to may not lie beside the study's copy of it


def extended(plain: dict[str, Any], name: str) -> dict[str, Any]:
    """With what the built-in plan has that it extends: its own settings win, its own factors come last."""
    must_be(name, plain, extends=str)
    before = plain.pop("extends", "")
    if not before:
        return plain
    base = extended(parse_toml(plan_text(before), before, SettingError), before)
    tables = ("factors", "groups", "sweeps")
    merged = {key: {**table(name, base, key), **table(name, plain, key)} for key in tables}
    return {**base, **plain, **{key: value for key, value in merged.items() if value}}


def extends(text: str) -> bool:
    """Whether it refers to another plan."""
    return "extends" in parse_toml(text, "", SettingError)


def parse_metric(name: str, plain: dict[str, Any], baseline: Recipe) -> Metric:
    asked = plain.get("metric") or usual_metric(baseline).name
    spelt = {one.lower().replace(" ", "_"): one for one in metric_names()}
    try:
        return metric_named(spelt.get(asked.lower().replace(" ", "_"), asked), margin=plain.get("margin"))
    except (SettingError, UnknownNameError) as error:
        raise type(error)(f"{name}: metric: {error}") from None


def usual_metric(recipe: Recipe) -> Metric:
    """What the task chooses its best weights by."""
    return LOSS if recipe.task.by_loss else ACCURACY


def parse_tune_seeds(name: str, given: Any) -> tuple[int, ...]:
    seeds = parse_seeds(f"{name}: tune_seeds", given)
    return tuple(MOST_SEEDS + seed for seed in seeds) if isinstance(given, int) else seeds


def setting_of(recipe: Recipe, name: str) -> Any:
    """The value of a setting, "optimiser.lr"; None where there is none of that name."""
    found: Any = to_plain(recipe)
    for word in name.split("."):
        found = found.get(word) if isinstance(found, dict) else None
    return found


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
