"""Every buffer of an arena with its life: from which step of a function to which its bytes are its own."""

from typing import NamedTuple

from glassformer.edge.learning import LearningSource
from glassformer.edge.plan import Layout
from glassformer.edge.write import Source


class Life(NamedTuple):
    """A buffer in the arena, and from which step to which of a function it is alive; both None: always."""

    function: str
    name: str
    shape: tuple[int, ...]
    bytes: int
    offset: int
    first: int | None
    last: int | None
    within: str = ""  # whose bytes it has, after that


def lives_of(source: Source) -> list[Life]:
    if not isinstance(source, LearningSource):
        return lives_in(source.layout, "predict", 0)
    state, lesson, size = source.state, source.lesson, 4 * source.lesson.parameters
    kept = [Life("", "counters", (4,), 16, 0, None, None)] + [
        Life("", name, (lesson.parameters,), size, 16 + i * size, None, None) for i, name in enumerate(source.copies)
    ]
    before = lives_in(lesson.frozen, "train_step", state + lesson.frozen_at) if lesson.frozen else []
    frozen = len(steps_of(lesson.frozen)) if lesson.frozen else 0
    buffers = [
        Life(
            "train_step",
            one.name,
            tuple(int(n) for n in one.shape),
            4 * one.floats(1),
            state + 4 * one.offset,
            0 if one is lesson.begin else frozen + one.born,
            frozen + one.dies,
        )
        for one in lesson.plan.buffers
    ]
    return [*kept, *lives_in(source.layout, "predict", state), *before, *buffers]


def lives_in(layout: Layout, function: str, offset: int) -> list[Life]:
    return [
        Life(
            function,
            place.rows.name,
            (place.rows.count, place.rows.width) if place.kept else (place.rows.width,),
            place.bytes,
            offset + place.root.offset,
            place.born,
            place.dies,
            place.over.rows.name if place.over else "",
        )
        for place in layout.places.values()
    ]


def steps_of(layout: Layout) -> list[str]:
    return [f"{step.kernel} ({step.layer})" for loop in layout.loops for step in loop.steps]


def steps_by_function(source: Source) -> dict[str, list[str]]:
    """What is called, in order: a buffer's first and last step are numbers in these lists."""
    found = {"predict": steps_of(source.layout)}
    if isinstance(source, LearningSource):
        frozen = source.lesson.frozen
        calls = [call.kernel for call in source.lesson.plan.calls]
        found["train_step"] = [*(steps_of(frozen) if frozen else []), *calls]
    return found
