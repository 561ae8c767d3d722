"""Numbers as C: any float reads back, and any instance has a name."""

import ctypes
import math

import numpy as np
import pytest

from glassformer.models import MLP
from glassformer.models.images import Images
from glassformer.native import build
from glassformer.native.plan import Call
from glassformer.native.write import instance_name, number, source_of

from .compiled import c_compiler

NUMBERS = (math.nan, math.inf, -math.inf, 1e20, -1e20, 1e300, 1e-30, 3.4028234663852886e38, 0.1, -3.0, 1e16)


def test_every_float_reads_back() -> None:
    c_compiler()
    texts = ", ".join(map(number, NUMBERS))
    library = build.load(f"#include <math.h>\nfloat values[] = {{{texts}}};\n", pytest.fail)
    values = (ctypes.c_float * len(NUMBERS)).in_dll(library, "values")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.array(values), np.array(NUMBERS, np.float32))


@pytest.mark.parametrize("value", NUMBERS)
def test_every_instance_has_a_name(value: float) -> None:
    name = instance_name(Call("kernel", "header", (), (), (3, value)))
    assert name.isidentifier()
    assert name.isascii()


@pytest.mark.parametrize("std", [math.inf, math.nan, 1e20])
def test_a_model_with_such_a_setting_compiles(std: float) -> None:
    c_compiler()
    assert build.compiled(source_of(MLP(images=Images(shape=(4, 4, 1), classes=2, std=std), hidden=(3,)), 1))
