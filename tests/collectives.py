"""What a compiled program sends between devices, read from its text."""

import math
import re
from typing import NamedTuple

KINDS = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
LINE = re.compile(rf"^\s*(?:ROOT )?%?[\w.-]+ = (.*?) ({'|'.join(KINDS)})(?:-start)?\(.*?(?:op_name=\"([^\"]*)\"|$)")
ARRAY = re.compile(r"\b([a-z]+\d+|pred)\[([\d,]*)\]")
BYTES = {"pred": 1, "bf16": 2, "f32": 4, "s32": 4, "u32": 4, "f64": 8}


class Collective(NamedTuple):
    kind: str
    arrays: tuple[tuple[str, tuple[int, ...]], ...]  # type and shape of each result, on one device
    where: str  # the scopes of the operation it comes from

    @property
    def bytes(self) -> int:
        return sum(BYTES[dtype] * math.prod(shape) for dtype, shape in self.arrays)


def collectives(text: str) -> list[Collective]:
    """
    >>> collectives('  %a = (f32[4,2]{1,0}, f32[]) all-reduce(%b, %c), metadata={op_name="jit(f)/loss"}')
    [Collective(kind='all-reduce', arrays=(('f32', (4, 2)), ('f32', ())), where='jit(f)/loss')]
    """
    found = []
    for line in text.splitlines():
        if match := LINE.match(line):
            arrays = (
                (dtype, tuple(map(int, filter(None, sizes.split(","))))) for dtype, sizes in ARRAY.findall(match[1])
            )
            found.append(Collective(match[2], tuple(arrays), match[3] or ""))
    return found
