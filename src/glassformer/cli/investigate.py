"""glassformer investigate: run a plan of hypotheses, and answer its question with intervals."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.lab.plan import Plan

Out = Annotated[Path | None, typer.Option("--out", "-o", help="study folder (default: studies/<plan>); goes on there")]
Seeds = Annotated[str, typer.Option(help="how many, 10, or which: 1-12 or 3,5,8 (default: the plan's)")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="runs at once on a CPU (default: one for each core)")]
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
    out: Out = None,
    jobs: Jobs = 0,
    cluster: Cluster = "",
    budget: Budget = "",
    engine: EngineName = "",
    report: Annotated[bool, typer.Option("--report", help="only write the report of what is there")] = False,
    list_: Annotated[bool, typer.Option("--list", help="show the built-in plans and stop")] = False,
    template: Annotated[bool, typer.Option("--template", help="print a plan to start from and stop")] = False,
    json: Json = False,
) -> None:
    """Answer "why is my accuracy low?": every factor tried with the same seeds, differences with 95 % intervals.

    A study that was interrupted goes on where it stood: give the same command again.

    Example: `glassformer investigate attention-accuracy-quick`,
    `glassformer investigate --template > plan.toml`, `glassformer investigate plan.toml --budget 20m`
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
        chosen, out = plan_of(folder), out or folder
    else:
        chosen = load_plan(plan)
    chosen = overridden(chosen, data, parse_seeds(seeds), engine)
    command = f"glassformer investigate {plan}" + "".join(
        f" --{name} {value}" for name, value in (("data", data), ("seeds", seeds), ("engine", engine)) if value
    )
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
    from glassformer.lab.record import Results
    from glassformer.lab.report import summary, write_report
    from glassformer.lab.report.as_json import content
    from glassformer.lab.run import investigate as run

    if only_report:
        study = analyse(plan, Results(folder), [], command)
    else:
        with StudyProgress() as progress:
            study = run(
                plan,
                folder,
                jobs=jobs,
                cluster=cluster,
                budget=parse_budget(budget),
                listener=progress,
                command=command,
            )
    written = write_report(study, folder)
    runs = sum(study.machines.values())
    result: dict[str, Any] = {**content(study), "files": {name: str(path) for name, path in written.items()}}
    text = f"{summary(study)}\n\n{runs:,} runs, {duration(study.seconds)} of computing; wrote {written['report.html']}"
    output.report(result, text, as_json=json)


def overridden(plan: "Plan", data: str, seeds: tuple[int, ...], engine: str) -> "Plan":
    """The plan with what the command line changes; its text says so, too."""
    from glassformer.lab.plan import changed
    from glassformer.lab.plan_text import plan_text

    changes = {name: value for name, value in (("data", data), ("engine.name", engine)) if value}
    if not changes and not seeds:
        return plan
    baseline = changed(plan.baseline, changes, plan.name)
    needs_native = plan.needs_native and engine in ("", "auto", "native")
    new = replace(plan, baseline=baseline, seeds=seeds or plan.seeds, needs_native=needs_native)
    return replace(new, text=plan_text(new))


def parse_seeds(text: str) -> tuple[int, ...]:
    """`10` is how many, `1-12` and `3,5,8` are which."""
    try:
        first, dash, last = text.partition("-")
        if dash:
            return tuple(range(int(first), int(last) + 1))
        if "," in text:
            return tuple(int(seed) for seed in text.split(","))
        return tuple(range(1, int(text) + 1)) if text else ()
    except ValueError:
        raise typer.BadParameter(f"{text!r} came, expected 10, 1-12 or 3,5,8", param_hint="--seeds") from None


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
