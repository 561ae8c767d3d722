"""Which decoder writes: C where there is one for the model and the machine computes on its processor, JAX elsewhere."""

from typing import Any, Literal, cast

import jax

from glassformer.errors import EngineError, SettingError
from glassformer.generate.decoder import WRITING, Decoder, writes
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.models.incremental import Incremental
from glassformer.models.model import Network
from glassformer.native.build import Notice
from glassformer.native.decoder import NativeDecoder

Engine = Literal["auto", "native", "jax"]


def decoder_for(
    model: Network, params: Any, engine: Engine = "auto", *, start_token: int = 0, notice: Notice = print
) -> Decoder:
    """`start_token` is what a model that answers writes behind. With auto, whatever C cannot do is done by JAX.

    `notice` hears what is worth knowing: of the compilation, or that it will be slow.
    """
    must_write(model)
    if engine == "native" or (engine == "auto" and jax.default_backend() == "cpu"):
        try:
            return NativeDecoder(cast(Any, model), params, notice=notice)
        except EngineError:
            if engine == "native":
                raise
    if not isinstance(model, Incremental):
        notice(f"{type(model).__name__} has no prefill and step of its own: every token reads the whole text again")
    return JaxDecoder(model, params, start_token)


def must_write(model: Network) -> None:
    if not writes(model):
        raise SettingError(
            f"generate: {type(model).__name__} does not write text: its tasks are {', '.join(model.tasks)}; "
            f"models that write do {' or '.join(WRITING)}"
        )
