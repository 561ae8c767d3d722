"""When a loss is not finite any more: at which step, and in which layer the first such value appeared."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp

from glassformer.names import named_leaves, recording, visiting
from glassformer.train.gradient import loss_and_gradient
from glassformer.train.jax_engine import Batches, JaxEngine, State


def explain(engine: JaxEngine, before: State, batches: Batches, first: int, step: int, epoch: int, run: Path) -> str:
    """Replay up to the step before, then look at every value of the one that failed."""
    state, _ = engine.run(before, batches, first, step)
    where = first_not_finite(engine, state, batches, step)
    return (
        f"the loss is not finite at step {step + 1} of epoch {epoch}; the first such value is {where}. "
        f"The last good checkpoint is kept in {run}; try a lower learning rate (--lr) or optimiser.clip=1.0"
    )


def first_not_finite(engine: JaxEngine, state: State, batches: Batches, step: int) -> str:
    for name, leaf in named_leaves(state.params).items():
        if not jnp.isfinite(leaf).all():
            return f"the parameter {name}, after the update of the step before"
    chosen = batches.order[step]
    seen: dict[str, Any] = {}
    with visiting(recording(seen)):
        loss_and_gradient(
            engine.recipe.model,
            engine.recipe.training.loss,
            state.params,
            batches.images[chosen],
            labels=batches.labels[chosen],
            weights=batches.weights[step],
        )
    for name, value in seen.items():
        if jnp.issubdtype(value.dtype, jnp.floating) and not jnp.isfinite(value).all():
            return name
    return "in the update of the optimiser"
