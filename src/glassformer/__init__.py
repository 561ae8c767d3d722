"""glassformer trains, explains and ships small attention models, and hides nothing.

run = glassformer.fit("vit-nano")        # train; or glassformer.load("runs/vit-nano-1")
run.predict(images)                      # arrays in, arrays out
"""

from typing import TYPE_CHECKING, Any

from glassformer.registry import load_code, register

__version__ = "0.1.0"
__all__ = ["ENGINES", "__version__", "fit", "load", "load_code", "register"]

ENGINES = ["glassformer.native"]  # modules that register an engine with train/engines.py; imported when training begins

if TYPE_CHECKING:
    from glassformer.api import fit
    from glassformer.predict.run import load


def __getattr__(name: str) -> Any:
    """`fit` and `load` are imported when first asked for: `import glassformer` stays instant."""
    if name == "fit":
        from glassformer.api import fit

        return fit
    if name == "load":
        from glassformer.predict.run import load

        return load
    raise AttributeError(f"module 'glassformer' has no attribute {name!r}")
