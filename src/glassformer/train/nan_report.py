"""When training runs into a value that is not finite: at which step, and in which layer it first appeared."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.models.stack import unstacked
from glassformer.names import named_leaves, recording, visiting
from glassformer.train.engines import Engine
from glassformer.train.jax_engine import State, loss_of_batch


def all_finite(params: Any) -> bool:
    """On an accelerator its weights stay there, and so do those of several hosts."""
    if jax.default_backend() == "cpu" and jax.process_count() == 1:
        return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
    return bool(finite_on_device(params))


@jax.jit
def finite_on_device(params: Any) -> Any:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()


@jax.jit
def finite_runs(params: Any) -> Any:
    """Of each of several runs: whether all its weights are."""
    leaves = [jnp.isfinite(leaf).reshape(len(leaf), -1).all(axis=1) for leaf in jax.tree.leaves(params)]
    return jnp.stack(leaves).all(axis=0)


def explain(engine: Engine, before: State, batches: Any, first: int, step: int, epoch: int, run: Path) -> str:
    """Replay up to the step, then look at every value of it."""
    state, _ = engine.run(before, batches, first, step)
    parameter = first_non_finite(named_leaves(unstacked(state.params)))
    if parameter:
        what = f"after step {step} of epoch {epoch} the parameter {parameter} is not finite"
    else:
        seen: dict[str, Any] = {}
        given, of_step = engine.for_jax(batches, step)
        for batch in of_step:
            with visiting(recording(seen)):
                loss_of_batch(engine.recipe, state.params, given, batch)
            if first_non_finite(seen):
                break
        value = first_non_finite(seen) or "the loss itself"
        what = f"at step {step + 1} of epoch {epoch} the loss is not finite; the first such value is {value}"
    return (
        f"{what}. The last good checkpoint is kept in {run}; "
        "try a lower learning rate (--lr) or clipping (--set optimiser.clip=1)"
    )


def first_non_finite(values: dict[str, Any]) -> str | None:
    for name, value in values.items():
        if jnp.issubdtype(value.dtype, jnp.floating) and not jnp.isfinite(value).all():
            return name
    return None
