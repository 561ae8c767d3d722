"""Training from Python: a recipe and data in, a run out."""

import dataclasses
from pathlib import Path
from typing import Any

from glassformer.data import Dataset, load as load_data
from glassformer.train.loop import Listener, Loop, resolved, result
from glassformer.train.many_seeds import train_seeds
from glassformer.train.presets import DEFAULT, preset
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import RunFolder
