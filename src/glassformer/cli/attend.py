"""glassformer attend: where a trained model looks, as a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.attend_texts import GRADIENT, Wanted, attend_texts
from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.lens.attention import Panel, Query
    from glassformer.predict.run import Run


def attend(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN] INPUT [TARGET]",
            help="a run folder (or --run; - for the model that comes along), then PNG, JPEG, …, one image of an IDX "
            "file (file:17), a text, or test:17 of the run's data; for a T5 also what it is made to write",
        ),
    ],
    run: Annotated[
        Path | None, typer.Option(help="folder written by `glassformer train` (default: the model that comes along)")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            "-q",
            help="whose attention: a patch ROW,COLUMN from 0,0; class; distillation (DeiT); of texts a token from 0; "
            "last; or mean, of all",
        ),
    ] = None,
    gradient: Annotated[
        bool, typer.Option("--gradient", help="gradient x attention: only what speaks for the answer")
    ] = False,
    rollout: Annotated[bool, typer.Option("--rollout", help="add all blocks together, residuals counted")] = False,
    kind: Annotated[
        Literal["self", "causal", "cross"] | None, typer.Option(help="texts: only attention of this kind")
    ] = None,
    block: Annotated[int | None, typer.Option(help="only this block, from 0")] = None,
    head: Annotated[int | None, typer.Option(help="only this head, from 0")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="picture to write, .png")] = Path("attention.png"),
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Draw the attention of a model over an image or a text: one panel per block and head.

    Over an image bright patches are looked at more; 1x is the even share: what every patch gets if none stands out.
    Over a text rows are the tokens that look, columns those that are looked at; the terminal shows a line per head.

    Example: `glassformer attend test:17 --query 3,2 --rollout --out attention.png`,
    `glassformer attend runs/gpt-nano-1 "for item in " --gradient`,
    `glassformer attend runs/t5-nano-1 "<de> 5. September 2024" --kind cross`
    """
    from glassformer.cli.output import report
    from glassformer.files import write_whole
    from glassformer.predict.run import load

    run, words = run_and_words(run, words)
    loaded = load(run or "")
    wanted = Wanted(query, rollout, gradient, kind, block, head)
    show = attend_image if loaded.model.input.reads == "images" else attend_texts
    result, text, png = show(loaded, words, wanted, out)
    write_whole(out, png)
    report(result, text, as_json=json)


def run_and_words(run: Path | None, words: list[str]) -> tuple[Path | None, list[str]]:
    """The first word may be the run folder, or - for the model that comes along, where something comes behind it."""
    if run is None and len(words) > 1 and words[0] == "-":
        return None, words[1:]
    if run is None and len(words) > 1 and (Path(words[0]).expanduser() / "recipe.toml").is_file():
        return Path(words[0]).expanduser(), words[1:]
    return run, words


def attend_image(run: "Run", words: list[str], wanted: Wanted, out: Path) -> tuple[dict[str, Any], str, bytes]:
    """The result, the same for people, and the picture."""
    from glassformer.data.prepare import read_pictures
    from glassformer.errors import DataError
    from glassformer.lens import attention
    from glassformer.probabilities import softmax

    if wanted.kind not in (None, "self"):
        raise typer.BadParameter(f"{wanted.kind} came, and over an image there is only self", param_hint="--kind")
    model = run.model
    chosen = parse_query(wanted.query or usual_query(model, wanted.gradient))
    if len(words) > 1:
        raise DataError(f"attend: {len(words)} inputs came ({', '.join(words)}), expected one")
    pictures = read_pictures(words[0], run.images.shape, run.recipe.data)
    if len(pictures) > 1:
        raise DataError(f"{words[0]}: holds {len(pictures):,} images; say which one, such as {words[0]}:0")
    batch = pictures[0].image[None]
    logits = run.logits(batch)[0]
    best, name = int(logits.argmax()), Path(words[0]).name
    probability = None if run.gives_numbers else float(softmax(logits)[best])
    maps, rolled = maps_of(run, batch, best, wanted)
    blocks = attention.chosen(attention.panels(model, maps, chosen), wanted.block, wanted.head)
    over_all = attention.panel(model, "rollout", "rollout over all blocks", None, rolled, chosen)
    if wanted.gradient:
        blocks, over_all = [[one.as_shares() for one in row] for row in blocks], over_all.as_shares()
    result = {
        "out": str(out),
        "run": str(run.path),
        "image": pictures[0].name,
        "done": pictures[0].done,
        "class": run.classes[best],
        "probability": probability,
        "query": wanted.query or usual_query(model, wanted.gradient),
        "shows": GRADIENT if wanted.gradient else "attention",
        "heads": [as_plain(one) for row in blocks for one in row],
        "rollout": as_plain(over_all) if wanted.rollout else None,
    }
    whose = describe(chosen, wanted.gradient, result["class"])
    if probability is None:
        reads = f"{run.path.name} says {result['class']} {logits[best]:.6g} of {name}"
    else:
        reads = f"{run.path.name} sees {result['class']} in {name} ({100 * probability:.1f} %)"
    title = f"{reads}\n{whose[0].upper()}{whose[1:]}"
    png = attention.picture(
        batch[0], blocks, over_all if wanted.rollout else None, chosen, title, scale=result["shows"]
    )
    return result, f"{reads}\n{', '.join(result['done'])}\nwrote {out}: {whose}", png


def maps_of(run: "Run", batch: Any, best: int, wanted: Wanted) -> tuple[dict[str, Any], Any]:
    """Of every block, and of all together (T, T): attention, or how much of it speaks for the class."""
    import numpy as np

    from glassformer.lens import attention
    from glassformer.lens.attention_rollout import rolled
    from glassformer.lens.gradient_attention import averaged, fetched, gradient_attention
    from glassformer.lens.trace import trace

    model: Any = run.model
    if not wanted.gradient:
        maps = attention.attention_maps(model, run.params, batch)
        return maps, attention.rollout(maps)[0]
    dy = np.zeros((1, len(run.classes)), np.float32)
    dy[0, best] = 1
    seen = trace(model, run.params, batch, dy=dy)
    attention.patterns(model, seen.values)  # a model without attention is refused
    maps = gradient_attention(seen)
    return maps, fetched(rolled(model, averaged(maps), s=1))["self"][0]


def usual_query(model: Any, gradient: bool) -> str:
    """The gradient comes in through the class token alone, where there is one."""
    from glassformer.layers import ClassToken
    from glassformer.structure import structure

    return "class" if gradient and structure(model).first(ClassToken) else "mean"


def parse_query(text: str) -> "Query":
    if text == "mean" or text == "class" or text == "distillation":
        return text
    row, _, column = text.partition(",")
    if not (row.strip().isdecimal() and column.strip().isdecimal()):
        raise typer.BadParameter(
            f"{text!r} came, expected ROW,COLUMN such as 3,2, or class, distillation or mean", param_hint="--query"
        )
    return int(row), int(column)


def describe(query: "Query", gradient: bool = False, name: str = "") -> str:
    what = f"how much looking at each patch speaks for {name}" if gradient else "attention that each patch receives"
    if query == "mean":
        return f"{what}, averaged over all patches that ask"
    asking = f"the {query} token" if isinstance(query, str) else f"the framed patch ({query[0]},{query[1]})"
    return f"{what} from {asking}" if not gradient else f"{what}, asked by {asking}"


def as_plain(panel: "Panel") -> dict[str, Any]:
    in_front = {"class_share": None} | {f"{name}_share": share for name, share in panel.in_front.items()}
    return {"name": panel.name, "head": panel.head, "shares": panel.shares.tolist(), **in_front}
