"""glassformer bench: measure against peers and against ourselves, as ratios in one run."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.bench_gpu import compare_on_gpu, shown

if TYPE_CHECKING:
    from glassformer.bench.latency import Result as Latency
    from glassformer.bench.scaling import Result as Scaling
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
    presets: Annotated[
        list[str] | None, typer.Argument(help="gpt2-124m, …: on a GPU (default: the small ones)")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="training steps in one timed run")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="timed runs of each side; the median counts")] = 15,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """One training step with the written-out backward beside the same step by jax.grad.

    Example: `glassformer bench gradients --rounds 31`
    """
    from glassformer.bench import gpu_training
    from glassformer.bench.gradients import CONTESTS, compare
    from glassformer.bench.training import check_names
    from glassformer.cli.output import progress, report

    if presets:
        check_names("gradients", presets, gpu_training.PRESETS)
        settings = [gpu_training.Setting(name) for name in presets]
        return shown(settings, steps, rounds, (gpu_training.OURS, gpu_training.AUTODIFF), json=json)
    results = list(progress(compare(steps, rounds), len(CONTESTS), "measuring"))
    lines = ["model                  batch  explicit ms/step  autodiff ms/step  ratio"]
    lines += [
        f"{r.model:21}  {r.batch:5}  {r.explicit_ms:16.3f}  {r.autodiff_ms:16.3f}  {r.ratio:5.2f}" for r in results
    ]
    lines.append(
        f"ratio above 1: written-out gradients are faster; median of {rounds} runs of {steps} steps, taking turns"
    )
    return report({"models": [asdict(r) | {"ratio": r.ratio} for r in results]}, "\n".join(lines), as_json=json)


@bench.command()
def train(
    presets: Annotated[list[str] | None, typer.Argument(help="presets to compare (default: all small ones)")] = None,
    peers: Annotated[bool, typer.Option(help="measure PyTorch too, where it is installed")] = True,
    steps: Annotated[
        int | None, typer.Option(min=1, help="training steps in a turn (default: as many as last 0.15 s; gpt2-*: 30)")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="turns of each side; the median counts")] = 11,
    batch: Annotated[int, typer.Option(min=0, help="gpt2-*: sequences in a step (default: the preset's)")] = 0,
    context: Annotated[int, typer.Option(min=0, help="gpt2-*: tokens of a sequence (default: the preset's)")] = 0,
    precision: Annotated[str, typer.Option(help="gpt2-*: bf16 or float32")] = "bf16",
    scan: Annotated[bool, typer.Option("--scan", help="gpt2-*: compile one block for all (engine.scan)")] = False,
    busy: Annotated[int, typer.Option(min=0, help="beside so many other processes that compute all the time")] = 0,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """One training step: the native engine on one core and on all, jax, and PyTorch (eager, fused attention, compiled).

    Ours make each batch within the step, PyTorch is given all of them ready. Without PyTorch, or without a C compiler,
    what needs it is left out. gpt2-124m, -350m, -774m and -1.5b are measured on a GPU: our
    training loop beside PyTorch's compiled step.

    Example: `glassformer bench train attention-pool`
    """
    from glassformer.bench import gpu_training
    from glassformer.bench.measure import beside_busy_processes
    from glassformer.bench.training import PRESETS, Contest, check_names, torch_version
    from glassformer.cli.output import progress, report
    from glassformer.cores import cores

    names = presets or list(PRESETS)
    check_names("train", names, (*PRESETS, *gpu_training.PRESETS))
    if large := [name for name in names if name in gpu_training.PRESETS]:
        if large != names:
            raise typer.BadParameter(
                f"{large[0]} is measured on a GPU, apart from the small ones", param_hint="PRESETS"
            )
        settings = [gpu_training.Setting(name, batch, context, precision, scan) for name in names]
        return compare_on_gpu(settings, steps or 30, rounds, peers=peers, json=json)
    results = []
    for name in names:
        contest = Contest(name, steps, with_peers=peers)
        with beside_busy_processes(busy):
            for _ in progress(contest.run(rounds), rounds + 1, name):
                pass
        results.append(contest.result())
    turn = f"{steps} steps" if steps else "at least 0.15 s"
    how = f"median of {rounds} turns of {turn}, taken one after the other on {cores()} cores; compiling is not counted"
    how += f"; beside {busy} other processes that compute all the time" * bool(busy)
    answer = {
        "torch": torch_version() if peers else None,
        "cores": cores(),
        "rounds": rounds,
        "busy": busy,
        "presets": [r.plain() for r in results],
    }
    lines = [*training_table(results), "", *ratio_table(results), "", how, *training_notes(results, peers=peers)]
    return report(answer, "\n".join(lines), as_json=json)


def training_table(results: list["Result"]) -> list[str]:
    from glassformer.bench.training import SIDES

    sides = [side for side in SIDES if any(side in r.step_ms for r in results)]
    lines = [f"{'ms per step':18}  batch" + "".join(f"{side:>10}" for side in sides)]
    for r in results:
        lines.append(f"{r.preset:18}  {r.batch:5}" + "".join(number(r.step_ms.get(side), 10, 3) for side in sides))
    return lines


def number(value: float | None, width: int, digits: int, unit: str = "") -> str:
    """A cell of a table: a dash where nothing was measured."""
    return f"{'-':>{width}}" if value is None else f"{value:{width - len(unit)}.{digits}f}{unit}"


RATIOS = {"native_to_torch": "native:PyTorch", "native_to_jax": "native:jax", "jax_to_torch": "jax:PyTorch"}


def ratio_table(results: list["Result"]) -> list[str]:
    """What can be compared: how many times as fast, PyTorch's fastest mode, and shares of the peak."""
    compared = [name for name in RATIOS if any(r.ratios[name] is not None for r in results)]
    best, shares = bool(results[0].best), any(r.share for r in results)
    if not compared:
        return []
    lines = ["".join([f"{'times as fast':18}", *(f"  {RATIOS[name]}" for name in compared)])]
    lines[0] += "  PyTorch's best" * best + "  of peak: native-1  native" * shares
    for r in results:
        line = "".join(f"  {number(r.ratios[name], len(RATIOS[name]), 2)}" for name in compared)
        line += f"  {r.best or '':>14}" * best
        one, all_cores = (100 * share for share in r.share.values()) if r.share else (None, None)
        line += f"  {number(one, 17, 0, ' %')}  {number(all_cores, 6, 0, ' %')}" * shares
        lines.append(f"{r.preset:18}{line}")
    return lines


