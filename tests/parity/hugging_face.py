"""A model of the transformers library as the referee: its weights in ours, then logits, loss, every gradient."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.22")  # earlier releases name some parameters otherwise
import torch

from glassformer.check import gradient_error
from glassformer.losses import CrossEntropy
from glassformer.train import loss_and_gradient

TOLERANCES = {"float64": 1e-9, "float32": 1e-4}


class Outcome(NamedTuple):
    logits: Any
    loss: Any
    gradients: dict[str, Any]  # by their names, in their shapes


def drawn(theirs: Any, precision: str) -> Any:
    """The same model with every weight drawn: theirs start with ones and zeros, which hide mistakes."""
    torch.manual_seed(0)
    theirs = theirs.to(getattr(torch, precision)).eval()
    for weight in theirs.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return theirs


def tensors_of(theirs: Any) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in theirs.state_dict().items()}


def of_theirs(theirs: Any, logits: torch.Tensor, loss: torch.Tensor) -> Outcome:
    """A weight that is not used has no gradient there, and is no parameter of ours."""
    loss.backward()
    gradients = {name: weight.grad.numpy() for name, weight in theirs.named_parameters() if weight.grad is not None}
    return Outcome(logits.detach().numpy(), loss.detach().numpy(), gradients)


def of_ours(
    model: Any, params: Any, ids: Any, labels: Any, to_tensors: Callable[..., dict[str, Any]], **keywords: Any
) -> Outcome:
    """Labels of -100 count for nothing, as there."""
    logits, loss, dx, dparams = answer_and_gradients(model, params, jnp.asarray(ids), jnp.asarray(labels), **keywords)
    assert dx is None
    assert jax.tree.structure(dparams) == jax.tree.structure(params)
    return Outcome(logits, loss, to_tensors(dparams))


@partial(jax.jit, static_argnums=0)
def answer_and_gradients(model: Any, params: Any, x: Any, labels: Any, **keywords: Any) -> tuple[Any, Any, Any, Any]:
    """Logits, loss, dx and dparams."""
    logits, cache = model.forward(params, x, **keywords)
    loss, loss_cache = CrossEntropy().forward(None, logits, labels=labels, weights=labels != -100)
    dlogits, _ = CrossEntropy().backward(None, loss_cache, jnp.ones_like(loss))
    return logits, loss, *model.backward(params, cache, dlogits)


def disagreement(ours: Outcome, theirs: Outcome) -> dict[str, float]:
    """The largest difference over the largest magnitude: of the logits, the loss, and among all gradients."""
    assert set(ours.gradients) == set(theirs.gradients)
    for name, gradient in theirs.gradients.items():
        assert (ours.gradients[name].shape, ours.gradients[name].dtype) == (gradient.shape, gradient.dtype), name
    return {field: gradient_error(getattr(ours, field), getattr(theirs, field)) for field in Outcome._fields}


def worst_gradient(ours: Outcome, theirs: Outcome) -> float:
    """The largest difference of any tensor over its own largest magnitude; one that is zero but for rounding, such as
    that of a key's bias, over a ten-thousandth of the largest of all."""
    least = 1e-4 * max(np.abs(gradient).max() for gradient in theirs.gradients.values())
    return max(
        float(np.abs(np.asarray(ours.gradients[name]) - gradient).max() / max(np.abs(gradient).max(), least))
        for name, gradient in theirs.gradients.items()
    )


def ten_steps(theirs: Any, loss_of: Callable[[], torch.Tensor]) -> np.ndarray:
    """The losses before each of ten steps of AdamW."""
    rule = torch.optim.AdamW(theirs.parameters(), lr=1e-2, weight_decay=0.01)
    losses = []
    for _ in range(10):
        rule.zero_grad()
        loss = loss_of()
        loss.backward()
        rule.step()
        losses.append(loss.item())
    return np.array(losses)


def ten_steps_of_ours(model: Any, params: Any, ids: Any, labels: Any) -> np.ndarray:
    rule = optax.adamw(1e-2, weight_decay=0.01)
    memory, losses = rule.init(params), []

    @jax.jit
    def step(params: Any, memory: Any) -> tuple[Any, Any, Any]:
        loss, dparams = loss_and_gradient(model, CrossEntropy(), params, ids, labels=labels, weights=labels != -100)
        updates, memory = rule.update(dparams, memory, params)
        return optax.apply_updates(params, updates), memory, loss

    for _ in range(10):
        params, memory, loss = step(params, memory)
        losses.append(float(loss))
    return np.array(losses)
