"""glassformer predict: what a trained model sees in pictures of any size."""

from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    import numpy as np

    from glassformer.data.prepare import Picture

SHOWN = 10  # images of one IDX file in the text; --json has them all
BEST = 3  # classes in the text


def predict(
    images: Annotated[
        list[str],
        typer.Argument(help="PNG, JPEG, …, an IDX file (or one of its images: file:17), or test:17 of the run's data"),
    ],
    run: Annotated[
        Path | None, typer.Option(help="folder written by `glassformer train` (default: the model that comes along)")
    ] = None,
    invert: Annotated[
        Literal["auto", "yes", "no"],
        typer.Option(help="swap dark and light; auto: dark ink on light ground is swapped"),
    ] = "auto",
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Say which class each picture is, with probabilities, and what was done to the picture before the model saw it.

    Example: `glassformer predict photo.jpg drawing.png --run runs/vit-nano-1`, `glassformer predict test:17`
    """
    import numpy as np

    from glassformer.cli.output import report
    from glassformer.data.prepare import read_pictures
    from glassformer.train.run import load

    loaded = load(run or "")
    shape = loaded.images.shape
    files = [read_pictures(word, shape, loaded.recipe.data, invert) for word in images]
    answers = loaded.probabilities(np.stack([picture.image for picture in chain(*files)]))
    rows = iter([answer(*both, loaded.classes) for both in zip(chain(*files), answers, strict=True)])
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


def as_text(parts: list[list[dict[str, Any]]]) -> str:
    """One line per image, and below those to which the same was done, what that was."""
    width = max(len(row["image"]) for rows in parts for row in rows[:SHOWN])
    lines = []
    for rows in parts:
        for done, group in groupby(rows[:SHOWN], lambda row: row["done"]):
            lines += [f"{row['image']:{width}}  {best_classes(row)}" for row in group]
            lines.append(f"{'':{width}}  {', '.join(done)}")
        if len(rows) > SHOWN:
            lines.append(f"and {len(rows) - SHOWN:,} more; --json gives them all")
    return "\n".join(lines)


def best_classes(row: dict[str, Any]) -> str:
    order = sorted(row["probabilities"].items(), key=lambda item: -item[1])
    width = max(map(len, row["probabilities"]))
    first, *others = (f"{name:{width}} {100 * share:5.1f} %" for name, share in order[:BEST])
    label = "" if row["label"] is None else f"   labelled {row['label']}"
    return f"{first}   then {', '.join(others)}{label}"
