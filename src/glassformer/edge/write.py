"""A layout as C99: sizes, weights, and the list of calls. The kernels are written by hand (c/)."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from glassformer import __version__
from glassformer.edge.amalgamate import amalgamated
from glassformer.edge.plan import Layout, Loop, Place
from glassformer.edge.steps import Operand, Row, Rows, Step, Turn, Weight, Whole
from glassformer.native.plan import Constant, word
from glassformer.native.write import number, shape_text

ARENA_ERRORS = {"ARENA_TOO_SMALL": -1, "ARENA_NOT_ALIGNED": -2}


@dataclass(frozen=True)
class Source:
    """The C of one model."""

    name: str  # prefix of everything that can be seen from outside
    title: str
    layout: Layout
    weights: dict[str, np.ndarray]

    @property
    def files(self) -> dict[str, str]:
        return {
            f"{self.name}.h": self.header(),
            f"{self.name}.c": self.code(),
            f"{self.name}_weights.h": self.constants(),
        }

    def header(self) -> str:
        given, upper = self.layout.program.input, self.name.upper()
        logits = answer(self.layout)
        errors = ", ".join(f"{upper}_{name} = {value}" for name, value in ARENA_ERRORS.items())
        return f"""/* {self.title}. Written by glassformer {__version__}. */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_ARENA {self.layout.arena} /* bytes to work in, aligned to 4 */
#define {upper}_INPUTS {given.size} /* {shape_text(given.shape)} */
#define {upper}_OUTPUTS {logits.width}
enum {{ {errors} }};

/* logits ({upper}_OUTPUTS)  <-  x ({upper}_INPUTS).  Returns the number of the highest, or an error, which is below 0. */
int {self.name}_predict(float *logits, const {given.c_type} *x, void *arena, size_t bytes);

#ifdef __cplusplus
}}
#endif
#endif
"""

    def code(self) -> str:
        body = self.predict()
        headers = {step.header: None for loop in self.layout.loops for step in loop.steps}
        system, kernels = amalgamated(headers, self.layout.program.folders, body)
        includes = "\n".join(f"#include {one}" for one in system)
        constants = "\n".join(map(constant, constants_of(self.layout)))
        parts = [
            f"/* {self.title}. Written by glassformer {__version__}: sizes and calls are generated. */",
            f'#include "{self.name}.h"',
            includes,
            f'#include "{self.name}_weights.h"',
            kernels,
            constants,
            body,
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def predict(self) -> str:
        upper, given = self.name.upper(), self.layout.program.input
        names = {place: word(place.rows.name) for place in self.layout.places.values()}
        spell = Spelling(self.layout, unique(names))
        lines = [
            f"int {self.name}_predict(float *logits, const {given.c_type} *x, void *arena, size_t bytes)",
            "{",
            *(declared(place, spell.names[place]) for place in self.layout.places.values()),
            "    int best = 0;",
            f"    if (bytes < {upper}_ARENA) return {upper}_ARENA_TOO_SMALL;",
            f"    if ((uintptr_t)arena % 4) return {upper}_ARENA_NOT_ALIGNED;",
            *(line for loop in self.layout.loops for line in loop_lines(loop, spell)),
            f"    for (int i = 1; i < {upper}_OUTPUTS; i++)",
            "        if (logits[i] > logits[best]) best = i;",
            "    return best;",
            "}",
        ]
        return "\n".join(lines)

    def constants(self) -> str:
        upper = f"{self.name.upper()}_WEIGHTS_H"
        shapes = {name: values.shape for name, values in self.weights.items()}
        members = [
            f"    float {word(name)}[{prod(shape)}]; /* {shape_text(shape)} */" for name, shape in shapes.items()
        ]
        values = [f"    {{{wrapped(array)}}}, /* {name} */" for name, array in self.weights.items()]
        return "\n".join(
            [
                f"#ifndef {upper}",
                f"#define {upper}",
                "",
                "static const struct {",
                *members,
                "} weights = {",
                *values,
                "};",
            ]
            + ["", "#endif", ""]
        )


@dataclass(frozen=True)
class Spelling:
    layout: Layout
    names: dict[Place, str]

    def __call__(self, used: Operand, count: int) -> str:
        match used:
            case Row() | Whole():
                return self.rows(used, count)
            case Weight():
                return f"weights.{word(used.name)}" + (f" + {used.by_row} * t" if used.by_row and count > 1 else "")
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
            name, kept = "logits", True
        else:
            place = self.layout.places[rows.root]
            name, kept = self.names[place], place.kept
        terms = [name, *([str(rows.begin)] if rows.begin else [])]
        if isinstance(used, Row) and kept and count > 1:
            terms.append(f"{rows.width} * t")
        return " + ".join(terms)


def loop_lines(loop: Loop, spell: Spelling) -> list[str]:
    indent = "    " * (1 + (loop.count > 1))
    lines = [f"{indent}{call(step, loop.count, spell)}" for step in loop.steps]
    return lines if loop.count == 1 else [f"    for (int t = 0; t < {loop.count}; t++) {{", *lines, "    }"]


def call(step: Step, count: int, spell: Spelling) -> str:
    arguments = [*(spell(used, count) for used in step.operands), *map(number, step.sizes)]
    return f"{step.kernel}({', '.join(arguments)});"


def declared(place: Place, name: str) -> str:
    rows = place.rows
    shape = shape_text((rows.count, rows.width)) if place.kept else f"({rows.width}), one row at a time"
    c_type = rows.c_type
    return f"    {c_type} *const {name} = ({c_type} *)arena + {place.root.offset // rows.item}; /* {shape} */"


def unique(names: dict[Place, str]) -> dict[Place, str]:
    taken: set[str] = set()
    found = {}
    for place, name in names.items():
        same = (f"{name}_{i}" for i in range(2, len(names) + 2))
        found[place] = next(one for one in (name, *same) if one not in taken)
        taken.add(found[place])
    return found


def answer(layout: Layout) -> Rows:
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
    for value in np.asarray(array, np.float32).ravel().tolist():
        digits = number(value)
        if line and len(line) + len(digits) + 2 > width:
            lines.append(line)
            line = ""
        line += f"{', ' if line else ''}{digits}"
    return ",\n     ".join([*lines, line])
