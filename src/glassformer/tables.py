"""Tables: the same rows as aligned text, and as HTML for notebooks."""

from collections.abc import Sequence
from html import escape

Row = Sequence[str]
FRAME = "border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px;margin:0 0 8px"


def text_table(head: Row, rows: Sequence[Row], left: int, total: Row | None = None) -> list[str]:
    """Lines; the first `left` columns are text, the others numbers. Of a total, between two rules."""
    widths = [max(len(row[i]) for row in (head, *rows, *([total] if total else []))) for i in range(len(head))]
    rule = "  ".join("-" * width for width in widths)

    def line(row: Row) -> str:
        texts, numbers = zip(row[:left], widths, strict=False), zip(row[left:], widths[left:], strict=True)
        return "  ".join([*(cell.ljust(w) for cell, w in texts), *(cell.rjust(w) for cell, w in numbers)]).rstrip()

    return [line(head), rule, *map(line, rows), *([rule, line(total)] if total else [])]


def html_table(head: Row, rows: Sequence[Row], left: int, total: Row | None = None, caption: str = "") -> str:
    """One `<table>`; whatever stands in the cells is shown, never read as HTML."""

    def cells(row: Row, kind: str) -> str:
        sides = ("left" if i < left else "right" for i in range(len(row)))
        shown = (
            f'<{kind} style="text-align:{side};padding:1px 10px;white-space:nowrap">{escape(cell)}</{kind}>'
            for cell, side in zip(row, sides, strict=True)
        )
        return f"<tr>{''.join(shown)}</tr>"

    title = f'<caption style="text-align:left;white-space:nowrap">{escape(caption)}</caption>' if caption else ""
    body = "".join(cells(row, "td") for row in rows)
    foot = f"<tfoot>{cells(total, 'th')}</tfoot>" if total else ""
    return f'<table style="{FRAME}">{title}<thead>{cells(head, "th")}</thead><tbody>{body}</tbody>{foot}</table>'
