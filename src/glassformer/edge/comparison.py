"""What int8 costs: how many answers change, and the difference in accuracy with its interval, on the same samples."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from glassformer.errors import DataError

Z = 1.96  # of a normal variable 95 % lie within


@dataclass(frozen=True)
class Comparison:
    samples: int
    float_accuracy: float  # 0 to 1
    int8_accuracy: float
    changed: int  # answers
    difference: float  # of the accuracies, int8 less float
    interval: tuple[float, float]  # 95 %, paired


def compare(float_logits: np.ndarray, int8_logits: np.ndarray, labels: np.ndarray) -> Comparison:
    """The interval is that of paired proportions, with half a sample added to each of the four cells.

    So it is not of width 0 where no answer changes (Agresti and Min, 2005).
    """
    if not len(labels) or float_logits.shape != int8_logits.shape or len(labels) != len(float_logits):
        shapes = f"{float_logits.shape}, {int8_logits.shape} and {labels.shape}"
        raise DataError(f"int8: logits and labels of shapes {shapes} came, expected (N, K) twice and (N)")
    before, after = float_logits.argmax(axis=-1), int8_logits.argmax(axis=-1)
    was_right, is_right = before == labels, after == labels
    lost, won, n = (was_right & ~is_right).sum() + 0.5, (is_right & ~was_right).sum() + 0.5, len(labels) + 2
    middle, half = (won - lost) / n, Z * sqrt(won + lost - (won - lost) ** 2 / n) / n
    return Comparison(
        samples=len(labels),
        float_accuracy=float(was_right.mean()),
        int8_accuracy=float(is_right.mean()),
        changed=int((before != after).sum()),
        difference=float(is_right.mean() - was_right.mean()),
        interval=(float(middle - half), float(middle + half)),
    )
