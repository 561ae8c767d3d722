"""Which engine reads texts: C for an encoder on a CPU, as far as its last block; JAX elsewhere, and behind it."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax

from glassformer.errors import EngineError
from glassformer.generate.decoder import writes
from glassformer.native.encoder import NativeEncoder
from glassformer.structure import Node, Value, resume

if TYPE_CHECKING:
    from glassformer.predict.run import Run


def native_encoder(run: "Run", wanted: Value | None = None) -> NativeEncoder | None:
    """None: JAX is to be used. `wanted` is the value that is asked for; else what follows from it."""
    if run.engine == "jax" or (run.engine == "auto" and (jax.default_backend() != "cpu" or writes(run.model))):
        return None
    try:
        found = run.encoder
        if wanted is not None and wanted is not found.model.values:
            raise EngineError(f"the native encoder gives what its last block gives only, not {wanted.names[0]}")
    except EngineError as error:
        if run.engine == "native":
            raise
        run.notice(f"{error}; jax is used")
        return None
    return found


def head_of(encoder: NativeEncoder) -> Callable[..., Any]:
    """(params, values (B, T, C)) -> what the model makes of them, compiled."""
    return partial(head, encoder.model.graph, encoder.model.values)


@partial(jax.jit, static_argnums=(0, 1))
def head(graph: Node, values: Value, params: Any, known: Any) -> Any:
    return resume(graph, params, {values: known})
