"""ONNX: onnxruntime computes our logits from the same input, and what cannot be written is refused by name."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import layers, register, registry
from glassformer.errors import CheckpointError, EngineError, FileError
from glassformer.hub import onnx_file
from glassformer.hub.onnx_file import Given, feed, given_to, input_names, onnx_model, session, write_onnx
from glassformer.hub.onnx_graph import Graph
from glassformer.layers import FirstToken, positions
from glassformer.layers.rope_scaling import DynamicScaling, LinearScaling, Llama3Scaling, YarnScaling
from glassformer.models import (
    BERT,
    GPT,
    MLP,
    BERTFor,
    ClassHead,
    Columns,
    Images,
    Llama,
    MaskedHead,
    Network,
    PatchAttention,
    PatchBlock,
    RecurrentClassifier,
    RecurrentLM,
    SpanHead,
    TagHead,
    Text,
    TinyIris,
    VectorHead,
    ViT,
)
from glassformer.models.patch_block import NormedResidual, WithResidual
from glassformer.names import at, named_leaves
from glassformer.structure import Node
from glassformer.train.presets import preset, preset_names

from ..programs import forward
from .builders import drawn

onnx = pytest.importorskip("onnx")

PICTURES = Images((8, 12, 3), classes=5, mean=0.2, std=0.3)
WORDS = Text(vocabulary=11, context=9)
CHANNELS = dataclasses.replace(PICTURES, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
READER = BERT(WORDS, segments=3, width=6, hidden=7, heads=2, depth=2)


@dataclass(frozen=True)
class Own(Network):
    """Layers that no model of ours has, one after the other."""

    columns: Columns = Columns(count=5, classes=2)
    last: Any = layers.RMSNorm(12)

    @property
    def input(self) -> Columns:
        return self.columns

    @property
    def parts(self) -> tuple[Any, ...]:
        attend = layers.GroupedQueryAttention(12, heads=6, key_heads=3, rotary=layers.Rotary())
        return (
            layers.Linear(5, 48, bias=False),
            layers.Tanh(),
            layers.Reshape((4, 12)),
            layers.Positions(7, 12, positions.Sinusoidal(), trained=False),
            layers.Residual(layers.SelfAttention(attend)),
            layers.GatedFeedForward(12, 8),
            self.last,
            layers.FirstToken(),
            layers.Linear(12, 2),
        )

    def init(self, key: Any) -> Any:
        return tuple(part.init(key) for part in self.parts)

    def forward(self, params: Any, x: Any) -> Any:
        for i, part in enumerate(self.parts):
            x, _ = at(i, part).forward(params[i], x)
        return x, None

    def backward(self, params: Any, cache: Any, dy: Any) -> Any:
        raise NotImplementedError


MODELS: dict[str, Any] = {
    "vit": ViT(PICTURES, width=6, hidden=7, heads=2, depth=2, dropout=0.5),
    "vit, class token": ViT(PICTURES, width=6, hidden=7, heads=1, with_class_token=True),
    "deit": ViT(CHANNELS, width=6, hidden=7, heads=1, with_class_token=True, distillation="token"),
    "deit, two heads": ViT(PICTURES, width=6, hidden=7, heads=1, with_class_token=True, distillation="head"),
    "vit, float images": ViT(dataclasses.replace(PICTURES, dtype="float32"), width=6, hidden=7, heads=3),
    "mlp": MLP(PICTURES, hidden=(7, 6)),
    "patch attention": PatchAttention(PICTURES, width=6, hidden=7),
    "patch block, residual": PatchBlock(PICTURES, width=6, hidden=7, block=WithResidual(), heads=2),
    "patch block, normed": PatchBlock(PICTURES, width=6, hidden=7, block=NormedResidual(), output=True),
    "iris": TinyIris(Columns(count=4, classes=3, mean=(5.8, 3.1, 3.7, 1.2), std=(0.8, 0.4, 1.8, 0.8))),
    "iris, as it comes": TinyIris(Columns(count=5, classes=2), tokens=3, width=6, heads=3),
    "bert": READER,
    "bert, classes": BERTFor(READER, ClassHead(6, 3)),
    "roberta, tags": BERTFor(dataclasses.replace(READER, first_position=2), TagHead(6, 4)),
    "distilbert, classes": BERTFor(dataclasses.replace(READER, segments=0), ClassHead(6, 3, activation=layers.ReLU())),
    "bert, tags": BERTFor(READER, TagHead(6, 4)),
    "bert, spans": BERTFor(READER, SpanHead(6)),
    "bert, vectors": BERTFor(READER, VectorHead()),
    "bert, vectors of the first token": BERTFor(READER, VectorHead(FirstToken())),
    "bert, masked": BERTFor(READER, MaskedHead(6, 11)),
    "bert, masked, own table": BERTFor(
        dataclasses.replace(READER, activation=layers.GELUTanh()), MaskedHead(6, 11, tied=False)
    ),
    "gpt": GPT(WORDS, width=6, hidden=7, heads=2, depth=2),
    "gpt, one head": GPT(WORDS, width=6, hidden=7, heads=1, depth=1, activation=layers.ReLU()),
    "gpt, rotary": GPT(
        WORDS, width=6, hidden=7, heads=3, depth=2, rotary=layers.Rotary(), tied=False, activation=layers.SiLU()
    ),
    "gpt, banded": GPT(
        WORDS, width=6, hidden=7, heads=3, depth=2, attend=layers.BandedAttention(), window=3, global_tokens=2
    ),
    "llama": Llama(
        WORDS,
        10,
        7,
        heads=6,
        key_heads=2,
        head_width=4,
        depth=2,
        rotary=layers.ScaledRotary(YarnScaling(3.0, context=5)),
    ),
    "llama, biases, own head": Llama(
        WORDS,
        12,
        7,
        heads=6,
        key_heads=3,
        depth=1,
        bias="qkv",
        tied=False,
        rotary=layers.ScaledRotary(Llama3Scaling(context=40), 50.0),
    ),
    "llama, all biases": Llama(
        WORDS, 12, 7, heads=3, key_heads=1, depth=1, bias=True, rotary=layers.ScaledRotary(LinearScaling(3.0))
    ),
    "llama, norms of q and k, window": Llama(WORDS, 12, 7, heads=6, key_heads=2, depth=1, head_norm=True, window=3),
    "bert, blockwise, window": dataclasses.replace(READER, attend=layers.BlockwiseAttention(block=4), window=2),
    "vit, window, checkpoint": ViT(PICTURES, width=6, hidden=7, heads=1, window=3, checkpoint=True),
    "own": Own(),
}


def samples(model: Any, batch: int, tokens: int | None = None) -> Given:
    """Random input; of texts so many tokens, padded behind."""
    random = np.random.default_rng(batch)

    def array(name: str, one: Any) -> np.ndarray:
        shape = (batch, tokens) if tokens else (batch, *one.shape[1:])
        if one.dtype == jnp.bool_:
            return np.arange(shape[1]) < random.integers(1, shape[1] + 1, (batch, 1))
        if np.issubdtype(one.dtype, np.integer):
            limit = {"images": 256, "ids": WORDS.vocabulary, "segments": 2}[name]
            return random.integers(limit, size=shape).astype(one.dtype)
        return (3 * random.standard_normal(shape)).astype(np.float32)

    given = given_to(model)
    return jax.tree.map(array, input_names(model, given), given)


def ours(model: Any, params: Any, given: Given) -> np.ndarray:
    return np.asarray(forward(model, params, given.x, **given.keywords))


def far(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, over the largest logit where that is above 1."""
    assert found.shape == expected.shape
    return np.abs(found - expected).max() / max(1, np.abs(expected).max())


