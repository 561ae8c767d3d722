"""Which epoch of a run is kept: by its scores on what was held out, or by its loss."""

import dataclasses

from glassformer.train.recipe import Recipe
from glassformer.train.run_folder import Progress, Row


def after_epoch(recipe: Recipe, progress: Progress, row: Row) -> Progress:
    """Where the run stands when an epoch is over: which epoch is the best so far, and whether to stop."""
    rows = (*progress.rows, row)
    best_epoch = best(rows, recipe.validation.min_delta, by_loss=recipe.task.by_loss)
    patience = recipe.validation.patience
    out_of_patience = bool(patience and row.epoch - best_epoch >= patience)
    done = row.epoch >= recipe.training.epochs or out_of_patience
    return dataclasses.replace(
        progress, epoch=row.epoch, step=0, loss_sum=0.0, seconds=0.0, best_epoch=best_epoch, rows=rows, done=done
    )


def best(rows: tuple[Row, ...], min_delta: float, *, by_loss: bool = False) -> int:
    """The epoch to keep: a later one must beat it by more than `min_delta` points. Without scores, the last."""
    if goodness(rows[-1], by_loss) is None:
        return rows[-1].epoch
    kept = rows[0]
    for row in rows[1:]:
        if 100 * ((goodness(row, by_loss) or 0) - (goodness(kept, by_loss) or 0)) > min_delta:
            kept = row
    return kept.epoch


def goodness(row: Row, by_loss: bool) -> float | None:
    """Of the weights that the epoch would keep."""
    return row.goodness("ema_" if row.keeps_average(by_loss=by_loss) else "", by_loss=by_loss)
