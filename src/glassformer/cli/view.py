"""glassformer view: one input through a trained model, forward and backward, as a page to look at."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    weights: Annotated[
        str,
        typer.Option(
            help="none: no weights, a small page; shown: weights, their gradients worked out in the page where they "
            "follow from what is shown; all: weights and gradients, every number as the run has it"
        ),
    ] = "shown",
    device: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="show a device's own numbers, too: a command that speaks its lines (./device/build/desk), or a serial "
            "port (/dev/ttyACM0, /dev/ttyACM0:9600)",
        ),
    ] = None,
    device_timeout: Annotated[float, typer.Option(help="seconds that the device may be silent")] = 10.0,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """Write a page that shows every number of one input: its way through the model, and the gradient's way back.

    The page is one file and needs no network: open it in any browser, send it to anyone.

    Example: `glassformer view runs/vit-nano-1 test:17 --out page.html`

    Example: `glassformer export runs/vit-pico-1 --to c device --train full && make -C device desk`, then
    `glassformer view runs/vit-pico-1 test:17 --device ./device/build/desk`
    """
    from glassformer.cli.output import report
    from glassformer.edge.desk import device_numbers
    from glassformer.errors import SettingError
    from glassformer.files import write_whole
    from glassformer.lens.page import page
    from glassformer.lens.payload import KEPT
    from glassformer.lens.payload import view as traced
    from glassformer.predict.run import load

    if weights not in KEPT:
        raise SettingError(f"--weights: {weights!r} came, expected {', '.join(KEPT)}")
    loaded = load("" if str(run) == "-" else run)
    given = trace_input_of(loaded, input_)
    sent = device_numbers(loaded, given, device, device_timeout) if device is not None else None
    shown = traced(loaded, given, weights=weights, device=sent)
    content = page(shown)
    write_whole(out, content)
    result = {
        "out": str(out),
        "run": str(loaded.path),
        "input": input_,
        "loss": shown["answer"]["loss"],
        "tensors": len(shown["tensors"]),
        "left_out": shown["left_out"],
        "weights": shown["weights"],
        "what_if": shown["forward"]["reason"],
        "bytes": len(content.encode()),
    }
    loss = "" if result["loss"] is None else f", loss {result['loss']:.4f}"
    lines = [f"wrote {out}: {result['tensors']} tensors, {result['bytes'] / 1e6:.1f} MB{loss}"]
    if shown["half"]:
        lines.append("numbers are written in 16 bits: about three digits are exact")
    if shown["left_out"]:
        lines.append(f"left out, as too large for a page: {', '.join(shown['left_out'])}")
    if "device" in shown:
        result["device"] = {name: value for name, value in shown["device"].items() if name != "values"}
        lines += device_lines(shown["device"])
    if weights == "none":
        lines.append("weights are not in the page; gradients of weights are worked out in it where they can be")
    report(result, "\n".join(lines), as_json=json)


def device_lines(device: dict[str, Any]) -> list[str]:
    """Of each kind the value that differs most."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for one in device["compared"]:
        kinds.setdefault(one["kind"], []).append(one)
    lines = [f"{device['name']}, {device['source']}: largest differences from this run"]
    for kind, found in kinds.items():
        worst = max(found, key=lambda one: math.inf if one["largest"] is None else one["largest"])
        size = "not a number" if worst["largest"] is None else f"{worst['largest']:.1e}"
        place = f" in {worst['name']} {worst['where']}" if worst["where"] else ""
        lines.append(f"  {kind:<10} {size}{place}")
    return [*lines, *([f"  no loss and gradients: {device['without']}"] if device["without"] else [])]


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
