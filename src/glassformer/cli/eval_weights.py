"""glassformer eval --weights: what a language model loses when its weights are read as bf16 or int8."""

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from glassformer.data import Dataset
    from glassformer.predict.run import Run


def weights_result(run: "Run", data: "Dataset", weights: Literal["bf16", "int8"]) -> tuple[dict[str, Any], str]:
    """What --json has; the text."""
    from glassformer.cli.output import note
    from glassformer.predict.weights_cost import cost_of_weights

    found = cost_of_weights(run, data.test, weights, note)
    between = "one sample only: no interval"
    if found.interval is not None:
        low, high = found.interval
        between = f"95 % interval {low:+.5f} to {high:+.5f}"
    share = 100 * found.difference / found.float32_loss
    lines = [
        f"loss  float32 {found.float32_loss:.5f}   {weights} {found.loss:.5f} nats a token",
        f"difference {found.difference:+.5f} ({share:+.3f} %), {between} (paired)",
        f"likeliest token changed: {found.changed:,} of {found.tokens:,}",
    ]
    return {"weights": weights, **found._asdict()}, "\n".join(lines)
