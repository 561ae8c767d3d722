"""glassformer bench edge: a run on emulated microcontrollers."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def edge(
    runs: Annotated[list[Path] | None, typer.Argument(help="run folders (default: the model that comes along)")] = None,
    target: Annotated[list[str] | None, typer.Option(help="m3, m4, m7, m55, rv32 (default: all that run here)")] = None,
    variant: Annotated[
        list[str] | None, typer.Option(help="float, int8; head, bias, lora, full: a step of training (default: all)")
    ] = None,
    level: Annotated[str, typer.Option("-O", help="the compiler's optimisation: s, 2 or 3")] = "3",
    data: Annotated[str, typer.Option("--data", "-d", help="data set for accuracy and calibration")] = "",
    json: Annotated[bool, typer.Option("--json", help="last line of stdout is one JSON object")] = False,
) -> None:
    """A run as C on emulated microcontrollers: instructions, RAM, flash, accuracy; float, int8 and learning.

    Example: `glassformer bench edge runs/vit-pico-1 --target m4 -O 2`
    """
    from glassformer.bench.edge import VARIANTS, boards, measure
    from glassformer.cli.output import progress, report
    from glassformer.errors import EngineError
    from glassformer.predict.run import load
    from glassformer.tables import text_table

    variants = tuple(variant or VARIANTS)
    if wrong := [name for name in variants if name not in VARIANTS]:
        raise typer.BadParameter(f"{wrong[0]!r} came, expected one of {', '.join(VARIANTS)}", param_hint="--variant")
    if level not in ("s", "2", "3"):
        raise typer.BadParameter(f"{level!r} came, expected s, 2 or 3", param_hint="-O")
    targets = boards(target or [])
    if not targets:
        raise EngineError(
            "no board can be emulated here: install qemu-system-arm, gcc-arm-none-eabi and libnewlib-arm-none-eabi"
        )
    results = []
    for path in runs or [None]:
        loaded = load(path or "")
        count = len(variants) * len(targets)
        results += progress(measure(loaded, targets, variants, f"-O{level}", data), count, loaded.path.name)
    head = ("run", "target", "variant", "instructions", "RAM", "arena", "stack", "flash", "accuracy")
    rows = [
        (
            *(r.run, r.target, r.variant),
            *(f"{figure:,}" for figure in (r.instructions, r.ram, r.arena, r.stack, r.flash)),
            "-" if r.accuracy is None else f"{100 * r.accuracy:.2f} %",
        )
        for r in results
    ]
    lines = text_table(head, rows, left=3)
    lines.append(
        f"emulated by QEMU, gcc -O{level} -ffp-contract=fast; bytes; of head, bias, lora, full: one step of training"
    )
    report({"results": [asdict(r) | {"ram": r.ram} for r in results]}, "\n".join(lines), as_json=json)
