"""Which decoder writes: C where there is one for the model and the machine computes on its processor, JAX elsewhere."""

from pathlib import Path
from typing import Any, Literal, cast

import jax

from glassformer.errors import EngineError, SettingError
from glassformer.generate.decoder import WRITING, Decoder, writes
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.models.incremental import Incremental
from glassformer.models.model import Network
from glassformer.native.build import Notice
from glassformer.native.decoder import NativeDecoder
from glassformer.native.packed_weights import Kind

Engine = Literal["auto", "native", "jax"]


def decoder_for(
    model: Network,
    params: Any,
    engine: Engine = "auto",
    *,
    start_token: int = 0,
    weights: Kind = "float32",
    folder: Path | None = None,
    notice: Notice = print,
) -> Decoder:
    """`start_token` is what a model that answers writes behind. With auto, whatever C cannot do is done by JAX.

    weights   what C reads them as; JAX has float32 only
    folder    where int8 weights are kept
    notice    hears what is worth knowing: of the compilation, or that it will be slow
    """
    must_write(model)
    narrow = weights != "float32"
    if narrow and engine == "jax":
        raise SettingError(f"generate: weights {weights} are read by the native engine only; leave out engine jax")
    if narrow or engine == "native" or (engine == "auto" and jax.default_backend() == "cpu"):
        try:
            return NativeDecoder(cast(Any, model), params, weights=weights, folder=folder, notice=notice)
        except EngineError as error:
            if narrow:
                raise EngineError(f"{error}; leave out weights {weights}") from None
            if engine == "native":
                raise
            notice(f"{error}; jax writes")
    if not isinstance(model, Incremental):
        notice(f"{type(model).__name__} has no prefill and step of its own: every token reads the whole text again")
    return JaxDecoder(model, params, start_token)


def must_write(model: Network) -> None:
    if not writes(model):
        raise SettingError(
            f"generate: {type(model).__name__} does not write text: its tasks are {', '.join(model.tasks)}; "
            f"models that write do {' or '.join(WRITING)}"
        )
