"""Sentences a second through an encoder of six layers and width 384: our C, our JAX and peers.

Peers are onnxruntime, CTranslate2 and `transformers`. All have the same random weights and read the same token ids; a
sentence's vector is the mean of its tokens. Sentences of a batch have one length, so that nobody computes padding.
onnxruntime reads what `export --to onnx` writes.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from glassformer.bench import ctranslate2_peer
from glassformer.bench.generation_peers import transformers_version
from glassformer.bench.measure import Turns
from glassformer.bench.training import JAX, NATIVE, on_cpu, say
from glassformer.cores import cores
from glassformer.errors import EngineError
from glassformer.hub import bert
from glassformer.hub.onnx_file import needed, onnx_model, onnxruntime_version
from glassformer.models import BERT
from glassformer.models.text import Text
from glassformer.native.encoder import NativeEncoder

LARGE = BERT(text=Text(30522, 512), width=384, hidden=1536, heads=12, depth=6)  # as small sentence encoders are
SMALL = BERT(text=Text(101, 300), width=48, hidden=96, heads=3, depth=2)
LENGTHS = (16, 64, 256)  # tokens of a sentence
TOKENS = 2048  # of a batch
ONNXRUNTIME, CTRANSLATE2, TRANSFORMERS = "onnxruntime", "ctranslate2", "transformers"

Encode = Callable[[np.ndarray], np.ndarray]  # ids (B, T) -> vectors (B, C)


@dataclass(frozen=True)
class Result:
    lengths: list[int]
    sentences_per_s: dict[str, list[float]]  # of each side, by length
    difference: float  # the largest between two sides, over the largest number
    spread: float
    without_native: str | None = None

    @property
    def ratios(self) -> dict[str, list[float]]:
        """How many times as many sentences native reads as each other side."""
        if NATIVE not in self.sentences_per_s:
            return {}
        ours = self.sentences_per_s[NATIVE]
        others = {side: rates for side, rates in self.sentences_per_s.items() if side != NATIVE}
        return {side: [a / b for a, b in zip(ours, rates, strict=True)] for side, rates in others.items()}

    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"ratios": self.ratios}


class Contest:
    """All sides that run here, ready to read."""

    def __init__(self, model: BERT, seconds: float, *, with_peers: bool = True) -> None:
        draw = np.random.default_rng(0)
        self.ids = [draw.integers(model.text.vocabulary, size=(TOKENS // n, n), dtype=np.int32) for n in LENGTHS]
        self.without_native: str | None = None
        self.sides: dict[str, Encode] = {}
        with on_cpu():
            params = model.init(jax.random.key(0))
            try:
                self.sides[NATIVE] = partial(by_native, NativeEncoder(model, params, notice=say))
            except EngineError as error:
                self.without_native = str(error)
            self.sides[JAX] = by_jax(model, params)
            if with_peers and onnxruntime_version():
                self.sides[ONNXRUNTIME] = by_onnxruntime(model, params)
            if with_peers and ctranslate2_peer.version():
                self.sides[CTRANSLATE2] = ctranslate2_peer.encoding(model, params)
            if with_peers and transformers_version():
                self.sides[TRANSFORMERS] = by_transformers(model, params)
            found = [[encode(ids[:4]) for encode in self.sides.values()] for ids in self.ids]
        self.difference = max(float(np.abs(one - row[0]).max() / np.abs(one).max()) for row in found for one in row)
        self.turns = [
            Turns({side: partial(encode, ids) for side, encode in self.sides.items()}, seconds) for ids in self.ids
        ]

    def run(self, rounds: int) -> Iterator[int]:
        """Measure; yields after each round, the first of which compiles and is not counted."""
        with on_cpu():
            for turns in zip(*(turns.run(rounds) for turns in self.turns), strict=True):
                yield turns[0]

    def result(self) -> Result:
        medians = [turns.medians() for turns in self.turns]
        rates = {
            side: [len(ids) / median[side] for ids, median in zip(self.ids, medians, strict=True)]
            for side in self.sides
        }
        spread = max(turns.spread() for turns in self.turns)
        return Result(list(LENGTHS), rates, self.difference, spread, self.without_native)


def by_native(encoder: NativeEncoder, ids: np.ndarray) -> np.ndarray:
    return np.stack([values.mean(axis=0) for values in encoder.encode(ids.tolist())])


def by_jax(model: BERT, params: Any) -> Encode:
    encode = jax.jit(lambda ids: model.forward(params, ids)[0].mean(axis=1))
    return lambda ids: np.asarray(encode(ids))


def by_onnxruntime(model: BERT, params: Any) -> Encode:
    onnxruntime = needed("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = cores(), 1
    content = onnx_model(model, params).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def encode(ids: np.ndarray) -> np.ndarray:
        keep, kinds = np.ones(ids.shape, bool), np.zeros(ids.shape, np.int64)
        all_of = {"keep": keep, "segments": kinds}
        given = {one.name: all_of.get(one.name, ids.astype(np.int64)) for one in session.get_inputs()}
        return session.run(None, given)[0].mean(axis=1)

    return encode


def by_transformers(model: BERT, params: Any) -> Encode:
    import torch
    import transformers

    torch.set_num_threads(cores())
    config = transformers.BertConfig(
        vocab_size=model.text.vocabulary,
        hidden_size=model.width,
        num_hidden_layers=model.depth,
        num_attention_heads=model.heads,
        intermediate_size=model.hidden,
        max_position_embeddings=model.text.context,
        layer_norm_eps=model.eps,
    )
    network: Any = transformers.BertModel(config, add_pooling_layer=False).eval()
    tensors = {name: torch.tensor(np.asarray(array)) for name, array in bert.to_tensors(model, params).items()}
    network.load_state_dict({name.removeprefix("bert."): tensor for name, tensor in tensors.items()}, strict=False)

    def encode(ids: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return network(torch.tensor(ids, dtype=torch.int64)).last_hidden_state.mean(dim=1).numpy()

    return encode
