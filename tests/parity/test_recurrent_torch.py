"""The recurrent layers and models beside PyTorch's: outputs and every gradient are equal, in float64, to ten digits."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence

from glassformer.layers import GRU, LSTM, RNN
from glassformer.models import RecurrentClassifier, RecurrentLM, Text

from .referee import disagreement

B, T, I, O, V, K = 2, 11, 5, 7, 13, 3  # noqa: E741
TOLERANCE = 1e-10
THEIRS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
WORDS = Text(vocabulary=V, context=T)


@pytest.fixture
def ids() -> np.ndarray:
    return np.random.default_rng(1).integers(V, size=(B, T))


def weights_by_torch(p: Any, place: int = 0) -> dict[str, torch.Tensor]:
    """Our params under the names of nn.RNN and its kin, which keep (gates * out, in)."""
    weights = {f"weight_ih_l{place}": p.w_x.flatten(1).T, f"weight_hh_l{place}": p.w_h.flatten(1).T}
    biases = {} if p.b_x is None else {f"bias_ih_l{place}": p.b_x.flatten(), f"bias_hh_l{place}": p.b_h.flatten()}
    return weights | biases


def stack_by_torch(cells: Any) -> dict[str, torch.Tensor]:
    return {name: weight for i, cell in enumerate(cells) for name, weight in weights_by_torch(cell, i).items()}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(
    ("layer", "theirs"), [(RNN, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU)], ids=["rnn", "lstm", "gru"]
)
def test_recurrent_layer(layer, theirs, bias):
    module = theirs(I, O, bias=bias, batch_first=True)
    x = np.random.default_rng(1).standard_normal((B, T, I))

    def states(p: Any, x: torch.Tensor) -> torch.Tensor:
        return functional_call(module, weights_by_torch(p), (x,), strict=True)[0]

    assert disagreement(layer(I, O, bias), x, states) < TOLERANCE


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own head"])
@pytest.mark.parametrize("cell", THEIRS)
def test_language_model(ids, cell, tied):
    width = O if tied else I
    module = THEIRS[cell](width, O, num_layers=2, batch_first=True)

    def logits(p: Any, ids: torch.Tensor) -> torch.Tensor:
        table = p.reader.embed.emb
        states = functional_call(module, stack_by_torch(p.reader.cells), (F.embedding(ids, table),), strict=True)[0]
        return F.linear(states, table if tied else p.head.emb)

    model = RecurrentLM(WORDS, width=width, hidden=O, depth=2, cell=cell, tied=tied)
    assert disagreement(model, ids, logits) < TOLERANCE


@pytest.mark.parametrize("cell", THEIRS)
def test_classifier_of_texts_of_different_length(ids, cell):
    """PyTorch packs the real tokens alone: its last state has never seen a filler."""
    module = THEIRS[cell](I, O, num_layers=2, batch_first=True)
    lengths = [4, 9]

    def logits(p: Any, ids: torch.Tensor) -> torch.Tensor:
        x = F.embedding(ids, p.reader.embed.emb)
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        last = functional_call(module, stack_by_torch(p.reader.cells), (packed,), strict=True)[1]
        h = last[0] if cell == "lstm" else last
        return F.linear(h[-1], p.head.w.T, p.head.b)

    model = RecurrentClassifier(WORDS, classes=K, width=I, hidden=O, depth=2, cell=cell)
    keep = np.arange(T) < np.array(lengths)[:, None]
    assert disagreement(model, ids, logits, keep=keep) < TOLERANCE
