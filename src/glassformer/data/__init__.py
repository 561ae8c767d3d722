"""Data sets: read from files or fetched by name, checked on the way in, kept as uint8 images and int32 labels.

Nothing here knows of models or training, and nothing imports JAX; pooch and Pillow are imported where they are used.
"""

from glassformer.data.dataset import Dataset, Samples, hold_out, make_dataset
from glassformer.data.sources import ARRAYS, DEFAULT, KNOWN, lasting_name, load

__all__ = ["ARRAYS", "DEFAULT", "KNOWN", "Dataset", "Samples", "hold_out", "lasting_name", "load", "make_dataset"]
