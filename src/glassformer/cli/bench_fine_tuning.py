"""glassformer bench fine-tuning: pre-trained against fresh weights, on few labels, seed by seed."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glassformer.bench.contrastive import Result as Retrieval
    from glassformer.bench.fine_tuning import Result


def fine_tuning(
    tasks: Annotated[
        list[str] | None, typer.Argument(help="classify (places), tag (dates), contrast (names) (default: all)")
    ] = None,
    seeds: Annotated[str, typer.Option(help="0-7 or 1,5,7; both arms have the same")] = "0-7",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="keep the runs in this folder")] = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """BERT that has read the unlabelled text first, beside the same BERT from fresh weights: both learn few labels. And
    how much of the gain an adapter (LoRA) keeps.

    Of contrast: how often the nearest neighbour of a name is its partner, before tuning on pairs and after. A
    pre-trained BERT that lies in --out is taken.

    Example: `glassformer bench fine-tuning tag --seeds 0-7`
    """
    import tempfile

    from glassformer.bench.contrastive import PAIRS, compare_retrieval
    from glassformer.bench.fine_tuning import TUNINGS, compare
    from glassformer.bench.training import check_names
    from glassformer.cli.output import report
    from glassformer.cli.train import parse_seeds
    from glassformer.cli.training_progress import TrainingProgress

    known = {tuning.task: tuning for tuning in TUNINGS}
    names = tasks or [*known, PAIRS.task]
    check_names("fine-tuning", names, (*known, PAIRS.task))
    with tempfile.TemporaryDirectory() as scratch, TrainingProgress() as progress:
        several, folder = parse_seeds(seeds), out or Path(scratch)
        chosen = tuple(known[name] for name in names if name in known)
        results: list[Any] = list(compare(chosen, several, folder, progress))
        texts = [*map(as_text, results)]
        if PAIRS.task in names:
            results.append(compare_retrieval(PAIRS, several, folder, progress))
            texts.append(retrieval_text(results[-1]))
    report({"seeds": seeds, "tasks": [result.plain() for result in results]}, "\n\n".join(texts), as_json=json)


def as_text(result: "Result") -> str:
    tuning = result.tuning
    lines = [
        f"{tuning.data}: {tuning.task}, {tuning.labelled:,} labelled samples, {tuning.epochs} epochs, "
        f"{len(result.tuned)} seeds",
        f"  reading first   masked loss {result.masked_loss:.3f} nats a symbol; their frequencies alone leave "
        f"{result.unigram:.3f}",
    ]
    arms = {"fresh weights": result.scratch, "pre-trained": result.tuned}
    return "\n".join([*lines, *arm_lines(arms, "test accuracy", result), *adapter_lines(result)])


def retrieval_text(result: "Retrieval") -> str:
    tuning = result.tuning
    head = (
        f"{tuning.data}: {tuning.task}, {tuning.epochs} epochs of {tuning.samples:,} pairs, {len(result.after)} seeds, "
        f"{result.candidates:,} test pairs"
    )
    before = f"  pre-trained     recall@1 {100 * result.before:.2f} %"
    return "\n".join([head, before, *arm_lines({"tuned on pairs": result.after}, "recall@1", result)])


def arm_lines(arms: dict[str, tuple[float, ...]], measure: str, result: "Result | Retrieval") -> Iterator[str]:
    from statistics import mean, stdev

    for name, scores in arms.items():
        yield f"  {name:14}  {measure} {100 * mean(scores):.2f} ± {100 * stdev(scores):.2f} %"
    low, high = (100 * end for end in result.interval)
    difference = 100 * mean(result.differences)
    how = " (paired)" if len(arms) > 1 else " (one pre-training for all seeds)"
    yield f"  difference      {difference:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}{how}"


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
