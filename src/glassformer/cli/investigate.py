"""glassformer investigate: run a plan of hypotheses, and answer its question with intervals."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.code import Code
from glassformer.cli.usage import value_of

if TYPE_CHECKING:
    from glassformer.lab.plan import Plan
    from glassformer.lab.record import Results

Out = Annotated[Path | None, typer.Option("--out", "-o", help="study folder (default: studies/<plan>); goes on there")]
Seeds = Annotated[str, typer.Option(help="how many, 10, or which: 1-12 or 3,5,8 (default: the plan's)")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=0, help="runs at once on a CPU (default: one for each core)")]
Cluster = Annotated[str, typer.Option(help="a dask scheduler to run on, tcp://host:8786")]
Budget = Annotated[str, typer.Option(help="time to spend, 20m or 1h30m: where it decides most; the rest is skipped")]
EngineName = Annotated[str, typer.Option("--engine", help="auto, native, or jax")]
Json = Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")]


def investigate(
    plan: Annotated[
        str, typer.Argument(help="a built-in plan (`--list`), a plan file, or a study folder", show_default=False)
    ] = "",
    data: Annotated[str, typer.Option("--data", "-d", help="data set name, or a path (default: the plan's)")] = "",
    seeds: Seeds = "",
    grown: Annotated[
        str, typer.Option("--plan", help="of a study folder: a plan that asks for more, file or name")
    ] = "",
    out: Out = None,
    jobs: Jobs = 0,
    cluster: Cluster = "",
    budget: Budget = "",
    engine: EngineName = "",
    report: Annotated[bool, typer.Option("--report", help="only write the report of what is there")] = False,
    list_: Annotated[bool, typer.Option("--list", help="show the built-in plans and stop")] = False,
    template: Annotated[bool, typer.Option("--template", help="print a plan to start from and stop")] = False,
    code: Code = None,
    json: Json = False,
) -> None:
    """Answer "why is my accuracy low?": every factor tried with the same seeds, differences with 95 % intervals.

    A study that was interrupted goes on where it stood: give the same command again. A study that is over grows with
    more seeds, or with a plan that has more factors: nothing is run twice.

    Example: `glassformer investigate attention-accuracy-quick`,
    `glassformer investigate --template > plan.toml`, `glassformer investigate plan.toml --budget 20m`,
    `glassformer investigate studies/plan --seeds 20`
    """
    from glassformer.cli import output
    from glassformer.lab.folder import plan_of
    from glassformer.lab.plan import about_plan, load_plan, plan_names
    from glassformer.lab.plan_text import TEMPLATE

    if list_:
        names = plan_names()
        lines = [f"{name:{max(map(len, names))}}  {about_plan(name)}" for name in names]
        output.report({"plans": names}, "\n".join(lines), as_json=json)
        return
    if template:
        output.report({"template": TEMPLATE}, TEMPLATE.rstrip(), as_json=json)
        return
    if not plan:
        raise typer.BadParameter("name a plan; `glassformer investigate --list` shows those that are built in")
    folder = Path(plan)
    if (folder / "plan.toml").is_file():
        chosen, out = (
            replace(load_plan(grown), name=folder.absolute().name) if grown else plan_of(folder),
            out or folder,
        )
    elif grown:
        raise typer.BadParameter(f"{plan} is no study folder, and --plan is for one that grows", param_hint="--plan")
    else:
        chosen = load_plan(plan)
    chosen = overridden(chosen, data, parse_seeds(seeds), engine)
    command = as_typed("investigate", plan, plan=grown, data=data, seeds=seeds, engine=engine, code=code)
    answer(chosen, out or Path("studies") / chosen.name, jobs, cluster, budget, command, json, only_report=report)


def answer(
    plan: "Plan",
    folder: Path,
    jobs: int,
    cluster: str,
    budget: str,
    command: str,
    json: bool,
    *,
    only_report: bool = False,
) -> None:
    """Run, write the report, say what came of it."""
    from glassformer.cli import output
    from glassformer.cli.study_progress import StudyProgress, duration
    from glassformer.lab.analysis import analyse
    from glassformer.lab.asked import look_of, open_study
    from glassformer.lab.folder import must_be_of, with_arms
    from glassformer.lab.publish import publish
    from glassformer.lab.record import Results
    from glassformer.lab.report import summary
    from glassformer.lab.report.as_json import content
    from glassformer.lab.run import investigate as run

    seconds = parse_budget(budget)  # first: a mistake in it must not wait for the plan to be checked
    if only_report:
        must_be_of(plan, folder)
        must_hold_any(Results(folder))
        plan = with_arms(plan, folder)
        results = open_study(plan, folder)
        study = analyse(plan, results, [], command, look_of(plan, results))
    else:
        with StudyProgress() as progress:
            study = run(
                plan,
                folder,
                jobs=jobs,
                cluster=cluster,
                budget=seconds,
                listener=progress,
                command=command,
            )
    study, written = publish(study, Results(folder))
    runs = sum(study.machines.values())
    result: dict[str, Any] = {**content(study), "files": {name: str(path) for name, path in written.items()}}
    text = f"{summary(study)}\n\n{runs:,} runs, {duration(study.seconds)} of computing; wrote {written['report.html']}"
    output.report(result, text, as_json=json)


def as_typed(command: str, *arguments: object, **options: object) -> str:
    """The command that repeats it; options that were not given are left out.

    >>> as_typed("diagnose", "runs/my run", target=0.9, seeds="")
    "glassformer diagnose 'runs/my run' --target 0.9"
    """
    given: list[str] = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            given += [] if one in ("", None) else [f"--{name}", str(one)]
    return shlex.join(["glassformer", command, *map(str, arguments), *given])


def must_hold_any(results: "Results") -> "Results":
    from glassformer.errors import FileError

    if not results.records:
        raise FileError(f"{results.path}: no run is there yet; leave out --report to start the study")
    return results


def overridden(plan: "Plan", data: str, seeds: tuple[int, ...], engine: str) -> "Plan":
    """The plan with what the command line changes; its text says so, too."""
    from glassformer.lab.plan import changed, with_lasting_data
    from glassformer.lab.plan_text import plan_text

    changes = {name: value for name, value in (("data", data), ("engine.name", engine)) if value}
    if not changes and not seeds:
        return plan
    with value_of("--engine"):
        baseline = with_lasting_data(changed(plan.baseline, changes, plan.name))
    needs_native = plan.needs_native and engine in ("", "auto", "native")
    looks = grown_looks(plan.looks, len(seeds or plan.seeds))
    with value_of("--seeds"):
        new = replace(plan, baseline=baseline, seeds=seeds or plan.seeds, needs_native=needs_native, looks=looks)
    return replace(new, text=plan_text(new))


def grown_looks(looks: tuple[int, ...], seeds: int) -> tuple[int, ...]:
    """Those that fit, and one at the end.

    >>> grown_looks((6, 12), 20), grown_looks((6, 12), 8), grown_looks((), 20)
    ((6, 12, 20), (6, 8), ())
    """
    return (*(look for look in looks if look < seeds), seeds) if looks else ()


def parse_seeds(text: str) -> tuple[int, ...]:
    """`10` is how many, `1-12` and `3,5,8` are which."""
    if not text:
        return ()
    first, dash, last = text.partition("-")
    try:
        if "," in text:
            seeds = tuple(int(seed) for seed in text.split(","))
        else:
            seeds = tuple(range(int(first), int(last) + 1) if dash else range(1, int(text) + 1))
    except ValueError:
        seeds = ()
    if not seeds:
        raise typer.BadParameter(f"{text!r} came, expected 10, 1-12 or 3,5,8", param_hint="--seeds")
    return seeds


def parse_budget(text: str) -> float | None:
    """Seconds.

    >>> parse_budget("20m"), parse_budget("1h30m"), parse_budget("90s"), parse_budget("")
    (1200.0, 5400.0, 90.0, None)
    """
    if not text:
        return None
    found = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", text.replace(" ", ""))
    if found is None or not any(found.groups()):
        raise typer.BadParameter(f"{text!r} came, expected a time such as 20m, 1h30m or 90s", param_hint="--budget")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds
