"""Plans: what is refused before time is spent, and with which words; a plan written down is the same plan."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import DataError, EngineError, FileError, GlassformerError, SettingError, UnknownNameError
from glassformer.lab.asked import asked
from glassformer.lab.check import check
from glassformer.lab.diagnose import diagnosis
from glassformer.lab.folder import lost, plan_of
from glassformer.lab.metric import LOSS
from glassformer.lab.plan import Plan, about_plan, load_plan, parse, plan_names
from glassformer.lab.plan_text import TEMPLATE, plan_text
from glassformer.lab.record import Results
from glassformer.lab.vmapped_runs import shape_of
from glassformer.native import build
from glassformer.train.presets import preset, preset_names
from glassformer.train.run_folder import RunFolder

from ..train.small import small_data, write_npz
from .small import FACTORS, small_plan, text_of_plan

WIDE = '[factors.wide]\nset = { "model.hidden" = [9] }\n'


def factor(lines: str) -> str:
    return f"[factors.f]\n{lines}\n"


# what is wrong, the plan, the error, and the parts of the message: where, what came, what was expected, what to do
BAD = {
    "not TOML": (lambda at: "seeds = = 3", SettingError, ["small: cannot be read as TOML", "line 1"]),
    "no baseline": (
        lambda at: WIDE,
        SettingError,
        ["small: baseline", "one of preset, recipe and settings", "nothing came", 'preset = "vit-pico"'],
    ),
    "two baselines": (
        lambda at: '[baseline]\npreset = "mlp"\nrecipe = "x.toml"\n' + WIDE,
        SettingError,
        ["expected one of", "preset, recipe came"],
    ),
    "unknown preset": (
        lambda at: '[baseline]\npreset = "vit-pic"\n' + WIDE,
        UnknownNameError,
        ["small: baseline", "'vit-pic'", "did you mean 'vit-pico'?", "known: "],
    ),
    "no such recipe": (
        lambda at: '[baseline]\nrecipe = "none.toml"\n' + WIDE,
        FileError,
        ["small: baseline", "none.toml", "there is no such file"],
    ),
    "preset is a number": (lambda at: "[baseline]\npreset = 5\n" + WIDE, SettingError, ["preset is 5", "a text"]),
    "baseline is a text": (lambda at: 'baseline = "mlp"\n' + WIDE, SettingError, ["baseline is 'mlp'", "a table"]),
    "unknown setting of the baseline": (
        lambda at: '[baseline]\nsettings = { trainig = { epochs = 3 } }\n' + WIDE,
        SettingError,
        ["small: baseline", "'trainig'", "did you mean 'training'?"],
    ),
    "unknown change of the baseline": (
        lambda at: text_of_plan(at, sets='"model.widht" = 3'),
        SettingError,
        ["small: baseline: model.widht", "MLP has no setting 'widht'", "it has"],
    ),
    "no factor": (lambda at: text_of_plan(at, ""), SettingError, ["no factor", "write one: [factors.wide]"]),
    "unknown key of the plan": (
        lambda at: text_of_plan(at, head="seed = 3"),
        SettingError,
        ["no setting is called 'seed'", "did you mean 'seeds'?", "known: baseline, "],
    ),
    "unknown factor key": (
        lambda at: text_of_plan(at, factor('sets = { "training.batch" = 5 }')),
        SettingError,
        ["small: factor 'f'", "no setting is called 'sets'", "did you mean 'set'?", "known: "],
    ),
    "unknown setting of a factor": (
        lambda at: text_of_plan(at, factor('set = { "training.bach" = 5 }')),
        SettingError,
        ["small: factor 'f'", "training.bach", "did you mean 'batch'?", "it has epochs, batch"],
    ),
    "wrong type of a setting": (
        lambda at: text_of_plan(at, factor('set = { "training.batch" = "five" }')),
        SettingError,
        ["small: factor 'f'", "training.batch: 'five' came", "integer"],
    ),
    "factor without change": (
        lambda at: text_of_plan(at, factor('hypothesis = "none"')),
        SettingError,
        ["small: factor 'f'", "it changes nothing", "say what: set ="],
    ),
    "factor is a number": (
        lambda at: text_of_plan(at, "[factors]\nf = 3"),
        SettingError,
        ["small: factor 'f': 3 came", "expected a table"],
    ),
    "combine is a text": (
        lambda at: text_of_plan(at, factor('combine = "no"\nset = { "training.batch" = 5 }')),
        SettingError,
        ["small: factor 'f'", "combine is 'no'", "true or false"],
    ),
    "on is a number": (
        lambda at: text_of_plan(at, factor('on = 3\nset = { "training.batch" = 5 }')),
        SettingError,
        ["small: factor 'f'", "on is 3", "names of factors"],
    ),
    "unknown on": (
        lambda at: text_of_plan(at, FACTORS + factor('on = ["fats"]\nset = { "training.epochs" = 5 }')),
        UnknownNameError,
        ["factor 'f' is on 'fats'", "did you mean 'fast'?", "there are fast, batch, f"],
    ),
    "no such group": (
        lambda at: text_of_plan(at, factor('group = "first"\nset = { "training.epochs" = 5 }')),
        UnknownNameError,
        ["no group is called 'first'", "write [groups.first]"],
    ),
    "unknown measure": (
        lambda at: text_of_plan(at, WIDE + '[groups.g]\nmeasure = "loss"'),
        SettingError,
        ["group 'g'", "measure is 'loss'", "validation or test"],
    ),
    "group is a text": (lambda at: text_of_plan(at, WIDE + '[groups]\ng = "x"'), SettingError, ["group 'g'", "table"]),
    "two seeds": (
        lambda at: text_of_plan(at, head="seeds = 2"),
        SettingError,
        ["2 seeds came", "expected 3 or more", "to decide about 2 factors 7"],
    ),
    "seeds without an end": (
        lambda at: text_of_plan(at, head="seeds = 1000000000000"),
        SettingError,
        ["more seeds came than 10,000"],
    ),
    "brackets without an end": (
        lambda at: "question = " + "[" * 3000 + "]" * 3000,
        SettingError,
        ["small: cannot be read as TOML"],
    ),
    "no seeds": (lambda at: text_of_plan(at, head="seeds = 0"), SettingError, ["0 seeds came", "expected 3 or more"]),
    "seeds in words": (lambda at: text_of_plan(at, head='seeds = "ten"'), SettingError, ["seeds is 'ten'", "how many"]),
    "seeds below zero": (
        lambda at: text_of_plan(at, head="seeds = [1, 2, -3]"),
        SettingError,
        ["seeds [1, 2, -3] came", "whole numbers from 0"],
    ),
    "true as a seed": (lambda at: text_of_plan(at, head="seeds = [1, 2, true]"), SettingError, ["whole numbers"]),
    "seed too large": (lambda at: text_of_plan(at, head=f"seeds = [1, 2, {1 << 63}]"), SettingError, ["below 2^63"]),
    "a seed twice": (lambda at: text_of_plan(at, head="seeds = [1, 2, 2]"), SettingError, ["[1, 2, 2] came", "once"]),
    "target in percent": (
        lambda at: text_of_plan(at, head="target = 85"),
        SettingError,
        ["target is 85", "above 0, up to 1"],
    ),
    "target in words": (lambda at: text_of_plan(at, head='target = "high"'), SettingError, ["target is 'high'"]),
    "a loss below zero": (
        lambda at: text_of_plan(at, head='metric = "loss"\ntarget = -1'),
        SettingError,
        ["target is -1", "expected loss from 0"],
    ),
    "unknown metric": (
        lambda at: text_of_plan(at, head='metric = "acuracy"'),
        UnknownNameError,
        ["small: metric: no metric is called 'acuracy'", "did you mean 'accuracy'?", "--code"],
    ),
    "time to nowhere": (
        lambda at: text_of_plan(at, head='metric = "time_to_target"'),
        SettingError,
        ["time to target needs a target", "target = 0.9"],
    ),
    "looks beyond the end": (
        lambda at: text_of_plan(at, head="seeds = 7\nlooks = [3, 9]"),
        SettingError,
        ["looks is [3, 9]", "1 to 7", "looks = [3, 7]"],
    ),
    "futility in percent": (
        lambda at: text_of_plan(at, head="futility = 10"),
        SettingError,
        ["futility is 10", "probability from 0 to below 1"],
    ),
    "unknown match": (
        lambda at: text_of_plan(at, head='match = "time"'),
        SettingError,
        ["match is 'time'", "steps, compute or parameters"],
    ),
    "a factor that sets what is tuned": (
        lambda at: text_of_plan(at, head='tune = { "optimiser.lr" = [0.1, 1.0] }'),
        SettingError,
        ["small: factor 'fast'", "sets optimiser.lr, which is tuned for every arm", "tune = { 'optimiser.lr' = […] }"],
    ),
    "an arm tuned with more effort": (
        lambda at: text_of_plan(
            at,
            factor('set = { "training.batch" = 5 }\ntune = { "optimiser.lr" = [0.1, 0.2, 0.3] }'),
            head='tune = { "optimiser.lr" = [0.1, 1.0] }',
        ),
        SettingError,
        ["small: factor 'f'", "tune has 3 points, that of the others 2", "the same effort"],
    ),
    "tuned on the seeds that are compared": (
        lambda at: text_of_plan(at, head="tune_seeds = [1, 50]"),
        SettingError,
        ["seeds [1] are for tuning and comparing", "choose other tune_seeds"],
    ),
    "a sweep of one value": (
        lambda at: text_of_plan(at, '[sweeps.rate]\nsetting = "optimiser.lr"\nvalues = [0.1]'),
        SettingError,
        ["small: sweep 'rate'", "values is [0.1]", "two numbers or more"],
    ),
    "a sweep of nothing": (
        lambda at: text_of_plan(at, "[sweeps.rate]\nvalues = [0.1, 0.2]"),
        SettingError,
        ["small: sweep 'rate'", "names no setting"],
    ),
    "pairs below zero": (lambda at: text_of_plan(at, head="pairs = -1"), SettingError, ["pairs is -1", "0 or more"]),
    "pairs in words": (lambda at: text_of_plan(at, head='pairs = "all"'), SettingError, ["pairs is 'all'"]),
    # these need the data and the model: check() finds them
    "factor that has no effect": (
        lambda at: text_of_plan(at, factor('set = { "training.batch" = 10 }')),
        SettingError,
        ["factor 'f' changes nothing", "'training.batch': 10", "'baseline' has already", "another value, or leave it"],
    ),
    "baseline without its data": (
        lambda at: text_of_plan(at, sets='data = "none.npz"'),
        DataError,
        ["small: baseline: none.npz", "no such file", "expected a folder"],
    ),
    "baseline that cannot run": (
        lambda at: text_of_plan(at, sets='model = { kind = "vit", width = 6, heads = 4 }'),
        GlassformerError,
        ["small: baseline", "width 6", "4 heads"],
    ),
    "factor that cannot run": (
        lambda at: text_of_plan(at, factor('set = { model = { kind = "vit", patch_size = 3 } }')),
        GlassformerError,
        ["small: f: ", "3"],
    ),
    "factor with a setting that is not used": (
        lambda at: text_of_plan(at, factor('set = { "optimiser.momentum" = 0.5 }')),
        SettingError,
        ["small: f: ", "sgd does not use momentum", "choose an optimiser that does"],
    ),
    "native engine without a twin": (
        lambda at: text_of_plan(at, factor('set = { "optimiser.name" = "rmsprop" }')),
        EngineError,
        ["small: f: ", "no optimiser rmsprop", "it has sgd"],
    ),
    "nothing held out": (
        lambda at: text_of_plan(at, sets='"validation.share" = 0.0'),
        SettingError,
        ["small: baseline", "validation.share = 0", "set validation.share = 0.1, or measure = 'test'"],
    ),
    "stops early": (
        lambda at: text_of_plan(at, sets='"validation.patience" = 2'),
        SettingError,
        ["small: baseline", "validation.patience = 2", "set validation.patience = 0"],
    ),
    "other data": (
        lambda at: text_of_plan(at, factor('set = { data = "mnist-mini" }')),
        SettingError,
        ["small: f: its data is mnist-mini", "small.npz", "write another plan"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_plan_is_refused_with_words_that_help(case: str, tmp_path: Path) -> None:
    text, error, parts = BAD[case]
    with pytest.raises(GlassformerError) as caught:
        check(parse(text(tmp_path), "small", tmp_path))
    assert isinstance(caught.value, error)
    for part in parts:
        assert part in str(caught.value)


def test_a_file_that_is_not_there_and_a_name_that_nobody_has() -> None:
    with pytest.raises(FileError, match=r"none\.toml: there is no such file; .*--template > plan\.toml"):
        load_plan("none.toml")
    with pytest.raises(UnknownNameError, match=r"did you mean 'attention-accuracy'\?.*known: .*--template"):
        load_plan("attention-acuracy")


def test_a_task_without_right_and_wrong_is_judged_by_its_loss(tmp_path: Path) -> None:
    (tmp_path / "houses.csv").write_text("rooms,price\n" + "\n".join(f"{i},{2 * i}.5" for i in range(10)))
    settings = f'data = "{tmp_path / "houses.csv"}", task = "regress", model = {{ kind = "tiny_iris" }}'
    fast = factor('set = { "optimiser.lr" = 0.3 }')
    text = f'question = "Why?"\n[baseline]\nsettings = {{ {settings} }}\n{fast}'
    plan = parse(text, "small")
    assert plan.metric == LOSS
    check(plan)
    for metric, said in (
        ("accuracy", "knows no right and wrong"),
        ("f1", "no classes"),
        ("perplexity", "no cross-entr"),
    ):
        with pytest.raises(SettingError, match=f"the (loss of the )?task regress .*{said}.*'loss'"):
            check(parse(f'metric = "{metric}"\n{text}', "small"))


def test_without_a_compiler_a_plan_for_the_native_engine_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> tuple[str, ...]:
        raise EngineError("no C compiler is installed (cc, gcc, clang)")

    monkeypatch.setattr(build, "compiler", none)
    plan = load_plan("attention-accuracy-quick")
    assert plan.needs_native
    with pytest.raises(EngineError) as caught:
        check(plan)
    for part in ("attention-accuracy-quick: ", "native engine", "no C compiler", "--engine jax --seeds 4 --budget"):
        assert part in str(caught.value)
    check(replace(plan, needs_native=False, factors=plan.factors[:1]))


def same(one: Plan, other: Plan) -> bool:
    return replace(one, text="") == replace(other, text="")


@pytest.mark.parametrize("name", plan_names())
def test_a_built_in_plan_written_down_is_the_same_plan(name: str) -> None:
    plan = load_plan(name)
    assert same(parse(plan_text(plan), name), plan)
    assert about_plan(name).endswith(".")


@pytest.mark.parametrize("name", preset_names())
def test_the_diagnosis_of_every_preset_written_down_is_the_same_plan(name: str) -> None:
    plan = diagnosis(preset(name), name, target=0.9)
    assert plan.text == plan_text(plan)
    assert same(parse(plan.text, name), plan)


def test_everything_a_plan_can_say_is_written_down(tmp_path: Path) -> None:
    head = """seeds = [3, 5, 8, 9]