def answering(model: Any, proto: Any) -> Callable[[Given], np.ndarray]:
    pytest.importorskip("onnxruntime")
    names, runtime = input_names(model, given_to(model)), session(proto.SerializeToString())
    return lambda given: runtime.run(None, feed(runtime, names, given))[0]


@pytest.mark.parametrize("name", MODELS)
def test_a_valid_file_with_our_names_and_logits(name: str) -> None:
    model = MODELS[name]
    params = drawn(model)
    proto = onnx_model(model, params, classes=("a", "ü"))
    onnx.checker.check_model(proto, full_check=True)
    arrays = {one.name: onnx.numpy_helper.to_array(one) for one in proto.graph.initializer}
    for weight, value in named_leaves(params).items():
        np.testing.assert_array_equal(arrays[weight], value)
    assert [one.name for one in proto.graph.output] == ["logits"]
    assert (proto.opset_import[0].version, proto.ir_version) == (20, 9)
    assert {one.key: json.loads(one.value) for one in proto.metadata_props} == {"classes": ["a", "ü"]}

    theirs, given = answering(model, proto), samples(model, 3, 5 if isinstance(model.input, Text) else None)
    expected = ours(model, params, given)
    assert far(theirs(given), expected) < 1e-5
    assert far(theirs(jax.tree.map(lambda one: one[1:2], given)), expected[1:2]) < 1e-5


