"""Targets as test parameters: host and M4 in quick tests, the others in slow ones; what is missing is skipped."""

import pytest

from glassformer.edge.targets import TARGETS, find, missing


def needs(name: str) -> pytest.MarkDecorator:
    lacks = missing(find(name))
    return pytest.mark.skipif(bool(lacks), reason=lacks)


QUICK = ("host", "m4")
ALL = [
    pytest.param(target, id=name, marks=[needs(name), *([] if name in QUICK else [pytest.mark.slow])])
    for name, target in TARGETS.items()
]
EMULATED = [param for param in ALL if param.id != "host"]
