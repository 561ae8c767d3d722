"""Which steps share a loop over tokens, and where each value lies in the arena: the memory a device needs, to the byte.

A value that only the loop that makes it reads needs one row; any other is kept for all tokens. Values that are never
alive together share bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from glassformer.edge.steps import Program, Row, Rows, Step, Whole
from glassformer.native.plan import first_gap

ALIGNED = 4  # bytes


@dataclass
class Loop:
    """Steps that are taken together for each of `count` tokens."""

    count: int
    steps: list[Step] = field(default_factory=list)

    @property
    def made(self) -> set[Rows]:
        return {one.rows.root for step in self.steps for one in step.writes}


@dataclass(eq=False)
class Place:
    """Where a value lies in the arena, and between which steps it is alive."""

    rows: Rows
    kept: bool  # for all tokens, else for the one whose turn it is
    born: int
    dies: int
    offset: int = -1
    over: "Place | None" = None  # whose place it takes

    @property
    def bytes(self) -> int:
        numbers = self.rows.size if self.kept else self.rows.width
        return -(-numbers * self.rows.item // ALIGNED) * ALIGNED

    @property
    def root(self) -> "Place":
        return self if self.over is None else self.over.root


@dataclass
class Layout:
    """The loops, and the place of every value that is neither given nor the answer."""

    program: Program
    loops: list[Loop]
    places: dict[Rows, Place]

    @property
    def arena(self) -> int:
        """Bytes."""
        return max((place.root.offset + place.root.bytes for place in self.places.values()), default=0)

    @property
    def multiply_adds(self) -> int:
        return sum(loop.count * step.multiply_adds for loop in self.loops for step in loop.steps)


def layout_of(program: Program) -> Layout:
    loops = loops_of(program.steps)
    compute_again(loops)
    only_first_rows(loops)
    places = {place.rows: place for place in places_of(program, loops)}
    share(loops, places)
    put(list(places.values()))
    return Layout(program, loops, places)


def loops_of(steps: list[Step]) -> list[Loop]:
    """A step joins the loop before it if nothing that it must have whole is made there."""
    loops: list[Loop] = []
    for step in steps:
        if not loops or not joins(step, loops[-1]):
            loops.append(Loop(step.count))
        loops[-1].steps.append(step)
    return loops


def joins(step: Step, loop: Loop) -> bool:
    if step.count != loop.count:
        return False
    by_rows = {one.rows for done in loop.steps for one in done.writes if isinstance(one, Row)}
    needed = [*step.wholes_read, *(rows for rows in step.rows_read if rows not in by_rows)]
    return loop.count == 1 or not any(rows.root in loop.made for rows in needed)


def compute_again(loops: list[Loop]) -> None:
    """What is cheap is made again where it is needed again, if what it is made of is there anyway."""
    for i, loop in enumerate(loops):
        there = {rows.root for step in loop.steps for rows in step.rows_read}
        for maker in [step for before in loops[:i] for step in before.steps if step.cheap and step.count == loop.count]:
            (made,) = (one.rows for one in maker.writes)
            readers = [step for step in loop.steps if made in step.rows_read]
            if not readers or not {rows.root for rows in maker.rows_read} <= there - {made}:
                continue
            again = replace(made)
            at = loop.steps.index(readers[0])
            for reader in readers:
                reader.reads = tuple(Row(again) if one == Row(made) else one for one in reader.reads)
            loop.steps.insert(at, replace(maker, writes=(Row(again),)))


def only_first_rows(loops: list[Loop]) -> None:
    """Where only the first token is asked for, no other is computed."""
    for i, loop in reversed(list(enumerate(loops))):
        later = [one.rows for after in loops[i + 1 :] for step in after.steps for one in operands_of(step)]
        asked = [rows for rows in later if rows.root in loop.made]
        rowwise = all(isinstance(one, Row) for step in loop.steps for one in step.writes)
        if rowwise and asked and all(rows.begin + rows.size <= rows.root.width for rows in asked):
            loop.count = 1


def operands_of(step: Step) -> list[Row | Whole]:
    return [one for one in step.operands if isinstance(one, Row | Whole)]


def touches(loops: list[Loop]) -> Iterator[tuple[int, int, Step, Row | Whole]]:
    """Loop, time, step, and what it reads or writes."""
    time = 0
    for i, loop in enumerate(loops):
        for step in loop.steps:
            for one in operands_of(step):
                yield i, time, step, one
            time += 1


def places_of(program: Program, loops: list[Loop]) -> Iterator[Place]:
    """Every value's life. What is kept lives from the beginning of its first loop to the end of its last."""
    begins = [sum(len(loop.steps) for loop in loops[:i]) for i in range(len(loops) + 1)]
    found: dict[Rows, list[tuple[int, int, bool]]] = {}
    for i, time, _, one in touches(loops):
        own = isinstance(one, Row) and one.rows.base is None
        found.setdefault(one.rows.root, []).append((i, time, own))
    for rows, uses in found.items():
        if rows in (program.sample, program.logits):
            continue
        first, last = min(uses)[0], max(uses)[0]
        kept = first != last or not all(own for _, _, own in uses)
        times = [time for _, time, _ in uses]
        born, dies = (begins[first], begins[last + 1] - 1) if kept else (min(times), max(times))
        yield Place(rows, kept, born, dies)


def share(loops: list[Loop], places: dict[Rows, Place]) -> None:
    """A value takes the place of one of the same form that no row is read of any more when its own is written."""
    uses: dict[Place, list[tuple[int, int, Step, Row | Whole]]] = {place: [] for place in places.values()}
    for use in touches(loops):
        if use[3].rows.root in places:
            uses[places[use[3].rows.root]].append(use)
    for place in sorted(uses, key=lambda place: place.born):
        for other in uses:
            if other.over is None and other is not place and fits(uses[place], place, uses[other], other):
                place.over = other
                other.born, other.dies = min(other.born, place.born), max(other.dies, place.dies)
                uses[other] += uses[place]
                break


def fits(own: list, place: Place, others: list, other: Place) -> bool:
    """Whether all rows of `other` are done with when the same rows of `place` are written."""
    if (place.kept, place.bytes, place.rows.width) != (other.kept, other.bytes, other.rows.width):
        return False
    loop, time, step, _ = min(own, key=lambda use: use[1])
    last_loop, last_time, *_ = max(others, key=lambda use: use[1])
    if last_loop != loop or last_time > time:
        return False
    together = [one for i, _, _, one in (*own, *others) if i == loop]
    if not all(isinstance(one, Row) and one.rows.base is None for one in together):
        return False
    return last_time < time or (
        step.in_place and len(step.writes) == 1 and step.rows_read[0].root is other_of(others, time)
    )


def other_of(uses: list, time: int) -> Rows:
    return next(one.rows.root for _, at, _, one in uses if at == time)


def put(places: list[Place]) -> None:
    """The lowest gap for each, the largest first."""
    sizes = {place: place.bytes for place in places if place.over is None}
    for place in sorted(sizes, key=lambda one: -one.bytes):
        place.offset = first_gap(place, [one for one in sizes if one.offset >= 0], sizes)
