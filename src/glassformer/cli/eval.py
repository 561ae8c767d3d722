"""glassformer eval: score a trained run on a data set."""

from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from glassformer.cli.code import Code
from glassformer.cli.eval_int8 import int8_result
from glassformer.cli.eval_weights import weights_result

if TYPE_CHECKING:
    from glassformer.data import Dataset
    from glassformer.predict.run import Evaluation, Run

MANY = 30  # classes: a confusion matrix of more is left to --json and --png
LONG_NAME = 4  # letters: columns are headed by numbers where a class has a longer name


def eval_(
    run: Annotated[
        Path | None, typer.Argument(help="folder written by `glassformer train` (default: the model that comes along)")
    ] = None,
    data: Annotated[str, typer.Option("--data", "-d", help="data set name, or a path (default: the run's)")] = "",
    png: Annotated[Path | None, typer.Option(help="draw the confusion matrix into this file")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="what a device answers after `export --to c --int8`")] = False,
    keep_float: Annotated[list[str] | None, typer.Option(help="with --int8: layers that stay float")] = None,
    weights: Annotated[
        Literal["float32", "bf16", "int8"],
        typer.Option(help="of a language model: what `generate --weights` costs in loss, beside float32"),
    ] = "float32",
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Score a run on the test part of a data set: accuracy, loss, a table per class, the confusion matrix.

    A task without classes has a loss (a language model's also as perplexity), and translations and spans match or not.

    Example: `glassformer eval runs/vit-nano-1 --data mnist --png confusion.png`

    Example: `glassformer eval runs/vit-pico-1 --int8`: calibrated on training data, beside the float model

    Example: `glassformer eval runs/gpt-nano-1 --weights int8`: what writing from int8 weights costs
    """
    from glassformer.cli.output import report
    from glassformer.files import write_whole
    from glassformer.predict.run import load
    from glassformer.train.tasks import Tag

    loaded = load(run or "")
    name, task = data or loaded.recipe.data, loaded.recipe.task.name
    has_classes = loaded.recipe.output_axis == "classes"
    if png and not has_classes:
        raise typer.BadParameter(f"the task {task} has no classes that could be confused", param_hint="--png")
    data_set = loaded.load_data(name)
    count, what = counted(loaded, data_set)
    heading = f"{loaded.path.name} on the {count:,} test {what} of {name}"
    result = {"count": count, "task": task, "data": name, "run": str(loaded.path), "png": str(png) if png else None}
    if int8:
        if png:
            raise typer.BadParameter("--int8 draws no confusion matrix; leave --png out", param_hint="--png")
        if weights != "float32":
            raise typer.BadParameter("--int8 is of devices; leave one of them out", param_hint="--weights")
        found, text = int8_result(loaded, data_set, keep_float or [])
        report(found | result, f"{heading}\n{text}", as_json=json)
        return
    if keep_float:
        raise typer.BadParameter("it belongs to --int8; add it", param_hint="--keep-float")
    if weights != "float32":
        found, text = weights_result(loaded, data_set, weights)
        report(found | result, f"{heading}\n{text}", as_json=json)
        return
    if not has_classes:
        scores = scores_of(loaded, data_set)
        report(scores | result, f"{heading}\n{score_text(scores)}", as_json=json)
        return
    found = evaluation_of(loaded, data_set)
    if png:
        write_whole(png, confusion_picture(found, f"{loaded.path.name} on {Path(name).name}"))
    text = f"{heading}\n{as_text(found, of_symbols=isinstance(loaded.recipe.task, Tag))}"
    report(as_plain(found) | result, f"{text}\n\nwrote {png}" if png else text, as_json=json)


def counted(run: "Run", data: "Dataset") -> tuple[int, str]:
    """How many test samples there are, and what they are called."""
    from glassformer.train.tasks import Masked, NextToken

    count, given = run.recipe.task.count(data.test), cast(Any, run.model.input)
    if given.reads != "texts":
        return count, given.reads.partition(" ")[0]
    if isinstance(run.recipe.task, NextToken):
        return count, f"windows of {given.context} symbols"
    if run.recipe.task.together:
        return count, "pairs"
    return count, "pieces" if isinstance(run.recipe.task, Masked) else "texts"


def evaluation_of(run: "Run", data: "Dataset") -> "Evaluation":
    if data.classes != run.classes:
        typer.echo(
            f"note: the classes of {data.name} have other names than the run's; labels are compared by number", err=True
        )
    return run.evaluate(*data.test) if run.model.input.reads == "images" else run.evaluate_samples(data.test)


def scores_of(run: "Run", data: "Dataset") -> dict[str, Any]:
    """Of a task without classes. Exact match is an accuracy that counts whole answers."""
    from glassformer.train.tasks import NextToken

    task, score = run.recipe.task, run.score(data)
    more = {"exact_match": score.accuracy} if task.whole else {}
    if task.together:
        more["recall@1"] = score.accuracy
    if isinstance(task, NextToken):
        more["perplexity"] = exp(score.loss)
    return {"accuracy": score.accuracy, "loss": score.loss, **more}


def score_text(scores: dict[str, Any]) -> str:
    if scores["accuracy"] is None:  # of numbers: nothing is right or wrong, and the loss has no unit
        return f"loss {scores['loss']:.6g}"
    words = next((name.replace("_", " ") for name in ("exact_match", "recall@1") if name in scores), "accuracy")
    unlikely = f" (perplexity {scores['perplexity']:.2f})" if "perplexity" in scores else ""
    return f"{words} {percent(scores['accuracy'])}   loss {scores['loss']:.4f} nats{unlikely}"


def as_plain(found: "Evaluation") -> dict[str, Any]:
    return {
        "accuracy": found.accuracy,
        "loss": found.loss,
        "classes": list(found.classes),
        "per_class": found.per_class,
        "confusion": found.confusion.tolist(),  # rows are labels, columns what was predicted
    }


def as_text(found: "Evaluation", *, of_symbols: bool = False) -> str:
    counts = "; each symbol counts by itself" if of_symbols else ""
    parts = [f"accuracy {percent(found.accuracy)}   loss {found.loss:.4f}{counts}", class_table(found)]
    if len(found.classes) <= MANY:
        parts.append("confusion: a row is a label, a column what was predicted\n" + confusion_table(found))
    return "\n\n".join(parts)


def class_table(found: "Evaluation") -> str:
    width = max(len("class"), *map(len, found.classes))
    lines = [f"{'class':{width}}  {'count':>7}  {'recall':>8}  {'precision':>9}"]
    for row in found.per_class:
        recall, precision = (percent(row[column]) for column in ("recall", "precision"))
        lines.append(f"{row['class']:{width}}  {row['count']:7,}  {recall:>8}  {precision:>9}")
    return "\n".join(lines)


def confusion_table(found: "Evaluation") -> str:
    heads, rows = axis_names(found.classes)
    left = max(map(len, rows))
    width = max(len(str(found.confusion.max())), *map(len, heads))
    lines = [" ".join([" " * left, *(f"{head:>{width}}" for head in heads)])]
    for name, counts in zip(rows, found.confusion, strict=True):
        lines.append(" ".join([f"{name:{left}}", *(f"{count or '.':>{width}}" for count in counts)]))
    return "\n".join(lines)


def axis_names(classes: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Of the columns and of the rows: long names would make columns too wide, so they are numbered on both sides."""
    if max(map(len, classes)) <= LONG_NAME:
        return list(classes), list(classes)
    numbers = [str(i) for i in range(len(classes))]
    return numbers, [f"{number:>{len(numbers[-1])}} {name}" for number, name in zip(numbers, classes, strict=True)]


def confusion_picture(found: "Evaluation", title: str) -> bytes:
    """A PNG. The colour is the share of its row, on a scale that lets a handful of mistakes be seen."""
    import io

    import numpy as np
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(found.classes)
    heads, rows = axis_names(found.classes)
    shares = found.confusion / np.maximum(found.confusion.sum(axis=1, keepdims=True), 1)
    shades = shares**0.4  # 1 % of a row is then a sixth of the way, not a hundredth
    side = 0.48 * count + 1.6
    figure = Figure(figsize=(side + 0.08 * max(map(len, rows)), side), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.imshow(colormaps["Blues"](0.9 * shades))
    for i, j in np.argwhere(found.confusion):
        colour = "white" if shades[i, j] > 0.6 else "#222222"
        weight = "bold" if i == j else "normal"
        axes.text(j, i, str(found.confusion[i, j]), ha="center", va="center", color=colour, size=9, weight=weight)
    axes.set_xticks(range(count), heads)
    axes.set_yticks(range(count), rows)
    axes.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#dddddd", linewidth=0.6)
    axes.tick_params(which="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"{title}: {100 * found.accuracy:.2f} % right", size=11)
    axes.set(xlabel="predicted", ylabel="label")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    return picture.getvalue()


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"
