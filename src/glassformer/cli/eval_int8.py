"""glassformer eval --int8: what the device itself would answer, and what int8 costs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glassformer.errors import SettingError

if TYPE_CHECKING:
    from glassformer.data import Dataset
    from glassformer.predict.run import Run

WORST = 250  # samples on which the noise of each value is measured


def int8_result(run: "Run", data: "Dataset", keep_float: Sequence[str]) -> tuple[dict[str, Any], str]:
    """What --json has; the text."""
    from glassformer.edge.comparison import compare
    from glassformer.edge.quantise import quantise_run

    if run.recipe.output_axis != "classes":
        raise SettingError(f"eval: --int8 compares classes, and the task {run.recipe.task.name} has none")
    model = quantise_run(run, data.name, keep_float)
    x, labels = run.arrays(data.test)
    found = compare(run.logits(x), model.logits(x), labels)
    noise = model.noise(x[:WORST])
    low, high = (100 * end for end in found.interval)
    lines = [
        f"accuracy  float {100 * found.float_accuracy:.2f} %   int8 {100 * found.int8_accuracy:.2f} %",
        f"difference {100 * found.difference:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f} (paired)",
        f"answers changed: {found.changed:,} of {found.samples:,}",
        f"stays float: {', '.join(model.stays_float) or 'nothing'}",
        "",
        f"{'value':{max(map(len, noise))}}  signal to noise, dB",
        *(f"{name:{max(map(len, noise))}}  {ratio:19.1f}" for name, ratio in noise.items()),
    ]
    return {**vars(found), "stays_float": list(model.stays_float), "signal_to_noise_db": noise}, "\n".join(lines)