@pytest.mark.parametrize("tokens", [1, 9])
def test_texts_of_any_length(tokens: int) -> None:
    for name in "bert, spans", "gpt":
        model = MODELS[name]
        params, given = drawn(model), samples(model, 2, tokens)
        assert far(answering(model, onnx_model(model, params))(given), ours(model, params, given)) < 1e-5


@pytest.mark.parametrize(
    ("name", "inputs", "output"),
    [
        ("vit", {"images": "uint8 (batch, 8, 12, 3)"}, "float32 (batch, 5)"),
        ("vit, float images", {"images": "float32 (batch, 8, 12, 3)"}, "float32 (batch, 5)"),
        ("iris", {"columns": "float32 (batch, 4)"}, "float32 (batch, 3)"),
        ("gpt", {"ids": "int64 (batch, tokens)"}, "float32 (batch, tokens, 11)"),
        (
            "bert, spans",
            {"ids": "int64 (batch, tokens)", "keep": "bool (batch, tokens)", "segments": "int64 (batch, tokens)"},
            "float32 (batch, 2, tokens)",
        ),
    ],
)
def test_inputs_and_output(name: str, inputs: dict[str, str], output: str, tmp_path: Path) -> None:
    file = write_onnx(tmp_path / "model.onnx", MODELS[name], drawn(MODELS[name]))
    assert (file.inputs, file.output) == (inputs, output)
    assert (tmp_path / "model.onnx").stat().st_size == file.bytes


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_covered_or_refused_by_name(name: str) -> None:
    model: Any = preset(name).model
    if isinstance(model.input, Text):
        model = dataclasses.replace(model, text=WORDS)
    if name.startswith(("gpt2-", "smollm-")):  # the layers are what is looked for
        model = dataclasses.replace(model, width=18, hidden=32, heads=3, depth=1)
    refused = {"t5-nano": r"no RelativeBias yet \(encoder\.bias\)", "lstm-nano": r"no LSTM yet \(reader\.cells\.0\)"}
    if name in refused:
        with pytest.raises(EngineError, match=refused[name]):
            onnx_model(model, drawn(model))
    else:
        params = model.init(jax.random.key(0))
        given = samples(model, 2)
        assert far(answering(model, onnx_model(model, params))(given), ours(model, params, given)) < 1e-5


def test_padding_changes_nothing() -> None:
    model = MODELS["bert, tags"]
    params = drawn(model)
    theirs, given = answering(model, onnx_model(model, params)), samples(model, 3, 7)
    keep = np.arange(7) < np.array([[7], [3], [0]])  # of the last row, nothing is left
    first = Given(given.x, given.keywords | {"keep": keep})
    second = Given(np.where(keep, given.x, (given.x + 1) % 11), first.keywords)
    a, b = theirs(first), theirs(second)
    np.testing.assert_array_equal(a[keep], b[keep])
    assert far(a, ours(model, params, first)) < 1e-5


def test_a_token_sees_only_what_came_before() -> None:
    model = MODELS["gpt, rotary"]
    theirs, ids = answering(model, onnx_model(model, drawn(model))), np.arange(16).reshape(2, 8) % 11
    assert far(theirs(Given(ids, {}))[:, :5], theirs(Given(ids[:, :5], {}))) < 1e-6


