"""Compiled programs: one for each model and each shape of its input, and a large one takes tens of megabytes.

Texts come in many lengths. When many programs are there all are forgotten: those still needed are compiled once more,
and the memory stays bounded (gpt-nano: 610 MB however many lengths were looked at, before 23 MB more for each).
"""

from typing import Any

import jax

MOST = 16


class CompileLimit:
    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.seen: set[Any] = set()

    def note(self, model: Any, x: Any) -> None:
        """To be called before a model runs on an input."""
        key = model, tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(x))
        if key not in self.seen and len(self.seen) >= self.most:
            jax.clear_caches()
            self.seen.clear()
        self.seen.add(key)
