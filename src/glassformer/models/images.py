"""What an image model is given and asked: the size of the images, how their pixels are spread, how many classes."""

from dataclasses import dataclass

from glassformer.layers import Standardise


@dataclass(frozen=True)
class Images:
    shape: tuple[int, int, int] = (28, 28, 1)  # rows, columns, channels
    classes: int = 10
    mean: float = 0.0  # of the pixels, after division by 255
    std: float = 1.0

    @property
    def prepare(self) -> Standardise:
        return Standardise(mean=self.mean, std=self.std)

    @property
    def pixels(self) -> int:
        rows, columns, channels = self.shape
        return rows * columns * channels
