"""The native engine: the same model in plain C, one readable file of calls to hand-written kernels.

Importing it registers it with train's engines. A layer of your own gets its C with `glassformer.register.kernel`.
"""

from glassformer.native.engine import NativeEngine
from glassformer.native.plan import Backward, Buffer, Constant, Input, Param, Plan

__all__ = ["Backward", "Buffer", "Constant", "Input", "NativeEngine", "Param", "Plan"]