def training_notes(results: list["Result"], *, peers: bool = True) -> list[str]:
    """What a reader must know besides the numbers."""
    first, notes = results[0], []
    if with_peak := [r for r in results if r.share]:
        rates = " and ".join(f"{2e-9 * rate:.0f}" for rate in with_peak[0].peak.values())
        notes.append(
            f"peak: {rates} billion floating-point operations a second, on one core and on all, in the same run"
        )
        notes.append("a step's operations: the matrix products of the model as it is written (docs/costs.md)")
    if any(share > 1 for r in results for share in r.share.values()):
        notes.append("above 100 %: native leaves out products by exact rewrites, and they are counted all the same")
    if first.best:
        notes.append(
            "ours make each batch within the step (images: gathered, scaled, cut into patches; text: drawn out of the "
            "stream); PyTorch is given all of them ready"
        )
    notes += missing(results, peers=peers)
    return notes + unsteady([r.spread for r in results])


def missing(results: Sequence["Result | Latency"], *, peers: bool) -> list[str]:
    """What was left out, and why."""
    from glassformer.bench.training import has_compiler

    notes = []
    for reason in dict.fromkeys(r.without_native for r in results if r.without_native):
        names = [r.preset for r in results if r.without_native == reason]
        where = f" of {', '.join(names)}" if len(names) < len(results) else ""
        notes.append(f"native is left out{where}: {reason}")
    if not peers:
        notes.append("PyTorch is left out, as --no-peers asks")
    elif results[0].best is None:
        notes.append("PyTorch is left out: it is not installed; `pip install glassformer[parity]`")
    elif not has_compiler():
        notes.append("PyTorch compiled is left out: no C++ compiler (CXX, g++, clang++) is installed")
    return notes


