"""glassformer bench fine-tuning: pre-trained against fresh weights, on few labels, seed by seed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.bench.fine_tuning import Result


def fine_tuning(
    tasks: Annotated[list[str] | None, typer.Argument(help="classify (places), tag (dates) (default: both)")] = None,
    seeds: Annotated[str, typer.Option(help="0-7 or 1,5,7; both arms have the same")] = "0-7",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="keep the runs in this folder")] = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """BERT that has read the unlabelled text first, beside the same BERT from fresh weights: both learn few labels. And
    how much of the gain an adapter (LoRA) keeps.

    Example: `glassformer bench fine-tuning tag --seeds 0-7`
    """
    import tempfile

    from glassformer.bench.fine_tuning import TUNINGS, compare
    from glassformer.bench.training import check_names
    from glassformer.cli.output import report
    from glassformer.cli.train import parse_seeds
    from glassformer.cli.training_progress import TrainingProgress

    known = {tuning.task: tuning for tuning in TUNINGS}
    names = tasks or list(known)
    check_names("fine-tuning", names, tuple(known))
    with tempfile.TemporaryDirectory() as scratch, TrainingProgress() as progress:
        chosen = tuple(known[name] for name in names)
        results = list(compare(chosen, parse_seeds(seeds), out or Path(scratch), progress))
    report({"seeds": seeds, "tasks": [r.plain() for r in results]}, "\n\n".join(map(as_text, results)), as_json=json)


def as_text(result: "Result") -> str:
    from statistics import mean, stdev

    tuning = result.tuning
    low, high = (100 * end for end in result.interval)
    lines = [
        f"{tuning.data}: {tuning.task}, {tuning.labelled:,} labelled samples, {tuning.epochs} epochs, "
        f"{len(result.tuned)} seeds",
        f"  reading first   masked loss {result.masked_loss:.3f} nats a symbol; their frequencies alone leave "
        f"{result.unigram:.3f}",
    ]
    for name, scores in ("fresh weights", result.scratch), ("pre-trained", result.tuned):
        lines.append(f"  {name:14}  test accuracy {100 * mean(scores):.2f} ± {100 * stdev(scores):.2f} %")
    difference = 100 * mean(result.differences)
    lines.append(f"  difference      {difference:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f} (paired)")
    return "\n".join([*lines, *adapter_lines(result)])


def adapter_lines(result: "Result") -> list[str]:
    """What of the gain is kept where only an adapter and the head learn."""
    from statistics import mean, stdev

    low, high = (100 * end for end in result.kept_interval)
    full, adapter = result.optimiser_bytes
    return [
        f"  lora, rank {result.tuning.lora.rank:<2}   test accuracy {100 * mean(result.lora):.2f} ± "
        f"{100 * stdev(result.lora):.2f} %",
        f"  of the gain     {100 * result.kept:.0f} %, 95 % interval {low:.0f} to {high:.0f} (paired)",
        f"  learning        {result.learning:,} of {result.parameters:,} parameters "
        f"({100 * result.learning / result.parameters:.1f} %), optimiser memory {adapter:,} bytes for {full:,}",
    ]
