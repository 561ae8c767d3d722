"""glassformer bench: measure against peers and against ourselves, as ratios in one run."""

from dataclasses import asdict
from typing import Annotated

import typer

bench = typer.Typer(
    help="Measure speed, always as a ratio in the same run. Example: `glassformer bench gradients`",
    no_args_is_help=True,
)


@bench.callback()
def benchmarks() -> None:
    pass


@bench.command()
def gradients(
    steps: Annotated[int, typer.Option(min=1, help="training steps in one timed run")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="timed runs of each side; the median counts")] = 15,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """One training step with the written-out backward beside the same step by jax.grad.

    Example: `glassformer bench gradients --rounds 31`
    """
    from glassformer.bench.gradients import CONTESTS, compare
    from glassformer.cli.output import progress, report

    results = list(progress(compare(steps, rounds), len(CONTESTS), "measuring"))
    lines = ["model                  batch  explicit ms/step  autodiff ms/step  ratio"]
    lines += [
        f"{r.model:21}  {r.batch:5}  {r.explicit_ms:16.3f}  {r.autodiff_ms:16.3f}  {r.ratio:5.2f}" for r in results
    ]
    lines.append(
        f"ratio above 1: written-out gradients are faster; median of {rounds} runs of {steps} steps, taking turns"
    )
    report({"models": [asdict(r) | {"ratio": r.ratio} for r in results]}, "\n".join(lines), as_json=json)