target = 0.5
pairs = 0
needs_native = true
metric = "loss"
margin = 0.2
looks = [3, 4]
futility = 0.05
tune = { "training.shift" = [0, 1], "optimiser.clip" = [1.0, inf] }
tune_seeds = [77, 78]
match = "steps"
"""
    factors = """
[groups."as \\"they\\" had it"]
about = "äöü ±0.5"
measure = "test"
set = { "validation.share" = 0.0, "optimiser.lr" = 1e-7 }

[factors."a.b ± \\"c\\""]
group = "as \\"they\\" had it"
hypothesis = "line\\nbreak \\\\ and 'quotes'"
subject = "x"
set = { "optimiser.schedule" = { kind = "step", every = 3 }, model = { kind = "mlp", hidden = [4, 5] } }

[factors.second]
combine = false
set = { "training.batch" = 7 }

[factors."😀 \\u007f"]
set = { "training.ema" = 0.5 }

[factors.third]
on = ["second"]
comparator = true
set = { "training.epochs" = 1 }

[groups.fair]
tune = { "optimiser.lr" = [0.1, 0.2] }
match = "parameters"

[factors."own grid"]
group = "fair"
set = { "optimiser.name" = "momentum" }
tune = { "optimiser.lr" = [0.3, 0.4] }

