"""Every test of this folder that asks for `case` runs over every layer, loss and model."""

import pytest

from glassformer.check import CASES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("case", CASES.values(), ids=CASES.keys())
