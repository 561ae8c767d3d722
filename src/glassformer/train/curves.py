"""The picture of a run: loss and accuracy over the epochs."""

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.train.run_folder import Row


def curves(rows: "tuple[Row, ...]") -> bytes:
    """A PNG. Drawn without a display and without touching anyone's figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    epochs = [row.epoch for row in rows]
    left.plot(epochs, [row.loss for row in rows], color="#0072b2", marker="o", markersize=3)
    left.set(title="training loss", xlabel="epoch", ylim=(0, None))
    column, times = ("loss", 1) if rows[-1].test_accuracy is None else ("accuracy", 100)
    for name, colour, part in (("test", "#d55e00", "test"), ("validation", "#009e73", "val")):
        scores = [getattr(row, f"{part}_{column}") for row in rows]
        if scores[-1] is not None:
            right.plot(epochs, [times * (s or 0) for s in scores], color=colour, marker="o", markersize=3, label=name)
    right.set(title="accuracy, %" if times == 100 else column, xlabel="epoch")
    right.legend(loc="lower right", frameon=False)
    for axes in (left, right):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120)
    return picture.getvalue()
