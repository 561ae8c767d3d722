"""The picture of a scaling measurement: one panel per sweep, both axes in logarithms, so that a power is a line."""

import io
from typing import TYPE_CHECKING

from glassformer.bench.scaling import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which differ for colour-blind eyes too
COLOURS = {"width": "#0072b2", "tokens": "#d55e00", "batch": "#009e73", "depth": "#cc79a7"}
LABELS = {
    "width": "width C (feed-forward 2C, heads of 16)",
    "tokens": "tokens T (square images, 4x4 patches)",
    "batch": "batch B (images in a step)",
    "depth": "depth L (blocks)",
}
QUIET = "#6b6b6b"


def picture(results: list[Result], title: str) -> bytes:
    """A PNG. Drawn without a display and without touching anyone's figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    across = min(2, len(results))
    down = -(-len(results) // across)
    figure = Figure((4.6 * across, 3.5 * down + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, result in zip(panels, results, strict=False):
        draw(axes, result)
    for axes in panels[len(results) :]:
        axes.set_axis_off()
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1, wspace=0.03, hspace=0.04)  # pyright: ignore
    figure.suptitle(title, x=0.012, ha="left", size=11)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
    return png.getvalue()


def draw(axes: "Axes", result: Result) -> None:
    """Measured points, the power where it was fitted, and the multiply-adds, drawn to meet it at the largest size."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    sizes, fit, colour = result.sizes, result.fit, COLOURS[result.sweep]
    scale = fit(sizes[-1]) / result.multiply_adds[-1]
    counted = [scale * count for count in result.multiply_adds]
    upper = [size for size in sizes if size >= fit.start]
    band = {"linewidth": 6, "alpha": 0.25, "solid_capstyle": "round"}
    axes.plot(sizes, result.step_ms, color=colour, linewidth=1.4, marker="o", markersize=5, label="measured", zorder=3)
    axes.plot(upper, [fit(size) for size in upper], color=colour, label="fitted power", **band)
    axes.plot(sizes, counted, color=QUIET, linewidth=1.1, dashes=(4, 3), label="multiply-adds, to scale")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, labels=list(map(str, sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(min(result.step_ms) / 2.5, max(result.step_ms) * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(LABELS[result.sweep], size=9)
    axes.set_ylabel("ms per training step", size=9)
    axes.set_title(power(result), loc="left", size=10, color="#222222")
    axes.tick_params(labelsize=8, length=3, color=QUIET)
    axes.grid(color="#000000", alpha=0.09, linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.legend(loc="upper left", frameon=False, fontsize=8, handlelength=2.4)


def power(result: Result) -> str:
    fit = result.fit
    error = "" if fit.error is None else f" ± {fit.error:.2f}"
    exponent = rf"$\mathbf{{{result.letter}}}^{{\ {fit.exponent:.2f}{error.replace('±', chr(92) + 'pm')}}}$"
    return f"time grows as {exponent}  from {fit.start:g} on"
