"""Look inside a model: its own forward and backward are run with a visitor that sees every tagged value.

Nothing here changes a model or trains one.
"""

from glassformer.lens.ablate_each import HeadEffects, ablate_each
from glassformer.lens.patch import ablate, patch
from glassformer.lens.trace import Trace, trace

__all__ = ["HeadEffects", "Trace", "ablate", "ablate_each", "patch", "trace"]
