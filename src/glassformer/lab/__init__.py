"""Investigations: why is my accuracy low? A plan of hypotheses, run with paired seeds, answered with intervals."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas


def load(study: str | Path, *, all_settings: bool = False) -> "pandas.DataFrame":
    """A study folder as a pandas frame (extra `pandas`): one row a run, finished study or not.

    Columns: cell, group, measure, seed, outcome, score (what the study compares, as its report shows it), validation,
    test, loss, seconds, parameters, …, one for each setting that is not the same in all cells ("optimiser.lr"), or
    with `all_settings` for every one, and what the lens saw ("inside.entropy"). Of runs that belong to no cell of the
    plan `cell` is empty.

    table = load("studies/attention-accuracy")
    table[table.group == ""].groupby("optimiser.lr").score.mean()
    """
    from glassformer.lab.frame import frame

    return frame(study, all_settings=all_settings)
