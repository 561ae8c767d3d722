"""glassformer export --to c: a run as C for a device."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import SettingError

if TYPE_CHECKING:
    from glassformer.edge.training import Tune
    from glassformer.predict.run import Run


def to_c(
    run: "Run",
    out: Path,
    *,
    name: str = "",
    train: "Tune | None" = None,
    optimiser: str = "",
    batch: int | None = None,
    int8: bool = False,
    keep_float: Sequence[str] = (),
    data: str = "",
) -> tuple[dict[str, Any], str]:
    """What --json has besides out, run and to; the text."""
    from glassformer.edge.export import export, optimiser_for
    from glassformer.edge.quantise import quantise_run

    if train is None and (optimiser or batch is not None):
        raise SettingError("export: --optimiser and --batch belong to --train; add --train head, bias or full")
    if not int8 and (keep_float or data):
        raise SettingError("export: --keep-float and --data belong to --int8; add it")
    chosen = optimiser_for(run, optimiser or "sgd")
    quantised = quantise_run(run, data, keep_float) if int8 else None
    done = export(
        run, out, name=name, tune=train, optimiser=chosen, batch=1 if batch is None else batch, int8=quantised
    )
    facts = done.facts
    lines = [
        *done.files,
        "",
        f"RAM, arena         {facts['arena']:>9,} bytes",
        f"flash, weights     {facts['weights']:>9,} bytes",
        f"a prediction       {facts['multiply_adds']:>9,} multiply-adds",
        *([f"stays float        {', '.join(quantised.stays_float) or 'nothing'}"] if quantised else []),
        f"test vectors       {facts['vectors']}",
        f"wrote {out}; next: make -C {out} test",
    ]
    return {**facts, "files": list(done.files)}, "\n".join(lines)
