"""glassformer train: train a model on a data set."""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli.code import Code

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
    from glassformer.cli.output import report

    if hosts and not list_ and not watched():
        raise typer.Exit(watch(hosts))
    from glassformer.cli.training_progress import TrainingProgress
    from glassformer.train import fit
    from glassformer.train.settings import with_changes
    from glassformer.train.trackers import Trackers

    if list_:
        from glassformer.train.presets import about_preset, preset_names

        names = preset_names()
        lines = [f"{name:{max(map(len, names))}}  {about_preset(name)}" for name in names]
        report({"presets": names}, "\n".join(lines), as_json=json)
        return
    kinds = {"task": task or None, "tune": tune or None}  # before --set, which may change what they bring
    flags = {
        "training.epochs": epochs,
        "training.batch": batch,
        "optimiser.lr": lr,
        "training.seed": seed,
        "engine.name": engine or None,
        "engine.mesh": mesh or None,
        "engine.threads": threads,
        "engine.rng": rng or None,
        "engine.deterministic": deterministic or None,
    }
    several = parse_seeds(seeds) if seeds else ()
    if several and hosts:
        raise typer.BadParameter(
            "hosts train one run together; train the seeds one by one, --seed", param_hint="--seeds"
        )
    with (
        one_of(hosts) as first,
        TrainingProgress(quiet=not first) as drawn,
        closing(Trackers(drawn, log or [] if first else [])) as progress,
    ):
        for number in (signal.SIGINT, signal.SIGTERM) if hosts else (signal.SIGINT,):
            signal.signal(number, drawn.stop_soon)
        if resume:
            refuse(
                {
                    "data": data,
                    "seeds": seeds,
                    "set": set_,
                    "recipe": recipe,
                    "out": out,
                    "from": from_,
                    "task": task,
                    "tune": tune,
                    **{name: value for name, value in flags.items() if name != "engine.mesh"},
                }
            )
            result = fit.resume(resume, progress, mesh=mesh or None)
        else:
            if from_ and (preset or recipe):
                raise typer.BadParameter("the run brings its recipe; name no other beside it", param_hint="--from")
            result = fit.run_recipe(
                recipe or preset or DEFAULT,
                data,
                lambda chosen: fit.with_all(with_changes(fit.with_all(chosen, kinds), set_ or []), flags),
                out=out or "",
                start=from_ or "",
                seeds=several,
                listener=progress,
            )
    if first:
        report(result, as_text(result), as_json=json)


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


def as_text(result: dict[str, Any]) -> str:
    runs = result.get("runs", [])
    lines = [f"  seed {run['seed']:<4} {', '.join(outcome(run))}" for run in runs]
    lines += [
        line + (f" (standard deviation over {len(runs)} seeds)" if runs else "") for line in outcome(result, " nats")
    ]
    if result["val_accuracy"] is not None:
        lines.append(f"validation accuracy {percent(result['val_accuracy'])}")
    if result["learning"] < result["parameters"]:
        share = result["learning"] / result["parameters"]
        lines.append(
            f"learns {result['learning']:,} of {result['parameters']:,} parameters ({100 * share:.1f} %), "
            f"optimiser memory {result['optimiser_bytes']:,} bytes"
        )
    lines.append(
        f"{result['epochs']} epochs in {result['train_seconds']:.1f} s, {result['parameters']:,} parameters, "
        f"engine {result['engine']}, run {result['run']}"
    )
    return "\n".join(lines)


BY_LOSS = ("next-token", "masked")
MEASURES = {
    "contrast": "recall@1",
    "answer": "exact match",
    "chat": "exact match",
}  # what an accuracy is called, where it is more than one


def outcome(run: dict[str, Any], nats: str = "") -> Iterator[str]:
    """Loss, where it tells more than the accuracy, and accuracy, where the task has one; of several seeds ± spread."""
    loss, accuracy = run["test_loss"], run["test_accuracy"]
    if accuracy is None or run["task"] in BY_LOSS:
        spread = f" ± {run['test_loss_std']:.4f}" if "test_loss_std" in run else ""
        yield f"test loss {loss:.4f}{'' if accuracy is None else nats}{spread}"
    if accuracy is not None:
        spread = f" ± {100 * run['test_accuracy_std']:.2f}" if "test_accuracy_std" in run else ""
        yield f"test {MEASURES.get(run['task'], 'accuracy')} {percent(accuracy)}{spread}"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"
