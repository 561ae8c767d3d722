"""My layer and my model keep the contract: gradients against autodiff and finite differences, shapes, names."""

from pathlib import Path

import pytest

from glassformer import load_code
from glassformer.check import Case, check
from glassformer.models import Images

mine = load_code(Path(__file__).with_name("my_model.py"))
SMALL = mine.MyModel(images=Images(shape=(8, 12, 3), classes=5), width=6, hidden=7, heads=3)  # no two sizes alike
CASES = [
    Case("gate", mine.Gate(width=6)),
    Case("my model", SMALL, shape=(2, 8, 12, 3), spread=100.0),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_keeps_the_contract(case: Case) -> None:
    report = check(case)
    assert report.ok, report.problems
    assert not report.notes
