"""An input from the page, as the lens takes it (lens/trace_input.py). One that does not suit the run is a DataError."""

import io
import warnings
from typing import Any

import numpy as np

from glassformer.data.image_file import FORMATS, decode_on_white
from glassformer.data.prepare import prepare
from glassformer.errors import DataError
from glassformer.lens.studio.http_errors import HTTPError
from glassformer.lens.studio.requests import Input, PictureFile, Pixels, SampleNumber, Words
from glassformer.lens.studio.run_cache import LoadedRun
from glassformer.lens.studio.samples import Sample
from glassformer.lens.trace_input import TraceInput, image_input, reads_images, text_input
from glassformer.predict.run import Run

MOST_PIXELS = 20_000_000  # of a picture: unpacked, with a copy or two, some hundred megabytes
SHOWN = 60  # characters of a text that name it


def unpacked(given: Input) -> Any:
    """A picture file is decoded once, for all runs; whatever else comes stays as it is."""
    return decoded(given.content) if isinstance(given, PictureFile) else given


def decoded(content: bytes) -> np.ndarray:
    """Its size is looked at before it is unpacked: a small file can hold a picture that fills the memory."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                width, height = image.size
            if width * height > MOST_PIXELS:
                raise HTTPError(
                    400,
                    f"the picture: {width} x {height} pixels came, at most {MOST_PIXELS:,} are taken; scale it down",
                )
            return decode_on_white(io.BytesIO(content), "the picture")[0]
    except DataError as error:
        raise HTTPError(400, str(error)) from None
    except HTTPError:
        raise
    except Image.DecompressionBombError:
        raise HTTPError(400, f"the picture: at most {MOST_PIXELS:,} pixels are taken; scale it down") from None
    except Exception:  # decoders raise OSError, SyntaxError, ValueError, struct.error and more
        raise HTTPError(400, f"the picture: not an image; expected one of {', '.join(FORMATS)}") from None


def trace_input_of(loaded: LoadedRun, given: Any) -> TraceInput:
    run = loaded.run
    if isinstance(given, Pixels):
        return image_input(run, "drawing", pixels_of(run, given.content), checked_label(run, given.label))
    if isinstance(given, np.ndarray):
        image, _ = prepare(given, run.images.shape, "auto", "the picture")
        return image_input(run, "picture", image)
    if isinstance(given, Words):
        if reads_images(run):
            raise DataError(f"{run.path.name}: {type(run.model).__name__} reads images, and a text came; draw one")
        return text_input(run, shortened(given.text), given.text, given.target)
    assert isinstance(given, SampleNumber)
    return of_sample(run, given.number, loaded.samples.at(given.number))


def of_sample(run: Run, index: int, sample: Sample) -> TraceInput:
    if sample.image is not None:
        return image_input(run, f"test:{index}", sample.image, sample.label)
    return text_input(run, f"test:{index}", sample.text, sample.target)


def pixels_of(run: Run, content: bytes) -> np.ndarray:
    shape = run.images.shape
    if len(content) != run.images.pixels:
        raise DataError(
            f"image: {len(content):,} bytes came, {run.path.name} reads {' x '.join(map(str, shape))} = "
            f"{run.images.pixels:,}: one for each pixel, row by row"
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def checked_label(run: Run, label: int | None) -> int | None:
    if label is not None and label >= run.images.classes:
        raise DataError(f"label: {label:,} came, {run.path.name} knows classes 0 to {run.images.classes - 1}")
    return label


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
