"""The picture of vit-pico's memory on a device in docs/edge.md: `python scripts/arena_picture.py`."""

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from glassformer.edge.layers import program_of
from glassformer.edge.plan import Layout, layout_of, touches
from glassformer.predict.run import load

OUT = Path(__file__).parents[1] / "docs" / "pictures" / "edge-arena.svg"
LINE, LEFT, TOP = 24, 270, 72  # pixels: of a step; of what stands beside and above
KEPT, ROWS = 330, 560  # pixels: of what is kept for all tokens, and of rows, on a scale of their own
COLOURS = ("#cfe3f5", "#d8ecd2", "#f7dfc3", "#e6d9f0", "#f5d3d6", "#dfe3e8")


class Box(NamedTuple):
    name: str
    kept: bool
    first: int  # step
    last: int
    begin: int  # byte
    end: int


def boxes(layout: Layout) -> list[Box]:
    """Every value from the step that makes it to the last one that reads it."""
    times: dict[object, list[int]] = {}
    for _, time, _, one in touches(layout.loops):
        times.setdefault(one.rows.root, []).append(time)
    found = []
    for rows, place in layout.places.items():
        begin, (first, last) = place.root.offset, (min(times[rows]), max(times[rows]))
        first, last = (place.born, place.dies) if place.kept else (first, last)
        found.append(Box(rows.name, place.kept, first, last, begin, begin + place.bytes))
    return found


def picture(layout: Layout) -> str:
    shown = boxes(layout)
    edge = max(box.end for box in shown if box.kept and box.end - box.begin > layout.arena / 8)

    def x(byte: int) -> float:
        return LEFT + (byte / edge * KEPT if byte <= edge else KEPT + (byte - edge) / (layout.arena - edge) * ROWS)

    steps = [(loop.count, step) for loop in layout.loops for step in loop.steps]
    ends = [sum(len(loop.steps) for loop in layout.loops[: i + 1]) for i in range(len(layout.loops))]
    width, height = LEFT + KEPT + ROWS + 24, TOP + LINE * len(steps) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(16, 22, f"The arena of vit-pico: {layout.arena:,} bytes, from the first step to the last", size=14),
        text(16, 46, "step (each loop: for every token)", "#555"),
        text(LEFT, 46, f"bytes 0 to {edge:,}: kept for all tokens", "#555"),
        text(LEFT + KEPT + 6, 46, f"bytes {edge:,} to {layout.arena:,}, enlarged: one row at a time", "#555"),
    ]
    for number, (count, step) in enumerate(steps):
        times = f"{count} \N{MULTIPLICATION SIGN} " if count > 1 else ""
        said = f"{times}{step.kernel} ({step.layer.removeprefix('blocks.0.')})"
        parts.append(text(16, TOP + LINE * number + 16, said))
    for number, box in enumerate(shown):
        left, right = x(box.begin), x(box.end)
        top, bottom = TOP + LINE * box.first, TOP + LINE * (box.last + 1)
        parts.append(
            f'<rect x="{left:.1f}" y="{top}" width="{right - left:.1f}" height="{bottom - top}" '
            f'fill="{COLOURS[number % len(COLOURS)]}" stroke="#777" stroke-width="0.7"/>'
        )
        parts.append(text(left + 4, top + 15, box.name.removeprefix("blocks.0.")))
        if box.kept and box.end - box.begin > 1000:
            parts.append(text(left + 4, top + 31, f"{box.end - box.begin:,} bytes", "#555"))
    for end in (0, *ends):
        y = TOP + LINE * end
        parts.append(f'<line x1="12" x2="{width - 12}" y1="{y}" y2="{y}" stroke="#333" stroke-width="1.2"/>')
    middle = LEFT + KEPT
    parts.append(
        f'<line x1="{middle}" x2="{middle}" y1="{TOP - 14}" y2="{height - 12}" stroke="#333" stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>", ""])


def text(x: float, y: float, said: str, colour: str = "#111", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{colour}" font-size="{size}">{escape(said)}</text>'


if __name__ == "__main__":
    OUT.write_text(picture(layout_of(program_of(load().model))), encoding="utf-8")
