"""glassformer export --to c: a run as C for a device."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import SettingError, at_least

if TYPE_CHECKING:
    from glassformer.edge.budget import Budget
    from glassformer.edge.training import Tune
    from glassformer.predict.run import Run


def to_c(
    run: "Run",
    out: Path | None,  # None: a plan
    *,
    name: str = "",
    train: "Tune | None" = None,
    optimiser: str = "",
    batch: int | None = None,
    int8: bool = False,
    keep_float: Sequence[str] = (),
    data: str = "",
    plan: bool = False,
    **device: str,
) -> tuple[dict[str, Any], str]:
    """What --json has besides out, run and to; the text."""
    from glassformer.edge.budget import Budget, device_of
    from glassformer.edge.export import export, optimiser_for
    from glassformer.edge.quantise import quantise_run

    settings: Any = {"optimiser": optimiser_for(run, optimiser or "sgd"), "batch": 1 if batch is None else batch}
    budget = Budget(run, device_of(**device), **settings, keep_float=keep_float)
    if plan or out is None:
        return planned(budget, name=name, train=train, int8=int8, data=data)
    if train is None and (optimiser or batch is not None):
        raise SettingError("export: --optimiser and --batch belong to --train; add --train head, bias, lora or full")
    if not int8 and (keep_float or data):
        raise SettingError("export: --keep-float and --data belong to --int8; add it")
    quantised = quantise_run(run, data, keep_float) if int8 else None
    way = "int8" if int8 else train or "float"
    check = partial(budget.must_fit, way)
    done = export(run, out, name=name, tune=train, int8=quantised, check=check, **settings)
    facts, unmeasured = done.facts, budget.device.unmeasured
    lines = [
        *done.files,
        "",
        f"RAM, arena         {facts['arena']:>9,} bytes",
        f"flash, weights     {facts['weights']:>9,} bytes",
        f"a prediction       {facts['multiply_adds']:>9,} multiply-adds",
        *([f"stays float        {', '.join(quantised.stays_float) or 'nothing'}"] if quantised else []),
        f"test vectors       {facts['vectors']}",
        *([f"stack and code were not measured: {unmeasured}"] if budget.is_limited and unmeasured else []),
        f"wrote {out}; next: make -C {out} test",
    ]
    return {**facts, "files": list(done.files)}, "\n".join(lines)


def planned(budget: "Budget", **others: Any) -> tuple[dict[str, Any], str]:
    """--plan: every variant, whichever would be exported."""
    from glassformer.cli.export_plan import plan_of

    if given := " and ".join(f"--{name}" for name, value in others.items() if value):
        raise SettingError(f"export: {given} would do nothing: --plan shows every variant")
    at_least("export", 1, batch=budget.batch)
    return plan_of(budget)
