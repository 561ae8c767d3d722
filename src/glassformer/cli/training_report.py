"""What `glassformer train` says when it is done: loss, accuracy, of several seeds the spread, what learned."""

from collections.abc import Iterator
from typing import Any

BY_LOSS = ("next-token", "masked")
MEASURES = {
    "contrast": "recall@1",
    "answer": "exact match",
    "chat": "exact match",
}  # what an accuracy is called, where it is more than one


def as_text(result: dict[str, Any]) -> str:
    runs = result.get("runs", [])
    lines = [f"  seed {run['seed']:<4} {', '.join(outcome(run))}" for run in runs]
    lines += [
        line + (f" (standard deviation over {len(runs)} seeds)" if runs else "") for line in outcome(result, " nats")
    ]
    if result["val_accuracy"] is not None:
        lines.append(f"validation accuracy {percent(result['val_accuracy'])}")
    if result["learning"] < result["parameters"]:
        share = result["learning"] / result["parameters"]
        lines.append(
            f"learns {result['learning']:,} of {result['parameters']:,} parameters ({100 * share:.1f} %), "
            f"optimiser memory {result['optimiser_bytes']:,} bytes"
        )
    lines.append(
        f"{result['epochs']} epochs in {result['train_seconds']:.1f} s, {result['parameters']:,} parameters, "
        f"engine {result['engine']}, run {result['run']}"
    )
    return "\n".join(lines)


def outcome(run: dict[str, Any], nats: str = "") -> Iterator[str]:
    """Loss, where it tells more than the accuracy, and accuracy, where the task has one; of several seeds ± spread."""
    loss, accuracy = run["test_loss"], run["test_accuracy"]
    if accuracy is None or run["task"] in BY_LOSS:
        spread = f" ± {run['test_loss_std']:.4f}" if "test_loss_std" in run else ""
        yield f"test loss {loss:.4f}{'' if accuracy is None else nats}{spread}"
    if accuracy is not None:
        spread = f" ± {100 * run['test_accuracy_std']:.2f}" if "test_accuracy_std" in run else ""
        yield f"test {MEASURES.get(run['task'], 'accuracy')} {percent(accuracy)}{spread}"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"
