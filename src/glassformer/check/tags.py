"""Names: every cache field is tagged under its own name, and every tag of backward is `d` + a tag of forward.

That the tagged gradients are the gradients of the values they name is checked in gradients.py, by autodiff.
"""

from glassformer.check.draw import is_float
from glassformer.check.observe import Observed
from glassformer.names import gradient_name, named_leaves


def untagged_cache(seen: Observed) -> list[str]:
    """Cache fields that the lens cannot see: not tagged under their own name, or tagged with another value."""
    return [name for name, value in named_leaves(seen.cache).items() if seen.forward.get(name) is not value]


def nameless_gradients(seen: Observed) -> list[str]:
    """Tags of backward that are not `d` + a tag of forward."""
    known = {gradient_name(name) for name in seen.forward}
    return [name for name in seen.backward if name not in known]


def values_without_gradient(seen: Observed) -> list[str]:
    """Tags of forward whose gradient is never shown."""
    return [n for n, value in seen.forward.items() if is_float(value) and gradient_name(n) not in seen.backward]