def unsteady(spreads: list[float]) -> list[str]:
    from glassformer.bench.training import UNSTEADY

    worst = max(spreads)
    if worst <= UNSTEADY:
        return []
    return [f"unsteady: the slowest turn of one side took {worst:.1f} times its fastest; is the machine busy?"]


@bench.command()
def latency(
    presets: Annotated[list[str] | None, typer.Argument(help="presets to compare (default: all)")] = None,
    peers: Annotated[bool, typer.Option(help="measure onnxruntime and PyTorch too, where they are installed")] = True,
    seconds: Annotated[float, typer.Option(min=0, help="how long a turn lasts at least")] = 0.1,
    rounds: Annotated[int, typer.Option(min=1, help="turns of each side; the median counts")] = 11,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """One image's bytes to its logits, called from Python, on one thread: native beside onnxruntime and PyTorch.

    Example: `glassformer bench latency vit-pico`
    """
    from glassformer.bench.latency import PRESETS, Contest
    from glassformer.bench.training import check_names, torch_version
    from glassformer.cli.output import progress, report
    from glassformer.hub.onnx_file import onnxruntime_version

    names = presets or list(PRESETS)
    check_names("latency", names, PRESETS)
    results = []
    for name in names:
        contest = Contest(name, seconds, with_peers=peers)
        for _ in progress(contest.run(rounds), rounds + 1, name):
            pass
        results.append(contest.result())
    how = f"median of {rounds} turns of at least {seconds:g} s, taken one after the other; one thread each"
    answer = {
        "torch": torch_version() if peers else None,
        "onnxruntime": onnxruntime_version() if peers else None,
        "rounds": rounds,
        "seconds": seconds,
        "presets": [r.plain() for r in results],
    }
    lines = [*latency_table(results), "", how, *latency_notes(results, peers=peers)]
    report(answer, "\n".join(lines), as_json=json)


def latency_table(results: list["Latency"]) -> list[str]:
    """From bytes, PyTorch's best from patches, and how many times native's time each best takes."""
    from glassformer.bench.latency import PATCHES

    sides = {side: max(10, len(side) + 2) for side in results[0].call_us if not side.endswith(PATCHES)}
    titles = {
        "native_to_torch": "ratio",
        "native_to_torch_from_patches": "to patches",
        "native_to_onnxruntime": "to onnx",
    }
    ratios = {name: title for name, title in titles.items() if results[0].ratios[name] is not None}
    head = "".join(f"{side:>{width}}" for side, width in sides.items()) + f"  {'from patches':>12}" * bool(
        results[0].best
    )
    lines = [f"{'µs per image':14}{head}" + "".join(f"  {title:>{max(6, len(title))}}" for title in ratios.values())]
    for r in results:
        line = "".join(f"{r.call_us[side]:{width}.1f}" for side, width in sides.items())
        if r.best_from_patches:
            line += f"  {r.call_us[r.best_from_patches]:12.1f}"
        line += "".join(f"  {r.ratios[name]:{max(6, len(title))}.2f}" for name, title in ratios.items())
        lines.append(f"{r.preset:14}{line}")
    return lines


def latency_notes(results: list["Latency"], *, peers: bool) -> list[str]:
    from glassformer.bench.latency import ONNXRUNTIME

    notes = []
    if results[0].best:
        notes.append(
            "ratio: PyTorch's best mode from bytes over native; to patches: its best from patches cut beforehand"
        )
    if results[0].ratios["native_to_onnxruntime"] is not None:
        notes.append("to onnx: onnxruntime, from bytes, with the file of `glassformer export --to onnx`, over native")
    elif not peers:
        notes.append("onnxruntime is left out, as --no-peers asks")
    elif ONNXRUNTIME not in results[0].call_us:
        notes.append("onnxruntime is left out: it is not installed; `pip install glassformer[parity]`")
    return notes + missing(results, peers=peers) + unsteady([r.spread for r in results])


@bench.command()
def scaling(
    sweeps: Annotated[list[str] | None, typer.Argument(help="width, tokens, batch, depth (default: all)")] = None,
    engine: Annotated[str, typer.Option(help="native or jax")] = "native",
    threads: Annotated[int, typer.Option(min=0, help="of the native engine; 0: one for each core")] = 0,
    seconds: Annotated[float, typer.Option(min=0, help="how long a turn lasts at least")] = 0.05,
    rounds: Annotated[int, typer.Option(min=1, help="turns of each size; the median counts")] = 7,
    out: Annotated[Path | None, typer.Option(help="draw it too: a PNG")] = None,
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """How the cost of a training step grows with width, tokens, batch and depth, and with which exponent.

    Example: `glassformer bench scaling tokens --out scaling.png`
    """
    from glassformer.bench.scaling import SWEEPS, Contest
    from glassformer.bench.training import check_names
    from glassformer.cli.output import progress, report
    from glassformer.cores import cores
    from glassformer.errors import EngineError, FileError
    from glassformer.files import write_whole

    known = {sweep.name: sweep for sweep in SWEEPS}
    names = sweeps or list(known)
    check_names("scaling", names, tuple(known))
    if engine not in ("native", "jax"):
        raise typer.BadParameter(f"{engine!r} came, expected native or jax", param_hint="--engine")
    if engine == "jax" and threads:
        raise typer.BadParameter("the jax engine always takes all cores", param_hint="--threads")
    if out and out.is_dir():
        raise FileError(f"{out}: a folder came, expected the name of a PNG file")
    results = []
    for name in names:
        try:
            contest = Contest(known[name], engine, threads, seconds)
        except EngineError as error:
            raise EngineError(f"{error}; try --engine jax") from None
        for _ in progress(contest.run(rounds), rounds + 1, name):
            pass
        results.append(contest.result())
    used = threads or cores()
    answer = {
        "engine": engine,
        "threads": used,
        "rounds": rounds,
        "seconds": seconds,
        "sweeps": [r.plain() for r in results],
    }
    title = f"A training step of a small vision transformer: {engine} engine, {used} core{'s' * (used > 1)}"
    lines = [title, *(line for r in results for line in scaling_table(r))]
    lines.append("")
    lines.append(f"median of {rounds} turns of at least {seconds:g} s; all sizes of a sweep take turns")
    lines += unsteady([r.spread for r in results])
    if out:
        from glassformer.bench.scaling_picture import picture

        write_whole(out, picture(results, title))
        lines.append(f"wrote {out}")
    report(answer, "\n".join(lines), as_json=json)


def scaling_table(result: "Scaling") -> list[str]:
    lines = ["", f"{result.sweep:>6}  ms per step  million multiply-adds  billion a second"]
    for size, ms, count in zip(result.sizes, result.step_ms, result.multiply_adds, strict=True):
        lines.append(f"{size:6}  {ms:11.3f}  {count / 1e6:21.2f}  {count / ms / 1e6:16.1f}")
    fit = result.fit
    error = "" if fit.error is None else f" ± {fit.error:.2f}"
    growth = f"{result.letter}^({fit.exponent:.2f}{error})"
    lines.append(
        f"from {fit.start} on: time as {growth}, multiply-adds as {result.letter}^{result.counted.exponent:.2f}"
    )
    return lines
