"""glassformer export --to c: a run as C for a device."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import SettingError, at_least

if TYPE_CHECKING:
    from glassformer.predict.run import Run


def to_c(
    run: "Run",
    out: Path,
    *,
    device: dict[str, str | None],
    name: str | None,
    train: Any,
    optimiser: str | None,
    batch: int | None,
) -> tuple[dict[str, Any], str]:
    """What --json has besides out, run and to; the text."""
    from glassformer.edge.budget import Budget, device_of
    from glassformer.edge.export import export, optimiser_for

    if train is None and (optimiser or batch):
        raise SettingError("export: --optimiser and --batch belong to --train; add --train head, bias or full")
    settings = {"optimiser": optimiser_for(run, optimiser or "sgd"), "batch": 1 if batch is None else batch}
    budget = Budget(run, device_of(**device), **settings)
    done = export(
        run,
        out,
        name=name or "",
        tune=train,
        check=lambda source: budget.must_fit(train or "float", source),
        **settings,
    )
    facts, unmeasured = done.facts, budget.device.unmeasured
    lines = [
        *done.files,
        "",
        f"RAM, arena         {facts['arena']:>9,} bytes",
        f"flash, weights     {facts['weights']:>9,} bytes",
        f"a prediction       {facts['multiply_adds']:>9,} multiply-adds",
        f"test vectors       {facts['vectors']}",
        *([f"stack and code were not measured: {unmeasured}"] if budget.is_limited and unmeasured else []),
        f"wrote {out}; next: make -C {out} test",
    ]
    return {**facts, "files": list(done.files)}, "\n".join(lines)


def planned(
    run: "Run", device: dict[str, str | None], *, name: str | None, train: Any, optimiser: str | None, batch: int | None
) -> tuple[dict[str, Any], str]:
    """The same of --plan, which shows every way of training."""
    from glassformer.cli.export_plan import plan_of
    from glassformer.edge.budget import Budget, device_of
    from glassformer.edge.export import optimiser_for

    del name, train
    at_least("export", 1, batch=1 if batch is None else batch)
    chosen = optimiser_for(run, optimiser or "sgd")
    return plan_of(Budget(run, device_of(**device), chosen, 1 if batch is None else batch))


def refuse_others(to: str, **options: Any) -> None:
    """Options of --to c that would have no effect."""
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if to != "c" and given:
        raise SettingError(f"export: {' and '.join(given)} would do nothing: only --to c has that, and --to {to} came")
