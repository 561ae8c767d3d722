"""Numbers as they are spelt in every format: as many digits as the interval allows, never more."""

import math
import statistics
from collections.abc import Sequence

from glassformer.lab.study import Effect, Rank, Summary
from glassformer.lab.verdict import decimals

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"  # where there is no number
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def digits(half_width: float) -> int:
    """Behind the point, of what a cell reached: two where that is known to half a point.

    >>> digits(3.2), digits(0.2)
    (1, 2)
    """
    return 1 if half_width >= 0.5 else 2


def signed(value: float, places: int = 1) -> str:
    """
    >>> signed(3.14159), signed(-0.04), signed(-2)
    ('+3.1', '0.0', '−2.0')
    """
    rounded = round(value, places)
    if not rounded:
        return f"{0:.{places}f}"
    return f"{rounded:+.{places}f}".replace("-", MINUS)


def plain(value: float, places: int = 1) -> str:
    return signed(value, places).removeprefix("+")


def points(effect: Effect) -> str:
    """The mean: `+38.6`."""
    return signed(effect.mean, decimals(effect))


def interval(effect: Effect) -> str:
    """`[36.1, 41.0]`"""
    places = decimals(effect)
    return f"[{plain(effect.low, places)}, {plain(effect.high, places)}]"


def p_value(p: float) -> str:
    """
    >>> p_value(0.00195), p_value(0.0371), p_value(0.4), p_value(1.0), p_value(0.0001)
    ('0.002', '0.037', '0.40', '1.00', '< 0.001')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def p_is(p: float) -> str:
    """In one piece: it does not break at the end of a line.

    >>> p_is(0.004), p_is(0.0001)
    ('p\xa0=\xa00.004', 'p\xa0<\xa00.001')
    """
    shown = p_value(p)
    return (f"p {shown}" if shown.startswith("<") else f"p = {shown}").replace(" ", "\N{NO-BREAK SPACE}")


def ranks(rank: Rank | None) -> str:
    """
    >>> ranks(Rank("wide", 2, 4, 3)), ranks(Rank("wide", 1, 1, 1)), ranks(None)
    ('2–4', '1', '–')
    """
    if rank is None:
        return NONE
    return str(rank.best) if rank.best == rank.worst else f"{rank.best}{NONE}{rank.worst}"


def percent(summary: Summary) -> str:
    """`37.9 ± 1.2`: the mean and how far seeds spread."""
    if not len(summary.scores):
        return NONE
    if len(summary.scores) == 1:
        return f"{summary.mean:.1f}"
    return f"{summary.mean:.{digits(summary.spread)}f} ± {summary.spread:.{digits(summary.spread)}f}"


def interval_of(summary: Summary) -> str:
    """Of the mean."""
    if not (math.isfinite(summary.low) and math.isfinite(summary.high)):
        return NONE
    places = digits((summary.high - summary.low) / 2)
    return f"[{plain(summary.low, places)}, {plain(summary.high, places)}]"


def mean_and_spread(values: Sequence[float]) -> str:
    """As many digits as the spread has two of.

    >>> mean_and_spread([0.5, 0.6]), mean_and_spread([1234.0]), mean_and_spread([])
    ('0.550 ± 0.071', '1230', '–')
    >>> mean_and_spread([1.5e-5, 2.5e-5]), mean_and_spread([3.0, 3.0])
    ('(2.00 ± 0.71) · 10⁻⁵', '3')
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return NONE
    mean = statistics.fmean(known)
    spread = statistics.stdev(known) if len(known) > 1 else 0.0
    if not spread:
        return rounded(mean, 3)
    size = math.floor(math.log10(max(abs(mean), spread)))
    power = size if not -3 <= size < 6 else 0
    mean, spread = mean / 10**power, spread / 10**power
    places = min(max(0, 1 - math.floor(math.log10(spread))), 4)
    both = f"{mean:.{places}f} ± {spread:.{places}f}".replace("-", MINUS)
    return f"({both}) · 10{str(power).translate(RAISED)}" if power else both


def rounded(value: float, figures: int) -> str:
    """
    >>> rounded(0.0001234, 2), rounded(123456, 3), rounded(-0.5, 3)
    ('1.2 · 10⁻⁴', '123000', '−0.5')
    """
    shown = float(f"{value:.{figures}g}")
    if shown and not 1e-3 <= abs(shown) < 1e6:
        number, _, power = f"{value:.{figures - 1}e}".partition("e")
        return f"{number.replace('-', MINUS)} · 10{str(int(power)).translate(RAISED)}"
    return f"{shown:f}".rstrip("0").rstrip(".").replace("-", MINUS)


def count(value: int) -> str:
    """
    >>> count(60000)
    '60,000'
    """
    return f"{value:,}"


def duration(seconds: float) -> str:
    """
    >>> duration(3.21), duration(75), duration(4000), duration(200000)
    ('3.2 s', '1 min 15 s', '1 h 6 min', '55 h 33 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
