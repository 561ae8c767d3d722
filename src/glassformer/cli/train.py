"""glassformer train: train a model on a data set."""

import signal
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.train.recipe import Recipe

DEFAULT = "vit-nano"


def train(
    preset: Annotated[
        str, typer.Argument(help="what to train; `--list` shows the presets (default: vit-nano)", show_default=False)
    ] = "",
    data: Annotated[str, typer.Option("--data", "-d", help="data set name, or a path (default: the recipe's)")] = "",
    epochs: Annotated[int | None, typer.Option("--epochs", "-e", help="passes over the training data")] = None,
    batch: Annotated[int | None, typer.Option("--batch", "-b", help="samples in a step")] = None,
    lr: Annotated[float | None, typer.Option("--lr", "-l", help="learning rate")] = None,
    seed: Annotated[int | None, typer.Option("--seed", "-s", help="of weights and of the order of samples")] = None,
    seeds: Annotated[str, typer.Option(help="several seeds, 0-4 or 1,5,7: mean, spread and each")] = "",
    from_: Annotated[
        Path | None, typer.Option("--from", help="start from this run: its model, tokeniser and weights")
    ] = None,
    task: Annotated[
        str,
        typer.Option(help="what to learn: classify, next-token, masked, tag, span, translate, contrast, answer, chat"),
    ] = "",
    tune: Annotated[
        str, typer.Option(help="with --from, what learns: full, head, bias (and head), or lora (and head)")
    ] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="any setting: model.width=32")] = None,
    recipe: Annotated[Path | None, typer.Option(help="a recipe of your own, TOML")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="run folder (default: a new one in runs/)")] = None,
    resume: Annotated[Path | None, typer.Option(help="go on with the run in this folder, or with its seeds")] = None,
    engine: Annotated[str, typer.Option(help="auto (the fastest that can), native, or jax")] = "",
    mesh: Annotated[
        str,
        typer.Option(
            help="jax: how devices share the work, data=4,model=2 (axes: data, fsdp, model), also with --resume"
        ),
    ] = "",
    threads: Annotated[int | None, typer.Option(help="native: how many (default: one for each core)")] = None,
    rng: Annotated[str, typer.Option(help="threefry, or xorshift to repeat published runs")] = "",
    deterministic: Annotated[bool, typer.Option("--deterministic", help="GPU: repeat to the bit")] = False,
    log: Annotated[list[str] | None, typer.Option(help="tell it to tensorboard, mlflow or wandb, too")] = None,
    hosts: Annotated[
        str, typer.Option(help="one run on several hosts: auto (SLURM, ...), or ADDRESS:PORT,COUNT,INDEX of this one")
    ] = "",
    list_: Annotated[bool, typer.Option("--list", help="show the presets and stop")] = False,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Train a model; without arguments a small vision transformer, on the bundled digits, offline, within a minute.

    Example: `glassformer train vit-pico --data mnist --seeds 0-4`, `glassformer train --set model.depth=2 --epochs 10`,
    `glassformer train gpt-nano --data book.txt`, `glassformer train --from runs/bert-1 --task classify --tune lora`

    Several hosts, each with the same command but its own number: `glassformer train gpt2-124m --data tokens
    --mesh data=16 --hosts 10.0.0.1:1234,2,0` and `... --hosts 10.0.0.1:1234,2,1`; with SLURM `srun glassformer train
    ... --hosts auto`
    """
    from glassformer.cli.hosts import one_of, watch, watched

    if list_:
        show_presets(as_json=json)
        return
    if hosts and not watched():
        raise typer.Exit(watch(hosts))
    from glassformer.cli.output import report
    from glassformer.cli.training_progress import TrainingProgress
    from glassformer.cli.training_report import as_text
    from glassformer.train import fit
    from glassformer.train.settings import with_changes
    from glassformer.train.trackers import Trackers

    own = {"preset": preset, "task": task, "tune": tune, "data": data, "seeds": seeds, "set": set_}
    own |= {"recipe": recipe, "out": out, "from": from_}
    kinds = {"task": task or None, "tune": tune or None}  # before --set, which may change what they bring
    flags = {
        "training.epochs": epochs,
        "training.batch": batch,
        "optimiser.lr": lr,
        "training.seed": seed,
        "engine.name": engine or None,
        "engine.threads": threads,
        "engine.rng": rng or None,
        "engine.deterministic": deterministic or None,
    }
    if resume:
        refuse(own | flags)
    several = parse_seeds(seeds) if seeds else ()
    if several and hosts:
        raise typer.BadParameter(
            "hosts train one run together; train the seeds one by one, --seed", param_hint="--seeds"
        )
    if from_ and (preset or recipe):
        raise typer.BadParameter("the run brings its recipe; name no other beside it", param_hint="--from")

    def changed(chosen: "Recipe") -> "Recipe":
        return fit.with_all(
            with_changes(fit.with_all(chosen, kinds), set_ or []), flags | {"engine.mesh": mesh or None}
        )

    with (
        one_of(hosts) as first,
        TrainingProgress(quiet=not first) as drawn,
        closing(Trackers(drawn, log or [] if first else [])) as listener,
    ):
        for number in (signal.SIGINT, signal.SIGTERM) if hosts else (signal.SIGINT,):
            signal.signal(number, drawn.stop_soon)
        if resume:
            result = fit.resume(resume, listener, mesh=mesh or None)
        else:
            which, start = recipe or preset or DEFAULT, from_ or ""
            result = fit.run_recipe(which, data, changed, out=out or "", start=start, seeds=several, listener=listener)
    if first:
        report(result, as_text(result), as_json=json)


def show_presets(*, as_json: bool) -> None:
    from glassformer.cli.output import report
    from glassformer.train.presets import about_preset, preset_names

    names = preset_names()
    lines = [f"{name:{max(map(len, names))}}  {about_preset(name)}" for name in names]
    report({"presets": names}, "\n".join(lines), as_json=as_json)


def refuse(options: dict[str, Any]) -> None:
    """A resumed run keeps its recipe: whatever else was asked for would be ignored."""
    given = [name for name, value in options.items() if value not in (None, "", [])]
    if given:
        raise typer.BadParameter(
            f"a run goes on with its own recipe; {', '.join(given)} cannot be changed", param_hint="--resume"
        )


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0-4` or `1,5,7`."""
    from glassformer.train.recipe import MOST_SEEDS

    try:
        first, dash, last = text.partition("-")
        seeds = range(int(first), int(last) + 1) if dash else [int(seed) for seed in text.split(",")]
        seeds = tuple(seeds[: MOST_SEEDS + 1])
    except ValueError:
        seeds = ()
    if len(seeds) < 2 or len(set(seeds)) < len(seeds):
        raise typer.BadParameter(
            f"{text!r} came, expected two or more different seeds: 0-4 or 1,5,7", param_hint="--seeds"
        )
    if len(seeds) > MOST_SEEDS:
        raise typer.BadParameter(f"{text!r} came, expected {MOST_SEEDS:,} seeds or fewer", param_hint="--seeds")
    return seeds
