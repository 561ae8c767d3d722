"""What an image model is given and asked: the size of the images, how their pixels are spread, how many classes."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import SettingError, ShapeError
from glassformer.layers import Standardise, StandardiseChannels
from glassformer.models.input import Input

if TYPE_CHECKING:
    from glassformer.data.dataset import Dataset


@dataclass(frozen=True)
class Images(Input):
    reads: ClassVar[str] = "images"

    shape: tuple[int, int, int] = (28, 28, 1)  # rows, columns, channels
    classes: int = 10
    mean: float | tuple[float, ...] = 0.0  # of the pixels, after division by 255; several: one for each channel
    std: float | tuple[float, ...] = 1.0
    dtype: Literal["float32"] | None = None  # of the pixels; None: bytes

    def __post_init__(self) -> None:
        for name, value in (("mean", self.mean), ("std", self.std)):
            if isinstance(value, tuple) and len(value) != self.shape[2]:
                raise SettingError(
                    f"images: {name} has {len(value)} numbers and the images have {self.shape[2]} channels; "
                    "give one for each channel, or one number for all"
                )

    @property
    def prepare(self) -> Standardise | StandardiseChannels:
        if isinstance(self.mean, float | int) and isinstance(self.std, float | int):
            return Standardise(mean=self.mean, std=self.std)
        return StandardiseChannels(mean=self.by_channel(self.mean), std=self.by_channel(self.std))

    def by_channel(self, value: float | tuple[float, ...]) -> tuple[float, ...]:
        return value if isinstance(value, tuple) else (value,) * self.shape[2]

    @property
    def pixels(self) -> int:
        rows, columns, channels = self.shape
        return rows * columns * channels

    def example(self, batch: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((batch, *self.shape), self.dtype or jnp.uint8)

    def check(self, where: str, x: Any) -> None:
        if x.shape[1:] != self.shape:
            raise ShapeError(
                f"{where}: a batch of shape {x.shape} came, expected (batch, {', '.join(map(str, self.shape))}): "
                "rows, columns, channels; grey images need a last axis of 1: images[..., None]"
            )

    def for_data(self, data: "Dataset") -> Self:
        """Floats come on any scale: they are standardised by their own mean and spread."""
        images = data.train.images
        sized = replace(self, shape=images.shape[1:], classes=len(data.classes))
        if images.dtype == np.uint8:
            return sized
        mean, std = float(images.mean()) / 255, float(images.std()) / 255 or 1.0
        return replace(sized, mean=mean, std=std, dtype="float32")
