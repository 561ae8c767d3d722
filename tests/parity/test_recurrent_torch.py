"""The recurrent layers beside PyTorch's: every state, dx and every dparam are equal, in float64, to ten digits."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from torch import nn
from torch.func import functional_call

from glassformer.layers import GRU, LSTM, RNN

from .referee import disagreement

B, T, I, O = 2, 11, 5, 7  # noqa: E741
TOLERANCE = 1e-10


def weights_by_torch(p: Any) -> dict[str, torch.Tensor]:
    """Our params under the names of nn.RNN and its kin, which keep (gates * out, in)."""
    weights = {"weight_ih_l0": p.w_x.flatten(1).T, "weight_hh_l0": p.w_h.flatten(1).T}
    return weights if p.b_x is None else weights | {"bias_ih_l0": p.b_x.flatten(), "bias_hh_l0": p.b_h.flatten()}


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