[sweeps.rate]
setting = "optimiser.lr"
hypothesis = "too small"
values = [0.1, 0.01]
combine = false
widen = true
"""
    plan = small_plan(tmp_path, factors, head=head)
    assert plan.by_name['a.b ± "c"'].hypothesis == "line\nbreak \\ and 'quotes'"
    again = parse(plan_text(plan), "small")
    assert same(again, plan)
    assert again.needs_native
    assert again.sweeps[0].factors == ("", "rate 0.1")  # the baseline has 0.01
    assert again.by_name["rate 0.1"].subject == "rate"
    assert plan_text(again) == plan_text(plan)


def test_the_template_can_be_run_as_it_is() -> None:
    plan = parse(TEMPLATE, "template")
    check(plan)
    assert len(plan.factors) == 3
    assert all(factor.hypothesis for factor in plan.factors)


def test_the_plan_of_the_quick_study_can_be_run_as_it_is() -> None:
    check(load_plan("attention-accuracy-quick"))


def test_a_recipe_beside_the_plan_goes_with_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The study's own copy of the plan lies in another folder, and is read from yet another."""
    write_npz(tmp_path / "small.npz", small_data())
    (tmp_path / "mine.toml").write_text('data = "small.npz"\n[model]\nkind = "mlp"\nhidden = [5]\n')
    (tmp_path / "plan.toml").write_text(f'[baseline]\nrecipe = "mine.toml"\n{WIDE}')
    monkeypatch.chdir(tmp_path)
    plan = load_plan("plan.toml")
    assert plan.baseline.data == str(tmp_path / "small.npz")
    monkeypatch.chdir("/")
    assert same(parse(plan.text, "plan"), plan)


