"""glassformer export --to c: a run as C for a device."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import SettingError

if TYPE_CHECKING:
    from glassformer.edge.training import Tune
    from glassformer.predict.run import Run


def to_c(
    run: "Run", out: Path, *, name: str = "", train: "Tune | None" = None, optimiser: str = "", batch: int | None = None
) -> tuple[dict[str, Any], str]:
    """What --json has besides out, run and to; the text."""
    from glassformer.edge.export import export, optimiser_for

    if train is None and (optimiser or batch is not None):
        raise SettingError("export: --optimiser and --batch belong to --train; add --train head, bias or full")
    chosen = optimiser_for(run, optimiser or "sgd")
    done = export(run, out, name=name, tune=train, optimiser=chosen, batch=1 if batch is None else batch)
    facts = done.facts
    lines = [
        *done.files,
        "",
        f"RAM, arena         {facts['arena']:>9,} bytes",
        f"flash, weights     {facts['weights']:>9,} bytes",
        f"a prediction       {facts['multiply_adds']:>9,} multiply-adds",
        f"test vectors       {facts['vectors']}",
        f"wrote {out}; next: make -C {out} test",
    ]
    return {**facts, "files": list(done.files)}, "\n".join(lines)
