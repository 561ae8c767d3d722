"""glassformer predict: what a trained model sees in pictures of any size, or makes of texts and rows of numbers."""

from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.code import Code
from glassformer.cli.predict_texts import best_classes, predict_texts

if TYPE_CHECKING:
    import numpy as np

    from glassformer.data.prepare import Picture

SHOWN = 10  # images of one IDX file in the text; --json has them all


def predict(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="PNG, JPEG, …, an IDX file (or one of its images: file:17); for a run that reads texts a text, - for "
            "the lines of stdin, @file.txt for those of a file; for one of a table a row: 5.1,3.5; or test:17 of the "
            "run's data",
        ),
    ],
    run: Annotated[
        Path | None, typer.Option(help="folder written by `glassformer train` (default: the model that comes along)")
    ] = None,
    invert: Annotated[
        Literal["auto", "yes", "no"],
        typer.Option(help="images: swap dark and light; auto: dark ink on light ground is swapped"),
    ] = "auto",
    engine: Annotated[
        Literal["auto", "native", "jax"], typer.Option(help="of texts; auto: C for an encoder on a CPU, else JAX")
    ] = "auto",
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Say which class each picture is, with probabilities, and what was done to the picture before the model saw it.

    Of texts, say what the run's task asks: their class, their parts, a span, what is under <mask>, what comes next,
    their translation, or the answer to a prompt.

    Example: `glassformer predict photo.jpg drawing.png --run runs/vit-nano-1`, `glassformer predict test:17`,
    `glassformer predict "<de> 5. September 2024" --run runs/t5-nano-1`
    """
    import numpy as np

    from glassformer.cli.output import note, report
    from glassformer.data.prepare import read_pictures
    from glassformer.predict.run import load

    loaded = load(run or "", engine=engine, notice=note)
    if loaded.model.input.reads != "images":
        if invert != "auto":
            raise typer.BadParameter(f"{loaded.path} reads no images", param_hint="--invert")
        report(*predict_texts(loaded, inputs), as_json=json)
        return
    if engine == "native":
        raise typer.BadParameter(f"{loaded.path} reads images, and only texts are read by C", param_hint="--engine")
    shape = loaded.images.shape
    files = [read_pictures(word, shape, loaded.recipe.data, invert) for word in inputs]
    images, say = np.stack([picture.image for picture in chain(*files)]), numbers if loaded.gives_numbers else answer
    answers = loaded.logits(images) if loaded.gives_numbers else loaded.probabilities(images)
    rows = iter([say(*both, loaded.classes) for both in zip(chain(*files), answers, strict=True)])
    parts = [list(islice(rows, len(pictures))) for pictures in files]
    report({"run": str(loaded.path), "images": list(chain(*parts))}, as_text(parts), as_json=json)


def answer(picture: "Picture", probabilities: "np.ndarray", classes: tuple[str, ...]) -> dict[str, Any]:
    best = int(probabilities.argmax())
    return {
        "image": picture.name,
        "class": classes[best],
        "probability": float(probabilities[best]),
        "probabilities": dict(zip(classes, probabilities.tolist(), strict=True)),
        "label": None if picture.label is None else classes[picture.label],
        "done": picture.done,
    }


def numbers(picture: "Picture", values: "np.ndarray", names: tuple[str, ...]) -> dict[str, Any]:
    """Of a regression."""
    found = dict(zip(names, values.tolist(), strict=True))
    return {"image": picture.name, "values": found, "label": picture.label, "done": picture.done}


def as_text(parts: list[list[dict[str, Any]]]) -> str:
    """One line per image, and below those to which the same was done, what that was."""
    width = max(len(row["image"]) for rows in parts for row in rows[:SHOWN])
    lines = []
    for rows in parts:
        for done, group in groupby(rows[:SHOWN], lambda row: row["done"]):
            lines += [f"{row['image']:{width}}  {found(row)}" for row in group]
            lines.append(f"{'':{width}}  {', '.join(done)}")
        if len(rows) > SHOWN:
            lines.append(f"and {len(rows) - SHOWN:,} more; --json gives them all")
    return "\n".join(lines)


def found(row: dict[str, Any]) -> str:
    if "values" in row:
        right = "" if row["label"] is None else f"   expected {', '.join(f'{value:.6g}' for value in row['label'])}"
        return ", ".join(f"{name} {value:.6g}" for name, value in row["values"].items()) + right
    label = "" if row["label"] is None else f"   labelled {row['label']}"
    return f"{best_classes(row['probabilities'])}{label}"
