"""glassformer attend: where a trained model looks, as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.lens.attention import Panel, Query


def attend(
    image: Annotated[
        str, typer.Argument(help="PNG, JPEG, …, one image of an IDX file (file:17), or test:17 of the run's data")
    ],
    run: Annotated[
        Path | None, typer.Option(help="folder written by `glassformer train` (default: the model that comes along)")
    ] = None,
    query: Annotated[
        str, typer.Option("--query", "-q", help="whose attention: a patch ROW,COLUMN from 0,0; class; or mean, of all")
    ] = "mean",
    rollout: Annotated[bool, typer.Option("--rollout", help="add all blocks together, residuals counted")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="picture to write, .png")] = Path("attention.png"),
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Draw the attention of a model over an image: one panel per block and head.

    Bright patches are looked at more. 1x is the even share: what every patch gets if none stands out.

    Example: `glassformer attend test:17 --query 3,2 --rollout --out attention.png`
    """
    chosen = parse_query(query)
    from glassformer.cli.output import report
    from glassformer.data.prepare import read_pictures
    from glassformer.errors import DataError
    from glassformer.files import write_whole
    from glassformer.lens import attention
    from glassformer.models.model import Model
    from glassformer.train.run import load

    loaded = load(run or "")
    if not isinstance(loaded.model, Model):
        raise DataError(
            f"attend: {loaded.path}: {type(loaded.model).__name__} reads no images, and only attention over images can "
            "be drawn yet; name a run that reads images, such as one of `glassformer train vit-nano`"
        )
    pictures = read_pictures(image, loaded.images.shape, loaded.recipe.data)
    if len(pictures) > 1:
        raise DataError(f"{image}: holds {len(pictures):,} images; say which one, such as {image}:0")
    batch = pictures[0].image[None]
    maps = attention.attention_maps(loaded.model, loaded.params, batch)
    blocks = attention.panels(loaded.model, maps, chosen)
    rolled = attention.rollout_panel(loaded.model, maps, chosen) if rollout else None
    probabilities = loaded.probabilities(batch)[0]
    best = int(probabilities.argmax())
    result = {
        "out": str(out),
        "run": str(loaded.path),
        "image": pictures[0].name,
        "done": pictures[0].done,
        "class": loaded.classes[best],
        "probability": float(probabilities[best]),
        "query": query,
        "heads": [as_plain(one) for row in blocks for one in row],
        "rollout": as_plain(rolled) if rolled else None,
    }
    whose = describe(chosen)
    reads = f"{loaded.path.name} sees {result['class']} in {Path(image).name} ({100 * result['probability']:.1f} %)"
    title = f"{reads}\n{whose[0].upper()}{whose[1:]}"
    write_whole(out, attention.picture(batch[0], blocks, rolled, chosen, title))
    report(result, f"{reads}\n{', '.join(result['done'])}\nwrote {out}: {whose}", as_json=json)


def parse_query(text: str) -> "Query":
    if text == "mean" or text == "class":
        return text
    row, _, column = text.partition(",")
    if not (row.strip().isdecimal() and column.strip().isdecimal()):
        raise typer.BadParameter(
            f"{text!r} came, expected ROW,COLUMN such as 3,2, or class, or mean", param_hint="--query"
        )
    return int(row), int(column)


def describe(query: "Query") -> str:
    if query == "mean":
        return "attention that each patch receives, averaged over all patches that ask"
    asking = "the class token" if query == "class" else f"the framed patch ({query[0]},{query[1]})"
    return f"attention that each patch receives from {asking}"


def as_plain(panel: "Panel") -> dict[str, Any]:
    return {"name": panel.name, "head": panel.head, "shares": panel.shares.tolist(), "class_share": panel.class_share}