def test_a_plan_may_start_from_the_recipe_of_a_run(tmp_path: Path) -> None:
    recipe = preset("vit-pico")
    RunFolder(tmp_path / "run").create(recipe)
    (tmp_path / "plan.toml").write_text(
        '[baseline]\nrecipe = "run/recipe.toml"\n[factors.f]\nset = { "model.depth" = 2 }'
    )
    assert load_plan(tmp_path / "plan.toml").baseline == recipe


def test_what_seeds_are_taken_where_the_plan_does_not_say(tmp_path: Path) -> None:
    one = small_plan(tmp_path, head="")
    assert one.seeds == tuple(range(1, 11))
    many = "".join(f'[factors."{i}"]\nset = {{ "training.batch" = {20 + i} }}\n' for i in range(25))
    assert len(small_plan(tmp_path, many, head="").seeds) > 10
    assert small_plan(tmp_path, head="seeds = [4, 2, 9]").seeds == (4, 2, 9)


def test_later_factors_win_and_groups_come_first(tmp_path: Path) -> None:
    factors = """
[groups.g]
set = { "training.batch" = 3, "training.epochs" = 1 }

[factors.a]
group = "g"
set = { "training.batch" = 4 }

[factors.b]
group = "g"
set = { "training.batch" = 5 }
"""
    plan = small_plan(tmp_path, factors)
    for names, batch in (((), 3), (("a",), 4), (("b", "a"), 5)):
        training = plan.recipe(names, "g").training
        assert (training.batch, training.epochs) == (batch, 1)


