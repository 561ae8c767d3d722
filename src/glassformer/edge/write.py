"""A layout as C99: sizes, weights, and the list of calls. The kernels are written by hand (c/)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer import __version__
from glassformer.edge.amalgamate import amalgamated
from glassformer.edge.plan import Layout, Loop, Place
from glassformer.edge.steps import BYTES, Operand, Row, Rows, Step, Turn, Weight, Whole
from glassformer.native.plan import Constant, word
from glassformer.native.write import number, shape_text

SMALL = 10_000  # multiply-adds: below, fixed costs of a call weigh more than flash (iris: 21 k instructions, not 26 k)
RESERVED = ("x", "t", "w", "g", "own", "memory", "arena", "bytes", "best", "loss", "label", "rate", "weights")
ERRORS = {"ARENA_TOO_SMALL": -1, "ARENA_NOT_ALIGNED": -2}
ATTENDS = ("attend_row", "int8_attend")  # kernels that compute the attention weights of a query


@dataclass(frozen=True)
class Source:
    """The C of one model: what it computes, and its weights in flash."""

    name: str  # prefix of everything that can be seen from outside
    title: str
    layout: Layout
    weights: dict[str, np.ndarray]

    @property
    def upper(self) -> str:
        return self.name.upper()

    @property
    def arena(self) -> int:
        """Bytes that the caller gives."""
        return self.layout.arena

    @property
    def constant_bytes(self) -> dict[str, int]:
        """What lies in flash besides code, by its name in C."""
        numbers = {word(one.name): 4 * len(one.values) for one in constants_of(self.layout)}
        return {name: struct_bytes(arrays) for name, arrays in self.flash.items() if arrays} | numbers

    @property
    def flash(self) -> dict[str, dict[str, np.ndarray]]:
        """Weights, by the name of the struct that has them."""
        return {"weights": self.weights}

    @property
    def api(self) -> tuple[str, ...]:
        """Functions that can be called, without their prefix."""
        return ("predict",)

    @property
    def errors(self) -> dict[str, int]:
        return ERRORS

    @property
    def input(self) -> str:
        return f"const {self.layout.program.input.c_type} *x"

    @property
    def files(self) -> dict[str, str]:
        return {
            f"{self.name}.h": self.header(),
            f"{self.name}.c": self.code(),
            f"{self.name}_weights.h": self.constants(),
        }

    def header(self) -> str:
        given = self.layout.program.input
        errors = ", ".join(f"{self.upper}_{name} = {value}" for name, value in self.errors.items())
        return f"""/* {self.title}. Written by glassformer {__version__}. */
#ifndef {self.upper}_H
#define {self.upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {self.upper}_ARENA {self.arena} /* bytes to work in, aligned to 4 */
#define {self.upper}_INPUTS {given.size} /* {shape_text(given.shape)} */
#define {self.upper}_OUTPUTS {output_of(self.layout).width}
enum {{ {errors} }};

{self.functions()}

