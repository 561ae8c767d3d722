"""The mark of a finding: its shape and its line say the verdict without any colour.

diamond     explains                 circle       contributes
ring        no effect                triangle     hurts (it points down)
cross       diverges                 square       not decided (hollow, its interval dashed)
"""

from glassformer.lab.report.facts import Line, Seed
from glassformer.lab.report.markup import Markup, el, join
from glassformer.lab.report.numbers import signed
from glassformer.lab.report.palette import OF_VERDICT, paint
from glassformer.lab.report.scale import Scale
from glassformer.lab.study import Effect, Verdict

SIZE = 5.2


def mark(word: Verdict, x: float, y: float, size: float = SIZE) -> Markup:
    colour = OF_VERDICT[word]
    solid, hollow = paint(colour, "card"), paint("card", colour)
    if word == "explains":
        r = size * 1.3
        corners = f"{x:.1f},{y - r:.1f} {x + r:.1f},{y:.1f} {x:.1f},{y + r:.1f} {x - r:.1f},{y:.1f}"
        return el("polygon", points=corners, stroke_width=1.2, **solid)
    if word == "contributes":
        return el("circle", cx=x, cy=y, r=size, stroke_width=1.2, **solid)
    if word == "hurts":
        r = size * 1.15
        corners = f"{x - r:.1f},{y - r * 0.8:.1f} {x + r:.1f},{y - r * 0.8:.1f} {x:.1f},{y + r:.1f}"
        return el("polygon", points=corners, stroke_width=1.2, **solid)
    if word == "diverges":
        r = size * 0.85
        path = f"M{x - r:.1f},{y - r:.1f}L{x + r:.1f},{y + r:.1f}M{x - r:.1f},{y + r:.1f}L{x + r:.1f},{y - r:.1f}"
        return el("path", d=path, stroke_width=2.6, stroke_linecap="round", **paint("", colour))
    if word == "not decided":
        return el(
            "rect", x=x - size * 0.9, y=y - size * 0.9, width=size * 1.8, height=size * 1.8, stroke_width=1.8, **hollow
        )
    return el("circle", cx=x, cy=y, r=size * 0.92, stroke_width=1.9, **hollow)


def whiskers(effect: Effect, word: Verdict, y: float, scale: Scale, colour: str = "") -> Markup:
    """The 95 % interval, with caps; an arrow where it goes on beyond the picture."""
    ink = paint("", colour or OF_VERDICT[word])
    low, high = scale.held(effect.low), scale.held(effect.high)
    dashed = {"stroke_dasharray": "4 3"} if word == "not decided" else {}
    line = el("line", x1=low, y1=y, x2=high, y2=y, stroke_width=2.2, **dashed, **ink)
    return join(line, end(low, y, -1, scale.inside(effect.low), ink), end(high, y, 1, scale.inside(effect.high), ink))


def end(x: float, y: float, side: int, inside: bool, ink: dict[str, str]) -> Markup:
    if inside:
        return el("line", x1=x, y1=y - 4.5, x2=x, y2=y + 4.5, stroke_width=2.2, **ink)
    path = f"M{x - 6 * side:.1f},{y - 4.5:.1f}L{x:.1f},{y:.1f}L{x - 6 * side:.1f},{y + 4.5:.1f}"
    return el("path", d=path, stroke_width=2.2, **ink)


def dots(line: Line, y: float, scale: Scale, colour: str = "") -> Markup:
    """One for every seed. Those that lie on each other are set apart, up and down, and the order is always the same."""
    drawn, placed = [], []
    for seed in sorted(line.seeds, key=lambda seed: seed.difference):
        x = scale.held(seed.difference)
        near = sum(abs(x - other) < 5 for other in placed)
        placed.append(x)
        up = (near + 1) // 2 * (3.1 if near % 2 else -3.1)
        words = said(line.name, seed, line.finding.unit)
        own = {} if seed.seed is None else {"data_seed": seed.seed}
        ink = paint(colour or OF_VERDICT[line.finding.word], "", "seed")
        drawn.append(
            el(
                "circle",
                el("title", words),
                cx=x,
                cy=y + max(-6.2, min(6.2, up)),
                r=2.5,
                fill_opacity=0.5,
                **own,
                **ink,
            )
        )
    return join(*drawn)


def said(name: str, seed: Seed, unit: str) -> str:
    start = name if seed.seed is None else f"{name}, seed {seed.seed}"
    sides = "" if seed.without is None or seed.with_ is None else f" ({seed.without:.1f} → {seed.with_:.1f})"
    return f"{start}: {signed(seed.difference, 2)} {unit}{sides}"
