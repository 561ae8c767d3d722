"""Which decoder is taken, and that the one in C and the one in JAX can stand in for each other."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

from glassformer.errors import EngineError, SettingError
from glassformer.generate import decoder_for, engines
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.layers import Rotary
from glassformer.models import GPT, T5, RecurrentLM, Text, ViT
from glassformer.models.model import Network
from glassformer.native.decoder import NativeDecoder

TEXT = Text(19, 13)
GPTS = {name: GPT(TEXT, 12, 17, 2, 2, rotary=rotary) for name, rotary in {"learned": None, "rotary": Rotary()}.items()}


def params_of(model: Any) -> Any:
    draw = np.random.default_rng(2)
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: draw.normal(scale=0.4, size=leaf.shape).astype(np.float32), shapes)


@pytest.mark.parametrize("name", GPTS)
def test_c_and_jax_give_the_same_scores(name: str) -> None:
    tokens = np.random.default_rng(0).integers(19, size=(3, 13)).astype(np.int32)
    found = []
    for engine in ("native", "jax"):
        decoder = decoder_for(GPTS[name], params_of(GPTS[name]), engine)
        scores = [decoder.start(tokens[:, :5], np.array([5, 1, 3])), decoder.step(tokens[:, 6])]
        decoder.reorder(np.array([1, 2, 0, 1]))
        found.append([*scores, decoder.step(tokens[0, :4])])
    for native, ours in zip(*found, strict=True):
        assert native.dtype == ours.dtype == np.float32
        assert np.abs(native - ours).max() < 1e-5 * np.abs(ours).max()


def test_each_model_has_its_decoder() -> None:
    t5, lstm = T5(TEXT, 8, 8, 2, 4, 1), RecurrentLM(TEXT, 8, 8, 1)
    said: list[str] = []
    decoder = decoder_for(t5, params_of(t5), start_token=4, notice=said.append)
    assert isinstance(decoder, JaxDecoder)
    assert decoder.start_token == 4
    assert isinstance(decoder_for(lstm, params_of(lstm), notice=said.append), JaxDecoder)
    if jax.default_backend() == "cpu":
        assert [line.endswith("; jax writes") for line in said] == [True, True], said
    gpt = GPTS["learned"]
    assert isinstance(decoder_for(gpt, params_of(gpt), "jax"), JaxDecoder)
    on_cpu = jax.default_backend() == "cpu"
    assert isinstance(decoder_for(gpt, params_of(gpt)), NativeDecoder if on_cpu else JaxDecoder)


def test_without_a_compiler_jax_writes_unless_c_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise EngineError("no C compiler")

    monkeypatch.setattr(engines, "NativeDecoder", refuse)
    gpt, said = GPTS["learned"], list[str]()
    assert isinstance(decoder_for(gpt, params_of(gpt), notice=said.append), JaxDecoder)
    assert said == ["no C compiler; jax writes"]
    with pytest.raises(EngineError, match="no C compiler"):
        decoder_for(gpt, params_of(gpt), "native")


def test_a_model_that_does_not_write() -> None:
    with pytest.raises(
        SettingError,
        match="ViT does not write text: its tasks are classify, regress; models that write do next-token or translate",
    ):
        decoder_for(ViT(), None)


@dataclass(frozen=True)
class Plain(Network):
    """A model of somebody else's, which knows forward and backward alone."""

    inner: Any

    @property
    def tasks(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.inner.tasks

    @property
    def input(self) -> Any:
        return self.inner.input

    def init(self, key: Any) -> Any:
        return self.inner.init(key)

    def forward(self, params: Any, x: Any, **keywords: Any) -> tuple[Any, Any]:
        return self.inner.forward(params, x, **keywords)

    def backward(self, params: Any, cache: Any, dy: Any) -> tuple[Any, Any]:
        return self.inner.backward(params, cache, dy)

    def example(self, batch: int) -> Any:
        return self.inner.example(batch)


@pytest.mark.parametrize("model", [GPTS["learned"], T5(TEXT, 8, 8, 2, 4, 1)], ids=["goes on", "answers"])
def test_a_model_with_forward_alone_writes_the_same_and_says_that_it_is_slow(model: Any) -> None:
    tokens = np.random.default_rng(0).integers(19, size=(3, 5)).astype(np.int32)
    said: list[str] = []
    found = []
    for one in (model, Plain(model)):
        decoder = decoder_for(one, params_of(model), "jax", start_token=4, notice=said.append)
        scores = [decoder.start(tokens, np.array([5, 1, 3])), decoder.step(tokens[:, 2])]
        decoder.reorder(np.array([1, 2, 0, 1]))
        found.append([*scores, decoder.step(tokens[0, :4])])
    for ours, plain in zip(*found, strict=True):
        assert np.abs(plain - ours).max() < 1e-5 * np.abs(ours).max()
    assert said == ["Plain has no prefill and step of its own: every token reads the whole text again"]
