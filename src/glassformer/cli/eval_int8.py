"""glassformer eval --int8: what a device would answer, and what that costs."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.edge.int8_run import Int8Evaluation


def as_plain(found: "Int8Evaluation") -> dict[str, Any]:
    return {**vars(found.comparison), "noise_db": found.noise, "stays_float": list(found.stays_float)}


def as_text(found: "Int8Evaluation") -> str:
    from glassformer.tables import text_table

    compared = found.comparison
    low, high = (f"{100 * one:+.2f}" for one in compared.interval)
    lines = [
        f"int8 {100 * compared.int8_accuracy:.2f} %, float {100 * compared.float_accuracy:.2f} %: "
        f"{100 * compared.difference:+.2f} points (95 % interval {low} to {high}, paired); "
        f"{compared.changed:,} of {compared.samples:,} answers changed",
        f"stays float: {', '.join(found.stays_float) or 'nothing but the scaling of the logits'}",
        "",
        *text_table(
            ("value", "signal to noise, dB"), [(name, f"{db:.1f}") for name, db in found.noise.items()], left=1
        ),
    ]
    return "\n".join(lines)
