"""A run as int8: calibrated on its training data, and compared with float on test data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.data import Dataset
from glassformer.edge.comparison import Comparison, compare
from glassformer.edge.quantise import QuantisedModel, quantise
from glassformer.edge.steps import program_of
from glassformer.errors import DataError, EngineError, GlassformerError
from glassformer.predict.run import Evaluation, Run

CALIBRATION = 1000  # training samples
NOISE = 500  # test samples


@dataclass(frozen=True)
class Int8Evaluation:
    """What a device answers, on the test part of a data set."""

    int8: Evaluation
    comparison: Comparison
    noise: dict[str, float]  # dB, by the name of the value
    stays_float: tuple[str, ...]  # layers


def quantise_run(run: Run, keep_float: Sequence[str] = ()) -> QuantisedModel:
    """Calibrated on the first training samples of the data that the run was trained on."""
    try:
        program_of(run.model)
    except EngineError as error:
        raise EngineError(f"{run.path}: there is no int8 of it: {error}") from None
    try:
        data = run.load_data()
    except GlassformerError as error:
        raise DataError(f"{run.path}: int8 is calibrated on the run's training data, and {error}") from None
    return quantise(run.model, run.params, batch_of(run, data.train, CALIBRATION).x, keep_float)


def evaluate_int8(run: Run, data: Dataset, keep_float: Sequence[str] = ()) -> Int8Evaluation:
    model, test = quantise_run(run, keep_float), batch_of(run, data.test)
    logits, labels = model.logits(test.x), np.asarray(test.labels)
    return Int8Evaluation(
        int8=run.evaluation(logits, labels),
        comparison=compare(run.logits(test.x), logits, labels),
        noise=model.noise(test.x[:NOISE]),
        stays_float=model.stays_float,
    )


def batch_of(run: Run, samples: Any, most: int | None = None) -> Any:
    """All samples of a part of a data set, or the first, as the model reads them."""
    task = run.recipe.task
    count = task.count(samples)
    chosen: Any = np.arange(count if most is None else min(count, most))
    batch = task.batch(samples, chosen)
    return batch._replace(x=run.as_batch(batch.x))
