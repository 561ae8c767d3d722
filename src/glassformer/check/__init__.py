"""Proof that a layer keeps the contract: its gradients, its declared shapes, its names.

The same checks run in the project's own suite over every layer, and in `glassformer gradcheck` over a user's.
"""

from glassformer.check.cases import CASES
from glassformer.check.draw import Case, Drawn
from glassformer.check.gradients import gradient_error
from glassformer.check.report import Report, check

__all__ = ["CASES", "Case", "Drawn", "Report", "check", "gradient_error"]
