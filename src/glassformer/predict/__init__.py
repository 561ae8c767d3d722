"""What a run answers: arrays, images, rows of numbers and texts in, answers out.

`load` opens a run folder. Above train, which made the run, and generate, which writes; nothing here trains.
"""

from glassformer.predict.run import Evaluation, Run, load

__all__ = ["Evaluation", "Run", "load"]
