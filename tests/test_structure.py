"""The graph of a model: parts and sums alone, and values that are the same objects wherever they are read."""

import jax
import jax.numpy as jnp
import pytest

from glassformer.check import CASES
from glassformer.layers import Attention, Dropout, FeedForward, Linear, Mask, MeanPool
from glassformer.models import BERT, GPT, T5, BERTFor, MaskedHead, RecurrentLM, Text, ViT
from glassformer.models.model import Network
from glassformer.names import at, named_leaves, recording, tag, visiting
from glassformer.structure import Node, Sum, Value, structure

TEXT = Text(vocabulary=11, context=7)
MODELS = {name: case.layer for name, case in CASES.items() if isinstance(case.layer, Network)}


def names_of(node: Node) -> list[str]:
    return [part.name for part in node.parts if isinstance(part, Node)]


@pytest.mark.parametrize("name", MODELS)
def test_between_the_parts_of_a_model_stand_only_sums_and_masks(name: str) -> None:
    model = structure(MODELS[name])
    assert model.is_composite, model.glue


@pytest.mark.parametrize("name", MODELS)
def test_the_values_of_the_graph_are_those_that_forward_tags(name: str) -> None:
    model = MODELS[name]
    node, tagged = structure(model), {}
    params = jax.eval_shape(model.init, jax.random.key(0))
    with visiting(recording(tagged)):
        jax.eval_shape(lambda params, x: model.forward(params, x)[0], params, model.example(1))
    values = {value for part in node.walk() for value in jax.tree.leaves((part.x, part.y)) if isinstance(value, Value)}
    named = {name: value for value in values for name in value.names}
    assert named.keys() <= tagged.keys()
    assert all(tuple(tagged[name].shape) == value.shape for name, value in named.items())


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_read_by_some_part(name: str) -> None:
    model = MODELS[name]
    read = {
        value.param for node in structure(model).walk() if node.name for value in jax.tree.leaves((node.params, node.x))
    } - {""}
    assert read == set(named_leaves(jax.eval_shape(model.init, jax.random.key(0))))


def test_a_block_is_parts_and_two_sums() -> None:
    block = structure(ViT(width=8, hidden=12, heads=2)).find("blocks.0")
    assert names_of(block) == [f"blocks.0.{part}" for part in ("norm1", "attn", "drop1", "norm2", "ff", "drop2")]
    first, second = (part for part in block.parts if isinstance(part, Sum))
    assert first.a is block.x
    assert first.y is second.a
    assert second.y is block.y
    assert first.y.names == ["blocks.0.resid_mid"]


def test_a_layer_that_shares_its_parents_names_is_a_node_of_its_own() -> None:
    node = structure(ViT(width=8, hidden=12, heads=2))
    at_work = [type(part.layer).__name__ for part in node.walk() if part.name == "blocks.0.attn"]
    assert at_work == ["SelfAttention", "MultiHeadAttention", "Attention"]
    attention = next(part for part in node.walk() if isinstance(part.layer, Attention))
    assert attention.x.q.names == ["blocks.0.attn.q"]


def test_a_tied_table_is_one_value() -> None:
    for model, table in (
        (GPT(TEXT, 8, 12, 2, 1), "embed.emb"),
        (BERTFor(BERT(TEXT, width=8, hidden=12, heads=2, depth=1), MaskedHead(8, 11)), "bert.embed.emb"),
        (RecurrentLM(TEXT, 8, 8, 1), "reader.embed.emb"),
    ):
        node = structure(model)
        head = next(part for part in node.walk() if type(part.layer).__name__ == "TiedHead")
        embed = next(part for part in node.walk() if type(part.layer).__name__ == "Embedding")
        assert head.x.emb is embed.params.emb
        assert head.x.emb.param == table


def test_cross_attention_reads_what_the_encoder_gave() -> None:
    node = structure(T5(TEXT, 8, 12, 2, 4, depth=1, decoder_depth=2))
    memory = node.find("encoder").y
    for i in range(2):
        assert node.find(f"decoder.blocks.{i}.cross").x.memory is memory
        assert node.find(f"decoder.blocks.{i}.attn").x.bias is node.find("decoder.bias").y


def test_dropout_in_evaluation_gives_what_it_was_given() -> None:
    node = structure(GPT(TEXT, 8, 12, 2, 1, dropout=0.3))
    drop = node.find("drop")
    assert isinstance(drop.layer, Dropout)
    assert drop.x is drop.y
    trained = structure(GPT(TEXT, 8, 12, 2, 1, dropout=0.3), key=jax.random.key(0)).find("drop")
    assert trained.x is not trained.y


def test_a_mask_goes_through() -> None:
    node = structure(GPT(TEXT, 8, 12, 2, 1), keep=jnp.ones((1, 7), bool))
    mask = node.find("blocks.0").keywords["mask"]
    assert mask == Mask(keep=node.keywords["keep"])
    attend = node.first(Attention)
    assert attend is not None
    assert attend.keywords["mask"] == Mask(keep=node.keywords["keep"], causal=True)
    assert node.find("blocks.0").x.origin is None
    assert structure(GPT(TEXT, 8, 12, 2, 1)).find("blocks.0").keywords["mask"] is None


class Doubled:
    """An own model that computes between its parts."""

    first, second = Linear(3, 4), FeedForward(4, 5)

    def init(self, key):
        return {"first": self.first.init(key), "second": self.second.init(key)}

    def forward(self, params, x):
        h, _ = at("first", self.first).forward(params["first"], x)
        h = tag("twice", h * 2)
        h, _ = at("second", self.second).forward(params["second"], h)
        return at("pool", MeanPool()).forward(None, h)

    def backward(self, params, cache, dy): ...


def test_what_else_is_computed_between_parts_is_named() -> None:
    node = structure(Doubled(), jax.ShapeDtypeStruct((2, 6, 3), jnp.float32))  # pyright: ignore[reportArgumentType]
    assert node.glue == ("mul",)
    assert not node.is_composite
    assert names_of(node) == ["first", "second", "pool"]
    assert node.find("second").x.names == ["twice", "second.x"]
