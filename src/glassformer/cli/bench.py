"""glassformer bench: measure against peers and against ourselves, as ratios in one run."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.bench.training import Result

bench = typer.Typer(
    help="Measure speed, always as a ratio in the same run. Example: `glassformer bench train attention-pool`",
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


@bench.command()
def train(
    presets: Annotated[list[str] | None, typer.Argument(help="presets to compare (default: all)")] = None,
    steps: Annotated[int, typer.Option(min=1, help="training steps in one timed run")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="timed runs of each side; the median counts")] = 11,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """One training step beside the same step in PyTorch: eager, fused attention, compiled.

    Ours starts from bytes, PyTorch from patches that are cut beforehand. Without PyTorch only ours is measured.

    Example: `glassformer bench train attention-pool`
    """
    from glassformer.bench.training import PRESETS, Contest, check_names, torch_version
    from glassformer.cli.output import progress, report

    names = presets or list(PRESETS)
    check_names(names)
    results = []
    for name in names:
        contest = Contest(name, steps)
        for _ in progress(contest.run(rounds), rounds + 1, name):
            pass
        results.append(contest.result())
    how = f"median of {rounds} runs of {steps} steps, taking turns on the CPU; compiling is not counted"
    answer = {"torch": torch_version(), "steps": steps, "rounds": rounds, "presets": [r.plain() for r in results]}
    report(answer, "\n".join([*training_table(results), how, *training_notes(results)]), as_json=json)


def training_table(results: list["Result"]) -> list[str]:
    modes = list(results[0].peers_ms)
    head = "".join(f"{mode:>10}" for mode in modes) + "      best  ratio" * bool(modes)
    lines = [f"{'ms per step':18}  batch      ours{head}"]
    for r in results:
        theirs = "".join(f"{r.peers_ms[mode]:10.3f}" for mode in modes)
        verdict = f"  {r.best:>8}  {r.ratio:5.2f}" if r.ratio else ""
        lines.append(f"{r.preset:18}  {r.batch:5}{r.ours_ms:10.3f}{theirs}{verdict}")
    return lines


def training_notes(results: list["Result"]) -> list[str]:
    from glassformer.bench.training import UNSTEADY

    modes, notes = results[0].peers_ms, []
    if modes:
        notes.append("ratio above 1: ours is faster than PyTorch's best mode")
        notes.append("ours starts from bytes, which it gathers, scales and cuts; PyTorch from patches cut beforehand")
    else:
        notes.append("PyTorch is not installed, so ours stands alone: `pip install glassformer[parity]`")
    if modes and "compiled" not in modes:
        notes.append("PyTorch finds no C++ compiler (CXX, g++, clang++), so it is not measured compiled")
    spread = max(r.spread for r in results)
    if spread > UNSTEADY:
        notes.append(f"unsteady: the slowest run of one side took {spread:.1f} times its fastest; is the machine busy?")
    return notes
