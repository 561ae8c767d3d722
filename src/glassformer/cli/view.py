"""glassformer view: one input through a trained model, forward and backward, as a page to look at."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.lens.trace_input import TraceInput
    from glassformer.predict.run import Run


def view(
    run: Annotated[
        Path, typer.Argument(help="folder written by `glassformer train`; - for the model that comes along")
    ],
    input_: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="PNG, JPEG, …, one image of an IDX file (file:17); for a run that reads texts a text, @file.txt for "
            "that of a file; for one of a table a row: 5.1,3.5; or test:17 of the run's data",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="page to write, .html")] = Path("page.html"),
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Write a page that shows every number of one input: its way through the model, and the gradient's way back.

    The page is one file and needs no network: open it in any browser, send it to anyone.

    Example: `glassformer view runs/vit-nano-1 test:17 --out page.html`
    """
    from glassformer.cli.output import report
    from glassformer.files import write_whole
    from glassformer.lens.page import page
    from glassformer.lens.payload import view as traced
    from glassformer.predict.run import load

    loaded = load("" if str(run) == "-" else run)
    shown = traced(loaded, trace_input_of(loaded, input_))
    content = page(shown)
    write_whole(out, content)
    result = {
        "out": str(out),
        "run": str(loaded.path),
        "input": input_,
        "loss": shown["answer"]["loss"],
        "tensors": len(shown["tensors"]),
        "left_out": shown["left_out"],
        "bytes": len(content.encode()),
    }
    lines = [f"wrote {out}: {result['tensors']} tensors, {result['bytes'] / 1e6:.1f} MB, loss {result['loss']:.4f}"]
    if shown["half"]:
        lines.append("numbers are written in 16 bits: about three digits are exact")
    if shown["left_out"]:
        lines.append(f"left out, as too large for a page: {', '.join(shown['left_out'])}")
    report(result, "\n".join(lines), as_json=json)


def trace_input_of(run: "Run", word: str) -> "TraceInput":
    from glassformer.cli.predict_texts import read, text_file
    from glassformer.data.dataset import TEXTS
    from glassformer.data.prepare import read_pictures
    from glassformer.errors import DataError
    from glassformer.lens.trace_input import image_input, reads_images, text_input

    if reads_images(run):
        pictures = read_pictures(word, run.images.shape, run.recipe.data)
        if len(pictures) > 1:
            raise DataError(f"{word}: holds {len(pictures):,} images; say which one, such as {word}:0")
        return image_input(run, pictures[0].name, pictures[0].image, pictures[0].label)
    if run.model.input.reads == TEXTS and (word.startswith("@") or word == "-"):
        text = (sys.stdin.read() if word == "-" else text_file(word)).removesuffix("\n")  # all its lines are one text
        if not text.strip():
            raise DataError(f"{word}: holds no text; a page shows one")
        return text_input(run, word, text)
    given = list(read(run, word))
    if len(given) != 1:
        raise DataError(f"{word}: holds {len(given)} rows, one a line; a page shows one")
    expected = given[0].expected
    return text_input(run, given[0].name, given[0].text, None if isinstance(expected, dict) else expected)
