"""Attention on a table: four measurements of a flower are four tokens. Ten splits into training and test rows."""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import glassformer


def main(splits: int = 10, **settings: Any) -> float:
    with tempfile.TemporaryDirectory() as folder:
        runs = (glassformer.fit("iris", f"iris:{i}", out=Path(folder) / str(i), **settings) for i in range(splits))
        scores = [100 * run.metrics["test_accuracy"] for run in runs]
    mean, spread = statistics.mean(scores), statistics.stdev(scores)
    print(f"test accuracy over {splits} splits: {mean:.1f} ± {spread:.1f} % (worst {min(scores):.1f})")
    return mean


if __name__ == "__main__":
    main()
