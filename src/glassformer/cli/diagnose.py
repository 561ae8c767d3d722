"""glassformer diagnose: the usual suspects around a trained run, tried one by one."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.code import Code
from glassformer.cli.investigate import Budget, Cluster, EngineName, Jobs, Json, Out, Seeds


def diagnose(
    run: Annotated[Path, typer.Argument(help="folder written by `glassformer train`")],
    target: Annotated[
        float | None, typer.Option("--target", "-t", help="the accuracy that would be good enough, 0 to 1")
    ] = None,
    seeds: Seeds = "",
    out: Out = None,
    jobs: Jobs = 0,
    cluster: Cluster = "",
    budget: Budget = "",
    engine: EngineName = "",
    plan: Annotated[bool, typer.Option("--plan", help="only print the plan")] = False,
    code: Code = None,
    json: Json = False,
) -> None:
    """Find out what holds a run back: learning rate, optimiser, schedule, epochs, batch, positions, capacity.

    Its recipe is the baseline; each suspect is changed alone, with the same seeds, and those that help together.

    Example: `glassformer diagnose runs/vit-nano-1 --target 0.98 --budget 20m`
    """
    from glassformer.cli import output
    from glassformer.cli.investigate import answer, as_typed, overridden, parse_seeds
    from glassformer.lab.diagnose import diagnosis
    from glassformer.train.run_folder import RunFolder

    made = diagnosis(RunFolder(run).recipe(), run.absolute().name, target=target)
    made = overridden(made, "", parse_seeds(seeds), engine)
    if plan:
        output.report({"plan": made.text}, made.text.rstrip(), as_json=json)
        return
    folder = out or Path("studies") / f"{made.name}-diagnosis"
    command = as_typed("diagnose", run, target=target, seeds=seeds, engine=engine, code=code)
    answer(made, folder, jobs, cluster, budget, command, json)
