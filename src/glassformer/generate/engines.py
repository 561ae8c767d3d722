"""Which decoder writes: C where there is one for the model and the machine computes on its processor, JAX elsewhere."""

from typing import Any, Literal, cast

import jax

from glassformer.errors import EngineError, SettingError
from glassformer.generate.decoder import Decoder
from glassformer.generate.gpt import JaxDecoder
from glassformer.generate.recurrent import RecurrentDecoder
from glassformer.generate.t5 import T5Decoder
from glassformer.models import GPT, T5, RecurrentLM
from glassformer.models.model import Network
from glassformer.native.build import Notice
from glassformer.native.decoder import NativeDecoder

Engine = Literal["auto", "native", "jax"]
WRITERS = (GPT, RecurrentLM, T5)


def decoder_for(
    model: Network, params: Any, engine: Engine = "auto", *, start_token: int = 0, notice: Notice = print
) -> Decoder:
    """`start_token` is what T5 writes its answer behind. With auto, whatever C cannot do is done by JAX.

    `notice` hears what is worth knowing about its compilation.
    """
    must_write(model)
    if engine == "native" or (engine == "auto" and jax.default_backend() == "cpu"):
        try:
            return NativeDecoder(cast(GPT, model), params, notice=notice)
        except EngineError:
            if engine == "native":
                raise
    if isinstance(model, T5):
        return T5Decoder(model, params, start_token)
    return RecurrentDecoder(model, params) if isinstance(model, RecurrentLM) else JaxDecoder(cast(GPT, model), params)


def must_write(model: Network) -> None:
    if not isinstance(model, WRITERS):
        raise SettingError(f"generate: {type(model).__name__} does not write text; GPT, RecurrentLM and T5 do")
