"""Every cell of a plan is tried before time is spent: settings, data, model, one step of training in shapes alone."""

from functools import partial

import jax
import jax.numpy as jnp

from glassformer.data.dataset import Dataset
from glassformer.errors import EngineError, GlassformerError, SettingError
from glassformer.lab.arms import is_open, matched, tuning_cells
from glassformer.lab.cells import Cell, additions, cell
from glassformer.lab.one_run import loaded
from glassformer.lab.plan import MAIN, Arm, Plan
from glassformer.lab.scoring import must_be_scored
from glassformer.native import build
from glassformer.native.engine import must_be_covered
from glassformer.train.gradient import loss_and_gradient
from glassformer.train.recipe import Recipe
from glassformer.train.resolve import resolved


def check(plan: Plan) -> None:
    """Refuse a plan with a cell that cannot run, or whose answer nobody could read."""
    settle_matches(plan)
    asked = [cell(plan, ()), *(one for added in additions(plan) for one in (added.without, added.with_))]
    cells = {(one.key, one.group): one for one in asked}
    stepped = set()
    for one in cells.values():
        where = f"{plan.name}: {one.title}"
        try:
            must_compare(one, plan)
            recipe = resolved(one.recipe, loaded(one.recipe))
            if recipe.engine.name == "native":
                must_be_covered(recipe)
            if (step := (recipe.model, recipe.task, recipe.loss)) not in stepped:
                jax.eval_shape(partial(one_step, plan, recipe, loaded(recipe)))
                stepped.add(step)
        except GlassformerError as error:
            raise type(error)(f"{where}: {error}") from None
    if plan.needs_native:
        must_have_native(plan)


def settle_matches(plan: Plan) -> None:
    """What needs no tuning runs; and every point of a grid must be a recipe."""
    arms = [((), MAIN)]
    for factor in plan.factors:
        arms += [(plan.in_order(names), factor.group) for names in (factor.on, (*factor.on, factor.name))]
    for arm in dict.fromkeys(arms):
        if plan.grid(*arm):
            for one in tuning_cells(plan, arm):
                resolved(one.recipe, loaded(one.recipe))
        elif is_open(plan, arm):
            changes, about = matched(plan, plan.unsettled(*arm), arm[1])
            plan.arms[arm] = Arm(changes, about)
            plan.cells.pop(arm, None)


def must_compare(one: Cell, plan: Plan) -> None:
    recipe = one.recipe
    if plan.group(one.group).measure == "validation" and not recipe.validation.share:
        raise SettingError(
            "nothing is held out (validation.share = 0), and the group is judged by validation; "
            "set validation.share = 0.1, or measure = 'test' for the group"
        )
    if recipe.validation.patience:
        raise SettingError(
            f"it stops early (validation.patience = {recipe.validation.patience}), so that runs could not be compared "
            "epoch by epoch; set validation.patience = 0"
        )
    if recipe.data != plan.baseline.data:
        raise SettingError(
            f"its data is {recipe.data}, that of the baseline {plan.baseline.data}, and accuracies on different "
            "data cannot be compared; write another plan for it"
        )


def one_step(plan: Plan, recipe: Recipe, data: Dataset) -> None:
    params = recipe.model.init(jax.random.key(0))
    batch = recipe.task.batch(jax.tree.map(jnp.asarray, data.train), jnp.arange(2))
    loss_and_gradient(
        recipe.model,
        recipe.loss,
        params,
        batch.x,
        labels=batch.labels,
        key=jax.random.key(0),
        **batch.keywords,
    )
    y, _ = recipe.model.forward(params, batch.x, **batch.keywords)  # pyright: ignore[reportCallIssue]
    must_be_scored(plan, recipe, y, recipe.task.right(y, batch.labels))


def must_have_native(plan: Plan) -> None:
    if jax.default_backend() != "cpu":
        return
    try:
        build.compiler()
    except EngineError as error:
        raise EngineError(
            f"{plan.name}: it is made for the native engine, and {error}. On the jax engine it takes several times as "
            "long: try fewer seeds and a budget (--engine jax --seeds 4 --budget 30m)"
        ) from None