def test_a_plan_that_extends_another_grows_its_study(tmp_path: Path) -> None:
    """Runs keep their keys: with the plan of twenty seeds and tuned arms none of the first twelve is run again."""
    study, begun = Path(__file__).parents[2] / "studies" / "attention-accuracy", tmp_path / "begun"
    plan = load_plan("attention-accuracy-tuned")
    assert list(lost(load_plan("attention-accuracy"), plan)) == list(lost(plan_of(study), plan)) == []
    begun.mkdir()
    (begun / "data.json").write_text((study / "data.json").read_text())
    (begun / "looks.jsonl").write_text((study / "looks.jsonl").read_text().splitlines()[0] + "\n")  # the first report
    runs = [json.loads(line) for line in (study / "results.jsonl").read_text().splitlines()]
    tried = {one["key"] for one in runs if one["seed"] in plan.tune_seeds}
    first = [one for one in runs if one["seed"] <= 12 and (one["key"] not in tried or one["machine"] == "NVIDIA H200")]
    (begun / "results.jsonl").write_text("\n".join(map(json.dumps, first)) + "\n")
    results = Results(begun)
    jobs = [job for pair in asked(plan, results) for job in pair]
    places = {job.place for job in jobs}
    asked_before = {(key, seed) for key, seed in results.records if seed <= 12}
    additions = {job.cell.key for job in jobs if job.seed <= 12}
    assert {place for place in asked_before if place[0] in additions} <= places
    tuning = {job.place for job in jobs if job.seed in plan.tune_seeds}
    assert len(tuning) == 12 * 5 * 3  # twelve arms, five rates, three seeds
    assert {seed for _, seed in places - set(results.records) - tuning} == set(range(13, 21))
    # rates are numbers of a program: an arm's whole grid shares one
    shapes = {shape_of(job.cell.recipe) for job in jobs if job.seed in plan.tune_seeds}
    assert len(shapes) == 8


def test_every_plan_says_what_it_is_about_in_its_first_line() -> None:
    assert [name for name in plan_names() if not re.match(r"[A-Z].{30,}", about_plan(name))] == []
    assert os.sep not in "".join(plan_names())
