"""glassformer diagnose: the usual suspects around a trained run, tried one by one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.code import Code
from glassformer.cli.investigate import Budget, Cluster, EngineName, Jobs, Json, Out, Seeds
from glassformer.cli.usage import value_of


def diagnose(
    run: Annotated[Path, typer.Argument(help="folder written by `glassformer train`")],
    target: Annotated[
        float | None,
        typer.Option("--target", "-t", help="what would be good enough: an accuracy, 0 to 1; of a text, a loss"),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="what is compared (default: the loss; with --target, what it is in)")
    ] = "",
    seeds: Seeds = "",
    out: Out = None,
    jobs: Jobs = 0,
    cluster: Cluster = "",
    budget: Budget = "8m",
    engine: EngineName = "",
    plan: Annotated[bool, typer.Option("--plan", help="only print the plan")] = False,
    code: Code = None,
    json: Json = False,
) -> None:
    """Find out what holds a run back: learning rate, optimiser, schedule, epochs, batch, data, positions, capacity.

    Its recipe is the baseline; each suspect is changed alone, with the same seeds, and those that help together.
    A run that diverges is diagnosed like any other. Runs too long for the budget are shortened, all alike.

    Example: `glassformer diagnose runs/vit-nano-1 --target 0.98 --budget 20m`
    """
    from glassformer.cli import output
    from glassformer.cli.investigate import answer, as_typed, overridden, parse_budget, parse_seeds
    from glassformer.lab.diagnose import diagnosis, epochs_within, samples_of
    from glassformer.lab.folder import PLAN, plan_of
    from glassformer.lab.metric import metric_named
    from glassformer.train.run_folder import RunFolder

    recipe, name = RunFolder(run).recipe(), run.absolute().name
    given = parse_seeds(seeds)
    with value_of("--metric"):
        judged_by = metric_named(metric) if metric else None
    words: dict[str, Any] = {"target": target, "metric": judged_by, "samples": samples_of(recipe)}
    with value_of("--target"):
        made = diagnosis(recipe, name, **words)
    made = overridden(made, "", given, engine)
    if plan:
        output.report({"plan": made.text}, made.text.rstrip(), as_json=json)
        return
    folder = out or Path("studies") / f"{made.name}-diagnosis"
    if (folder / PLAN).is_file() and plan_of(folder).question.startswith(made.question):
        made = overridden(plan_of(folder), "", given, engine)  # it may have been shortened, and its rates widened
    elif (seconds := parse_budget(budget)) is not None:
        runs = (len(made.factors) + 3) * len(made.seeds)  # the pairs, and what is combined; half of it may be dropped
        epochs = epochs_within(recipe, seconds, runs, jobs)
        made = overridden(diagnosis(recipe, name, epochs=epochs, **words), "", given, engine)
    command = as_typed("diagnose", run, target=target, metric=metric, seeds=seeds, engine=engine, code=code)
    answer(made, folder, jobs, cluster, budget, command, json)
