"""glassformer trace: every number of one input's way through a trained model, by name."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.code import Code

if TYPE_CHECKING:
    from glassformer.lens import Trace
    from glassformer.lens.trace_input import TraceInput
    from glassformer.predict.run import Run

SHOWN = 8  # labels that are named


def trace(
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
    match: Annotated[
        str | None, typer.Option("--match", "-m", help="only names like this: '*.pattern', 'blocks.0.attn.*'")
    ] = None,
    grad: Annotated[
        bool, typer.Option("--grad", "-g", help="the way back too: gradients of values and weights")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="arrays to write, .safetensors")] = None,
    code: Code = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """List what flows through a model: name, shape, mean, spread and norm of every value, and what stands out.

    Gradients are those of the loss: against the label that test:17 has, else against what the model itself answers.

    Example: `glassformer trace runs/vit-nano-1 test:17 --match '*.pattern' --grad --out trace.safetensors`
    """
    from glassformer import lens
    from glassformer.cli.output import report
    from glassformer.cli.view import trace_input_of
    from glassformer.lens.health import findings
    from glassformer.predict.run import load

    loaded = load("" if str(run) == "-" else run)
    trace_input = trace_input_of(loaded, input_)
    way_back = (
        {"labels": trace_input.labels, "weights": trace_input.weights, "loss": loaded.recipe.loss} if grad else {}
    )
    whole = lens.trace(loaded.model, loaded.params, trace_input.x, **way_back, **trace_input.keywords)
    found, shown = findings(whole), whole if match is None else whole.match(match)
    if out is not None:
        save(shown, out, run=str(loaded.path), input=input_)
    result = {
        "run": str(loaded.path),
        "input": input_,
        "loss": finite(whole.loss),
        "against": describe(loaded, trace_input) if grad else None,
        "values": as_plain(shown),
        "findings": found,
        "out": None if out is None else str(out),
    }
    lines = [shown.table(), ""]
    if grad:
        lines.append(f"gradients of the loss against {result['against']}")
    lines += [f"finding: {finding}" for finding in found] or ["findings: nothing stands out"]
    lines += [] if out is None else [f"wrote {out}: {len(shown)} arrays"]
    report(result, "\n".join(lines), as_json=json)


def describe(run: "Run", trace_input: "TraceInput") -> str:
    """Which labels the loss was taken against, and who says so."""
    from glassformer.train.tasks import Span

    def named(label: Any) -> str:
        if run.gives_numbers:
            return f"{label:.6g}"
        if isinstance(run.recipe.task, Span) or label >= len(trace_input.words):
            return str(label)  # a place in the text, or a symbol that nobody has named
        return trace_input.words[label] if trace_input.words == run.classes else repr(trace_input.words[label])

    labels = trace_input.labels.ravel()
    counted = labels if trace_input.weights is None else labels[trace_input.weights.ravel() > 0]
    more = f" and {len(counted) - SHOWN} more" if len(counted) > SHOWN else ""
    who = "the right answer" if trace_input.is_known else "the model's own answer"
    return f"{who}: {', '.join(map(named, counted[:SHOWN]))}{more}"


def as_plain(trace: "Trace") -> list[dict[str, Any]]:
    """One row for each array; null for a number that means nothing, or is not finite: JSON has none of those."""
    from glassformer.lens.trace import measures

    return [
        {
            "name": name,
            "part": part,
            "shape": list(array.shape),
            **{what: finite(value) for what, value in measures(array)._asdict().items()},
        }
        for part, section in trace.sections().items()
        for name, array in section.items()
    ]


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def save(trace: "Trace", out: Path, **about: str) -> None:
    from glassformer.train.weights import save_arrays

    save_arrays(out, {name: trace[name] for name in trace.names()}, about)
