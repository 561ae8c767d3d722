"""glassformer train: train a model on a data set."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.data import Dataset
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
    task: Annotated[str, typer.Option(help="what to learn: classify, next-token, masked, tag, span, translate")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="any setting: model.width=32")] = None,
    recipe: Annotated[Path | None, typer.Option(help="a recipe of your own, TOML")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="run folder (default: a new one in runs/)")] = None,
    resume: Annotated[Path | None, typer.Option(help="go on with the run in this folder")] = None,
    engine: Annotated[str, typer.Option(help="auto (the fastest that can), native, or jax")] = "",
    threads: Annotated[int | None, typer.Option(help="native: how many (default: one for each core)")] = None,
    rng: Annotated[str, typer.Option(help="threefry, or xorshift to repeat published runs")] = "",
    deterministic: Annotated[bool, typer.Option("--deterministic", help="GPU: repeat to the bit")] = False,
    list_: Annotated[bool, typer.Option("--list", help="show the presets and stop")] = False,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Train a model; without arguments a small vision transformer, on the bundled digits, offline, within a minute.

    Example: `glassformer train vit-pico --data mnist --seeds 0-4`, `glassformer train --set model.depth=2 --epochs 10`,
    `glassformer train gpt-nano --data book.txt`, `glassformer train --from runs/bert-nano-1 --task classify`
    """
    from glassformer.cli.output import report
    from glassformer.cli.training_progress import TrainingProgress
    from glassformer.train import fit
    from glassformer.train.run_folder import RunFolder

    if list_:
        from glassformer.train.presets import about_preset, preset_names

        names = preset_names()
        lines = [f"{name:{max(map(len, names))}}  {about_preset(name)}" for name in names]
        report({"presets": names}, "\n".join(lines), as_json=json)
        return
    flags = {
        "task": task or None,
        "training.epochs": epochs,
        "training.batch": batch,
        "optimiser.lr": lr,
        "training.seed": seed,
        "engine.name": engine or None,
        "engine.threads": threads,
        "engine.rng": rng or None,
        "engine.deterministic": deterministic or None,
    }
    several = parse_seeds(seeds) if seeds else ()
    with TrainingProgress() as progress:
        signal.signal(signal.SIGINT, progress.stop_soon)
        if resume:
            refuse({"data": data, "seeds": seeds, "set": set_, "recipe": recipe, "out": out, "from": from_, **flags})
            result = fit.resume(resume, progress.announce_resume(resume, RunFolder(resume).recipe()))
        else:
            if from_ and (preset or recipe):
                raise typer.BadParameter("the run brings its recipe; name no other beside it", param_hint="--from")
            source = recipe or from_ or preset or DEFAULT
            chosen, data_set = choose(source, data, set_ or [], flags, is_run=bool(from_))
            name = f"{from_.absolute().name}-{task or 'more'}" if from_ else Path(source).stem
            folder = out or fit.new_folder(name)
            listener = progress.announce(folder, chosen, data_set, several)
            if several:
                result = fit.train_many(chosen, data_set, folder, several, listener)
            else:
                result = fit.train(chosen, data_set, folder, listener)
    report(result, as_text(result), as_json=json)


def choose(
    source: str | Path, data: str, changes: list[str], flags: dict[str, Any], *, is_run: bool = False
) -> tuple["Recipe", "Dataset"]:
    """The recipe (preset, file or run, then --set, then flags) resolved for its data, and the data."""
    from glassformer.train import presets
    from glassformer.train.resolve import lasting_name, load_for, resolved
    from glassformer.train.settings import with_change, with_changes
    from glassformer.train.warm_start import recipe_from, tokeniser_from

    def read(images: int) -> "Recipe":
        if is_run:
            found = recipe_from(source)
        elif isinstance(source, Path):
            found = presets.recipe_file(source, images)
        else:
            found = presets.preset(source, images)
        found = with_changes(found, changes)
        for name, value in flags.items():
            if value is not None:
                found = with_change(found, name, value, name)
        return found

    named = read(0)
    data_set = load_for(named, data or named.data, tokeniser_from(source) if is_run else None)
    recipe = read(len(data_set.train[0]))
    return resolved(with_change(recipe, "data", lasting_name(data_set.name), "data"), data_set), data_set


def refuse(options: dict[str, Any]) -> None:
    """A resumed run keeps its recipe: whatever else was asked for would be ignored."""
    given = [name for name, value in options.items() if value not in (None, "", [])]
    if given:
        raise typer.BadParameter(
            f"a run goes on with its own recipe; {', '.join(given)} cannot be changed", param_hint="--resume"
        )


def parse_seeds(text: str) -> tuple[int, ...]:
    """`0-4` or `1,5,7`."""
    try:
        first, dash, last = text.partition("-")
        seeds = tuple(range(int(first), int(last) + 1)) if dash else tuple(int(seed) for seed in text.split(","))
    except ValueError:
        seeds = ()
    if len(seeds) < 2 or len(set(seeds)) < len(seeds):
        raise typer.BadParameter(
            f"{text!r} came, expected two or more different seeds: 0-4 or 1,5,7", param_hint="--seeds"
        )
    return seeds


def as_text(result: dict[str, Any]) -> str:
    lines = []
    if "runs" in result:
        lines += [f"  seed {run['seed']:<4} {outcome(run)}" for run in result["runs"]]
        count = f"(standard deviation over {len(result['runs'])} seeds)"
        spread = f" ± {100 * result['test_accuracy_std']:.2f} {count}", f" ± {result['test_loss_std']:.4f} {count}"
    else:
        spread = "", ""
    lines.append(f"test accuracy {percent(result['test_accuracy'])}{spread[0]}")
    if result["task"] in BY_LOSS:
        lines.insert(-1, f"test loss {result['test_loss']:.4f} nats{spread[1]}")
    if result["val_accuracy"] is not None:
        lines.append(f"validation accuracy {percent(result['val_accuracy'])}")
    lines.append(
        f"{result['epochs']} epochs in {result['train_seconds']:.1f} s, {result['parameters']:,} parameters, "
        f"engine {result['engine']}, run {result['run']}"
    )
    return "\n".join(lines)


def outcome(run: dict[str, Any]) -> str:
    loss = f"test loss {run['test_loss']:.4f}, " if run["task"] in BY_LOSS else ""
    return f"{loss}test accuracy {percent(run['test_accuracy'])}"


BY_LOSS = ("next-token", "masked")


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"
