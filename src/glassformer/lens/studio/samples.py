"""The test samples of the data a run was trained on, each as the page can send it back: an image, a text or a row."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from glassformer.data import ARRAYS
from glassformer.data import load as load_images
from glassformer.data.dataset import IMAGES, TEXTS, Samples
from glassformer.errors import DataError
from glassformer.predict.examples import read_test_examples
from glassformer.predict.run import Run
from glassformer.train.tasks import Classify, Prompted, Translate


class Sample(NamedTuple):
    image: np.ndarray | None = None
    label: Any = None  # the number of the right class; of a regression the right numbers
    text: str = ""
    target: Any = None  # the right class, translation or numbers


class SampleSet:
    def __init__(self, run: Run) -> None:
        if run.recipe.data == ARRAYS:
            raise DataError(f"the data of {run.path.name} was given in Python, which no file holds; bring an own input")
        self.images = images_of(run.recipe.data) if run.model.input.reads == IMAGES else None
        self.texts = [] if self.images else texts_of(run)
        self.count = len(self.images.labels) if self.images else len(self.texts)

    def at(self, index: int) -> Sample:
        if index >= self.count:
            raise DataError(f"sample: {index:,} came, there are {self.count:,} test samples, numbered from 0")
        if self.images is not None:
            return Sample(image=self.images.images[index], label=self.images.labels[index].tolist())
        return self.texts[index]


@lru_cache(2)
def images_of(data: str) -> Samples:
    return load_images(data).test


def texts_of(run: Run) -> list[Sample]:
    """`target` is what a run is asked for as a whole: a class, a translation; not what single tokens are."""
    whole = run.model.input.reads != TEXTS or isinstance(run.recipe.task, Classify | Translate | Prompted)
    return [Sample(text=text, target=expected if whole else None) for text, expected in read_test_examples(run)]
