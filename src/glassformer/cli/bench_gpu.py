"""glassformer bench train gpt2-…, bench context: training a GPT-2 on a GPU."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from glassformer.bench.gpu_training import Result, Setting

GIB = 1 << 30


def context(
    sizes: Annotated[
        list[int] | None, typer.Argument(help="tokens of a sequence (default: 1024 4096 16384 32768)")
    ] = None,
    preset: Annotated[str, typer.Option(help="gpt2-124m, gpt2-350m, …")] = "gpt2-124m",
    tokens: Annotated[int, typer.Option(min=1, help="of a step, at every length")] = 32768,
    steps: Annotated[int, typer.Option(min=1, help="training steps in a turn")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="turns of each length; the median counts")] = 3,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """How training a GPT-2 grows with the length of a sequence, on a GPU: tokens a second, memory, the exponent.

    The last length is measured a second time with twice as many sequences: what memory grows with is tokens.

    Example: `glassformer bench context 1024 8192`
    """
    from glassformer.bench.gpu_training import OURS, PRESETS, Setting
    from glassformer.bench.scaling import fitted
    from glassformer.bench.training import check_names
    from glassformer.cli.output import report

    check_names("context", [preset], PRESETS)
    lengths = sizes or [1024, 4096, 16384, 32768]
    settings = [Setting(preset, max(1, tokens // length), length) for length in lengths]
    settings.append(Setting(preset, 2 * settings[-1].batch, lengths[-1]))
    results = measured(settings, steps, rounds, (OURS,))
    lines = [f"{'context':>7}  batch  ms per step  tokens/s  of peak  GPU memory"]
    lines += [f"{r.setting.context:7}  {r.setting.batch:5}  {cells(r, OURS)}" for r in results]
    answer = {"lengths": [r.plain() for r in results]}
    if lengths[1:]:
        of_sequence = [r.step_ms[OURS] / r.setting.batch for r in results[:-1]]
        fit = fitted(lengths, of_sequence)
        lines += ["", f"time of a sequence from {fit.start:,} tokens on: as T^{fit.exponent:.2f}"]
        answer["exponent"] = fit.exponent
    report(answer, "\n".join([*lines, results[0].device]), as_json=json)


def compare_on_gpu(settings: "list[Setting]", steps: int, rounds: int, *, peers: bool, json: bool) -> None:
    """Our training loop and PyTorch's compiled step, taking turns."""
    from glassformer.bench.gpu_training import OURS, TORCH
    from glassformer.bench.training import torch_version

    sides = (OURS, TORCH) if peers and torch_version() is not None else (OURS,)
    shown(settings, steps, rounds, sides, json=json)


def shown(settings: "list[Setting]", steps: int, rounds: int, sides: tuple[str, ...], *, json: bool) -> None:
    from glassformer.bench.gpu_training import AUTODIFF, OURS, TORCH
    from glassformer.bench.training import torch_version
    from glassformer.cli.output import report

    if wrong := [setting.precision for setting in settings if setting.precision not in ("bf16", "float32")]:
        raise typer.BadParameter(f"{wrong[0]!r} came, expected bf16 or float32", param_hint="--precision")
    titles = {OURS: "ours", TORCH: "PyTorch", AUTODIFF: "jax.grad"}
    results = measured(settings, steps, rounds, sides)
    lines = [f"{'':10}  {'':8}  ms per step  tokens/s  of peak  GPU memory  compiling"]
    for r in results:
        for side in sides:
            title = r.setting.preset if side == OURS else ""
            lines.append(f"{title:10}  {titles[side]:8}  {cells(r, side)}  {r.compile_s[side]:7.0f} s")
        if r.other is not None and r.difference is not None:
            taken = min(len(curve) for curve in r.losses.values())
            lines += [
                f"{'':10}  {r.ratio:.3f} times as fast, {r.memory[OURS] / r.memory[r.other]:.2f} of the memory",
                f"{'':10}  losses of {taken} steps differ by {r.difference:.5f} at most, "
                f"from {r.losses[OURS][0]:.3f} to {r.losses[OURS][taken - 1]:.3f}",
            ]
    how = f"{settings[0].precision}; median of {rounds} turns of {steps} steps; {results[0].device}"
    lines += ["", how, "ours is the loop of `glassformer train` with all that it does between steps"]
    if TORCH in sides:
        lines.append("PyTorch is the bare step: compiled, with its fused attention and its fused AdamW")
    answer = {"torch": torch_version(), "rounds": rounds, "presets": [r.plain() for r in results]}
    report(answer, "\n".join(lines), as_json=json)


def measured(settings: "list[Setting]", steps: int, rounds: int, sides: tuple[str, ...]) -> "list[Result]":
    from glassformer.bench.gpu_training import Contest
    from glassformer.cli.output import progress

    results = []
    for setting in settings:
        contest = Contest(setting, steps, sides)
        for _ in progress(contest.run(rounds), rounds + 1, f"{setting.preset} {setting.context or ''}"):
            pass
        results.append(contest.result())
    return results


def cells(result: "Result", side: str) -> str:
    """ms per step, tokens/s, share of the peak, memory."""
    ms = result.step_ms[side]
    share = f"{100 * result.mfu[side]:.1f} %" if side in result.mfu else "-"
    return f"{ms:11.1f}  {result.tokens / ms * 1e3:8,.0f}  {share:>7}  {result.memory[side] / GIB:6.1f} GiB"
