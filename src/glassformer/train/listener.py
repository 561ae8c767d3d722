"""Who is told how a run goes while it trains, and may ask it to stop."""

from pathlib import Path

from glassformer.data.dataset import Dataset
from glassformer.errors import TrainingError
from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import Row


class Listener:
    """Told how training goes. This one keeps quiet; the command line draws bars."""

    def begins(self, folder: Path, recipe: Recipe, data: Dataset, seeds: tuple[int, ...]) -> None: ...
    def resumes(self, folder: Path, recipe: Recipe) -> None: ...
    def notice(self, text: str) -> None: ...
    def chunk(self, epoch: int, step: int, steps: int, loss: float, samples_per_second: float) -> None: ...
    def epoch(self, row: Row) -> None: ...
    def interrupted(self) -> bool:
        """True: stop after this chunk and save."""
        return False


class InterruptedRunError(TrainingError):
    """Training was asked to stop; everything so far is saved."""