def test_a_wrong_entry_is_found(tmp_path: Path, registry_as_it_was: None) -> None:
    pytest.importorskip("onnxruntime")
    model, file = MODELS["vit"], tmp_path / "vit.onnx"
    difference = write_onnx(file, model, drawn(model)).difference
    assert difference is not None
    assert difference < 1e-6
    before, right = file.read_bytes(), registry.onnx_of(layers.LayerNorm)
    assert right is not None

    def wrong(graph: Graph, node: Node, x: str) -> str:
        return graph.op("Mul", right(graph, node, x), graph.constant(1.01, "wrong"))

    registry._registered["onnx"][registry._origin(layers.LayerNorm)] = wrong
    with pytest.raises(
        EngineError, match=r"vit\.onnx: not written: in onnxruntime its logits differ from ours by \d\.\de-0"
    ):
        write_onnx(file, model, drawn(model))
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["vit.onnx"]


class ScaleParams(NamedTuple):
    gain: Any


@dataclass(frozen=True)
class Scale:
    def init(self, key: Any) -> ScaleParams:
        return ScaleParams(gain=jnp.ones(12))

    def forward(self, params: ScaleParams, x: Any) -> Any:
        return x * params.gain, None

    def backward(self, params: ScaleParams, cache: None, dy: Any) -> Any:
        raise NotImplementedError


def test_a_layer_of_somebody_else(registry_as_it_was: None) -> None:
    model = Own(last=Scale())
    params = drawn(model)
    with pytest.raises(
        EngineError, match=r"ONNX export has no Scale yet \(6\); docs/own-models\.md says how to add it"
    ):
        onnx_model(model, params)

    @register.onnx(Scale)
    def scale(graph: Graph, node: Node, x: str) -> str:
        return graph.op("Mul", x, graph.named(node.params.gain), name="y")

    given = samples(model, 3)
    assert far(answering(model, onnx_model(model, params))(given), ours(model, params, given)) < 1e-5


def test_a_mask_that_is_computed_otherwise_is_refused() -> None:
    @dataclass(frozen=True)
    class Upside(BERT):
        def forward(self, params: Any, x: Any, *, segments: Any, keep: Any) -> Any:  # pyright: ignore
            return super().forward(params, x, segments=segments, keep=~keep)

    model = Upside(WORDS, width=6, hidden=7, heads=2, depth=1)
    with pytest.raises(EngineError, match=r"no bool of shape \(1, 9\) made by not yet \(in blocks\.0\.attn\)"):
        onnx_model(model, drawn(model))


def test_a_dynamic_rope_is_refused_by_name() -> None:
    """Its frequencies follow from the length of each text."""
    model = Llama(WORDS, 12, 7, heads=3, key_heads=1, depth=1, rotary=layers.ScaledRotary(DynamicScaling(2.0, 5)))
    with pytest.raises(
        EngineError, match=r"no rotary positions that depend on the length of a text yet \(blocks\.0\.attn\.rotary_q\)"
    ):
        onnx_model(model, drawn(model))


@pytest.mark.parametrize("kind", [RecurrentLM, RecurrentClassifier])
def test_recurrent_models_are_refused_by_name(kind: Any) -> None:
    model = kind(WORDS, width=7, hidden=7, depth=1, cell="gru")
    with pytest.raises(EngineError, match=r"ONNX export has no GRU yet \(reader\.cells\.0\)"):
        onnx_model(model, drawn(model))


def test_what_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = MODELS["mlp"]
    params = drawn(model)
    params.layers[0].w[0, 0] = np.nan
    with pytest.raises(CheckpointError, match=r"1 of 6 tensors hold values that are not finite .*: layers\.0\.w"):
        onnx_model(model, params)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        write_onnx(tmp_path / "file" / "mlp.onnx", model, drawn(model))
    monkeypatch.setattr(onnx_file, "LARGEST", 100)
    with pytest.raises(EngineError, match=r"the weights take .* GiB, and a file of ONNX ends at 2 GiB"):
        onnx_model(model, drawn(model))
