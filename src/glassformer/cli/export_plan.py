"""glassformer export --to c --plan: what every variant takes of a device, before any C is written."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.edge.budget import Budget, Device, Variant

HEAD = ("", "arena", "stack", "input", "logits", "library", "RAM", "weights", "code", "flash", "multiply-adds", "")
BUFFERS = ("buffer", "in", "from step", "to step", "shape", "bytes", "at")


def plan_of(budget: "Budget") -> tuple[dict[str, Any], str]:
    """What --json has; the text."""
    from glassformer.edge.budget import WORDS, Impossible, Variant

    there = [one for one in budget.variants if isinstance(one, Variant)]
    nearest = None if budget.fitting else budget.nearest("float")
    lines = [*heading(budget.device), "", *overview(there, limited=budget.is_limited)]
    lines += [f"{WORDS[one.way]}: not possible: {one.reason}" for one in budget.variants if isinstance(one, Impossible)]
    if budget.is_limited and not budget.fitting:
        lines += ["", f"nothing fits; the nearest that would: {nearest or 'none'}"]
    for one in there:
        lines += ["", f"{WORDS[one.way]}: the arena", *buffers(one)]
    facts = {"device": device_facts(budget.device), "variants": [one.facts for one in budget.variants]}
    return facts | {"nearest": nearest and nearest.facts}, "\n".join(lines)


def heading(device: "Device") -> list[str]:
    lines = ["all in bytes"]
    if board := device.board:
        lines = [f"{board.name}: {board.part}, {board.processor} ({board.source})"]
    room = {"RAM": device.ram, "flash": device.flash}
    if given := ", ".join(f"{size:,} of {name}" for name, size in room.items() if size is not None):
        lines.append(f"bytes there: {given}")
    if device.unmeasured:
        return [*lines, f"stack, library and code: not measured, for {device.unmeasured}"]
    assert device.target is not None
    return [
        *lines,
        f"stack bound and code: {device.target.compiler} for {device.target.processor}, {' '.join(device.flags)}",
        "library: RAM of the C library's own, the errno of sqrtf say",
    ]


def overview(variants: list["Variant"], *, limited: bool) -> list[str]:
    from glassformer.edge.budget import WORDS
    from glassformer.tables import text_table

    def row(one: "Variant") -> list[str]:
        known = one.measured is not None
        stack, static, code = (one.stack, one.measured.static, one.code) if one.measured else (None,) * 3
        more = "" if known else "+"  # at least
        numbers = [one.arena, stack, one.input, one.logits, static, one.ram, one.weights, code, one.flash]
        cells = ["?" if number is None else f"{number:,}" for number in numbers]
        cells[5], cells[8] = cells[5] + more, cells[8] + more
        verdict = "" if not limited else "does not fit" if one.shortage else "fits" if known else "may fit"
        return [WORDS[one.way], *cells, f"{one.multiply_adds:,}", verdict]

    return text_table(HEAD, [row(one) for one in variants], left=1)


def buffers(one: "Variant") -> list[str]:
    from glassformer.edge.lives import lives_of, steps_by_function
    from glassformer.native.write import shape_text
    from glassformer.tables import text_table

    steps, lives = steps_by_function(one.source), lives_of(one.source)
    kept = [life for life in lives if life.first is None]
    shown = [life for life in lives if not kept or life.function != "predict"]
    moved = [f"predict: as in float, {sum(life.bytes for life in kept):,} bytes further on"] if kept else []

    def step(function: str, number: int | None) -> str:
        return "always" if number is None else f"{number} {steps[function][number].split()[0]}"

    rows = [
        [
            f"{life.name} (in place of {life.within})" if life.within else life.name,
            life.function,
            step(life.function, life.first),
            step(life.function, life.last),
            shape_text(life.shape),
            f"{life.bytes:,}",
            f"{life.offset:,}",
        ]
        for life in shown
    ]
    return [*text_table(BUFFERS, rows, left=4), *moved]


def device_facts(device: "Device") -> dict[str, Any]:
    board = device.board
    return {
        "board": board and board._asdict(),
        "ram": device.ram,
        "flash": device.flash,
        "target": device.target and device.target.name,
        "flags": list(device.flags),
        "not_measured": device.unmeasured or None,
    }