#ifdef __cplusplus
}}
#endif
#endif
"""

    def functions(self) -> str:
        """What can be called."""
        return f"""/* logits ({self.upper}_OUTPUTS)  <-  x ({self.upper}_INPUTS).
 * Returns the number of the highest, or an error, which is below 0. */
{self.signature()};"""

    def signature(self) -> str:
        return f"int {self.name}_predict(float *logits, {self.input}, void *arena, size_t bytes)"

    def code(self) -> str:
        body = self.body()
        system, kernels = amalgamated(self.headers(), self.layout.program.folders, body)
        parts = [
            f"/* {self.title}. Written by glassformer {__version__}: sizes and calls are generated. */",
            "#define SMALL" if self.layout.multiply_adds < SMALL else "",
            f'#include "{self.name}.h"',
            "\n".join(f"#include {one}" for one in system),
            f'#include "{self.name}_weights.h"',
            kernels,
            body,
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def headers(self) -> list[str]:
        """Of the kernels that are called."""
        return list(dict.fromkeys(step.header for loop in self.layout.loops for step in loop.steps))

    def body(self) -> str:
        return "\n\n".join([*map(constant, constants_of(self.layout)), self.predict()])

    def predict(self) -> str:
        lines = [
            self.signature(),
            "{",
            *self.beginning(),
            "    int best = 0;",
            *self.loops(self.layout),
            f"    for (int i = 1; i < {self.upper}_OUTPUTS; i++)",
            "        if (logits[i] > logits[best]) best = i;",
            "    return best;",
            "}",
        ]
        return "\n".join(lines)

    def beginning(self) -> list[str]:
        """What is checked first, and where the memory for values is."""
        return [
            f"    if (bytes < {self.upper}_ARENA) return {self.upper}_ARENA_TOO_SMALL;",
            f"    if ((uintptr_t)arena % 4) return {self.upper}_ARENA_NOT_ALIGNED;",
            "    void *const memory = arena;",
        ]

    def loops(self, layout: Layout, output: str = "logits", offset: int = 0, taken: Iterable[str] = ()) -> list[str]:
        names = unique({place: word(place.rows.name) for place in layout.places.values()}, {*RESERVED, output, *taken})
        spell = Spelling(layout, names, self.spelled, output)
        places = [declared(place, names[place], offset) for place in layout.places.values()]
        return [*places, *(line for loop in layout.loops for line in loop_lines(loop, spell))]

    def spelled(self, weight: str) -> str:
        return f"weights.{word(weight)}"

    def constants(self) -> str:
        guard = f"{self.name.upper()}_WEIGHTS_H"
        return "\n".join([f"#ifndef {guard}", f"#define {guard}", "", *self.structs(), "", "#endif", ""])

    def structs(self) -> list[str]:
        return ["static const struct {", *members(self.weights), "} weights = {", *values(self.weights), "};"]


@dataclass(frozen=True)
class Spelling:
    """Operands in C."""

    layout: Layout
    names: dict[Place, str]
    weight: Callable[[str], str]
    output: str

    def __call__(self, used: Operand, count: int) -> str:
        match used:
            case Row() | Whole():
                return self.rows(used, count)
            case Weight():
                return self.weight(used.name) + (f" + {used.by_row} * t" if used.by_row and count > 1 else "")
            case Constant():
                return word(used.name)
            case Turn():
                return "t" if count > 1 else "0"
        return "NULL"

    def rows(self, used: Row | Whole, count: int) -> str:
        rows: Rows = used.rows
        program = self.layout.program
        if rows.root is program.sample:
            name, kept = "x", True
        elif rows.root is program.logits:
            name, kept = self.output, True
        else:
            place = self.layout.places[rows.root]
            name, kept = self.names[place], place.kept
        terms = [name, *([str(rows.begin)] if rows.begin else [])]
        if isinstance(used, Row) and kept and count > 1:
            terms.append(f"{rows.width} * t")
        return " + ".join(terms)


def loop_lines(loop: Loop, spell: Spelling) -> list[str]:
    indent = "    " * (1 + (loop.count > 1))
    lines = [
        f"{indent}{line}" for step in loop.steps for line in (*hook(step, loop.count), call(step, loop.count, spell))
    ]
    return lines if loop.count == 1 else [f"    for (int t = 0; t < {loop.count}; t++) {{", *lines, "    }"]


def hook(step: Step, count: int) -> list[str]:
    """What c/attention_hook.h is told before a query is computed."""
    turn = "t" if count > 1 else "0"
    return [f'ATTENTION_QUERY("{step.layer}.pattern", {turn});'] if step.kernel in ATTENDS else []


def call(step: Step, count: int, spell: Spelling) -> str:
    arguments = [*(spell(used, count) for used in step.operands), *map(number, step.sizes)]
    return f"{step.kernel}({', '.join(arguments)});"


def declared(place: Place, name: str, offset: int) -> str:
    rows = place.rows
    shape = shape_text((rows.count, rows.width)) if place.kept else f"({rows.width}), one row at a time"
    c_type, at = rows.c_type, (offset + place.root.offset) // rows.item
    return f"    {c_type} *const {name} = ({c_type} *)memory + {at}; /* {shape} */"


def members(arrays: dict[str, np.ndarray]) -> list[str]:
    return [
        f"    {c_type(one)} {word(name)}[{one.size}]; /* {shape_text(one.shape)} */" for name, one in arrays.items()
    ]


def c_type(array: np.ndarray) -> str:
    return f"{array.dtype}_t" if np.issubdtype(array.dtype, np.integer) else "float"


def struct_bytes(arrays: dict[str, np.ndarray]) -> int:
    """As C lays it out: numbers aligned to their own size, the whole to the largest."""
    items, end = {name: BYTES[c_type(one)] for name, one in arrays.items()}, 0
    for name, item in items.items():
        end = -(-end // item) * item + arrays[name].size * item
    return -(-end // max(items.values())) * max(items.values())


def values(arrays: dict[str, np.ndarray]) -> list[str]:
    return [f"    {{{wrapped(array)}}}, /* {name} */" for name, array in arrays.items()]


def unique(names: dict[Place, str], taken: set[str]) -> dict[Place, str]:
    """No name twice, and none that means something else."""
    found = {}
    for place, name in names.items():
        same = (f"{name}_{i}" for i in range(2, len(names) + 2))
        found[place] = next(one for one in (name, *same) if one not in taken)
        taken.add(found[place])
    return found


def output_of(layout: Layout) -> Rows:
    if layout.program.logits is None:
        raise ValueError("a program without logits")
    return layout.program.logits


def constants_of(layout: Layout) -> list[Constant]:
    used = [one for loop in layout.loops for step in loop.steps for one in step.reads]
    return list(dict.fromkeys(one for one in used if isinstance(one, Constant)))


def constant(numbers: Constant) -> str:
    return f"static const float {word(numbers.name)}[] = {{{', '.join(map(number, numbers.values))}}};"


def wrapped(array: Any, width: int = 110) -> str:
    """Numbers, as many on a line as fit."""
    lines, line = [], ""
    array = np.asarray(array)
    for value in (array if c_type(array) != "float" else array.astype(np.float32)).ravel().tolist():
        digits = number(value)
        if line and len(line) + len(digits) + 2 > width:
            lines.append(line)
            line = ""
        line += f"{', ' if line else ''}{digits}"
    return ",\n     ".join([*lines, line])
