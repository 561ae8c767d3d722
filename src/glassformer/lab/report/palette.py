"""Colours, by what they mean, in light and in dark.

Pictures carry the light ones as attributes, so that a picture taken out of the page is ready for paper; in the page
the style sheet paints them by the class that stands beside. Verdicts and curves keep apart for colour-blind readers
(blue, orange, grey, after Okabe and Ito), and are told by shape and by word as well.
"""

from typing import Any

from glassformer.lab.study import Verdict

COLOURS: dict[str, tuple[str, str]] = {
    "ground": ("#faf8f4", "#121418"),
    "card": ("#ffffff", "#1b1e24"),
    "text": ("#1d1f23", "#eceae6"),
    "quiet": ("#5f636b", "#a3a6ae"),
    "rule": ("#e2ded6", "#30343c"),
    "soft": ("#f3f0ea", "#23272e"),
    "axis": ("#8d9097", "#6f737c"),
    "accent": ("#1b5a9c", "#7db4ec"),
    "explains": ("#0b4f94", "#6fb2f5"),
    "contributes": ("#1f7aa8", "#4fb8d8"),
    "unclear": ("#6b6f77", "#9ca0a8"),
    "hurts": ("#c2410c", "#ff9d5c"),
    "diverges": ("#7c2d5e", "#e59ac6"),
    "curve-0": ("#5f636b", "#a3a6ae"),
    "curve-1": ("#0b62ad", "#6fb2f5"),
    "curve-2": ("#b85600", "#f0a24e"),
    "curve-3": ("#00795c", "#3fc9a0"),
    "curve-4": ("#9b3f86", "#e08fcb"),
    "curve-5": ("#1d1f23", "#eceae6"),
}
SIGNED = {  # from less than the sum to more than the sum; the house's map
    "light": ("#084081", "#2b73b8", "#78aed8", "#c4daea", "#f8f6f2", "#fad6b0", "#f0a35e", "#cd6818", "#8c3d04"),
    "dark": ("#8cc8ff", "#549ee2", "#306eaa", "#204268", "#23272e", "#5c3a1a", "#a05c1e", "#e08934", "#ffbe7a"),
}
OF_VERDICT: dict[Verdict, str] = {
    "explains": "explains",
    "contributes": "contributes",
    "no effect": "unclear",
    "not decided": "unclear",
    "hurts": "hurts",
    "diverges": "diverges",
    "more than the sum": "contributes",
    "less than the sum": "hurts",
}


def paint(fill: str = "", stroke: str = "", also: str = "") -> dict[str, Any]:
    """Attributes of an element that is filled and drawn in colours by name."""
    classes = " ".join(filter(None, [also, fill and f"f-{fill}", stroke and f"s-{stroke}"]))
    colours = {"fill": COLOURS[fill][0] if fill else "none"}
    return {"class_": classes, **colours, **({"stroke": COLOURS[stroke][0]} if stroke else {})}


def style(theme: str) -> str:
    """The colours as variables of the style sheet."""
    i = ("light", "dark").index(theme)
    named = {name: both[i] for name, both in COLOURS.items()}
    for step, colour in enumerate(SIGNED[theme]):
        named |= {f"signed-{step}": colour, f"on-{step}": ink_on(colour)}
    return "".join(f"--{name}:{colour};" for name, colour in named.items()) + f"color-scheme:{theme};"


def classes() -> str:
    """That paint by these variables."""
    drawn = "".join(f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}" for name in COLOURS)
    steps = range(len(SIGNED["light"]))
    return drawn + "".join(f".signed-{i}{{background:var(--signed-{i});color:var(--on-{i})}}" for i in steps)


def ink_on(colour: str) -> str:
    """Black or white, whichever can be read better.

    >>> ink_on("#ffffff"), ink_on("#084081")
    ('#14161a', '#ffffff')
    """
    red, green, blue = ((int(colour[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5))
    return "#14161a" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"
