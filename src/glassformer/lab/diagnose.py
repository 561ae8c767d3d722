"""The usual suspects around a run: a plan made of its own recipe, whatever the model.

learning rate     from a tenth to a hundred times what it is; with Adam, whose rates lie closer together, to ten times
optimiser         AdamW at 2e-3 with a warm-up, where it is another: beside the others, not combined with them. It may
                  well make up for what else is wrong (positions that start badly, say), which would then not be found
training          twice the epochs; half and twice the batch; the rate falling to nothing on the way
positions         sinusoids, or larger random numbers, where the model has positions and starts them otherwise
capacity          twice as wide; one block more, where there are blocks
regularisation    without dropout, label smoothing, shifts and augmentation, where there are any
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from glassformer.lab.cells import key_of
from glassformer.lab.plan import Factor, Plan, changed
from glassformer.lab.plan_text import plan_text
from glassformer.lab.sample_size import usual_seeds
from glassformer.layers import Attention
from glassformer.layers.positions import Sinusoidal
from glassformer.train.augment import Augment
from glassformer.train.recipe import Recipe

SLOWER, FASTER, MUCH_FASTER = (0.1, 0.3), (3, 10), (30, 100)


def diagnosis(recipe: Recipe, name: str, *, seeds: int = 0, target: float | None = None) -> Plan:
    """A plan that asks why this recipe is not better."""
    share = recipe.validation.share or 0.1
    engine = replace(recipe.engine, name="auto", threads=0, rng="threefry")
    baseline = replace(
        recipe, start="", validation=replace(recipe.validation, share=share, patience=0, min_delta=0.0), engine=engine
    )
    factors = tuple(
        factor for factor in suspects(baseline) if key_of(changed(baseline, factor.changes, name)) != key_of(baseline)
    )
    question = f"Why is the accuracy of {name} not better?"
    count = seeds or usual_seeds(len(factors))
    plan = Plan(name, question, baseline, factors, seeds=tuple(range(1, count + 1)), target=target)
    return replace(plan, text=plan_text(plan))


def suspects(recipe: Recipe) -> Iterator[Factor]:
    rate, name = recipe.optimiser.lr, recipe.optimiser.name
    for times in (*SLOWER, *FASTER, *(() if name in ("adam", "adamw") else MUCH_FASTER)):
        small = "too large" if times < 1 else "too small"
        yield suspect(
            f"rate x{times:g}",
            "learning rate",
            f"the learning rate, {rate:g}, is {small}",
            {"optimiser.lr": float(f"{rate * times:.3g}")},
        )
    if name != "adamw":
        adamw = {"name": "adamw", "lr": 2e-3, "schedule": {"kind": "warmup-cosine"}}
        yield replace(
            suspect("AdamW", "optimiser", f"{name} is the wrong optimiser", {"optimiser": adamw}), combine=False
        )
    yield suspect(
        "cosine schedule",
        "schedule",
        "the rate should fall on the way",
        {"optimiser.schedule": {"kind": "warmup-cosine"}},
    )
    epochs, batch = recipe.training.epochs, recipe.training.batch
    yield suspect("twice the epochs", "epochs", "training ends too early", {"training.epochs": 2 * epochs})
    yield suspect("half the batch", "batch", "more, noisier steps", {"training.batch": max(1, batch // 2)})
    yield suspect("twice the batch", "batch", "fewer, steadier steps", {"training.batch": 2 * batch})
    yield from suspects_of_model(recipe.model)
    for setting, word in (("label_smoothing", "label smoothing"), ("shift", "shifts")):
        if getattr(recipe.training, setting):
            yield suspect(f"without {word}", word, f"{word} holds it back", {f"training.{setting}": 0})
    if recipe.training.augment != Augment():
        yield suspect("without augmentation", "augmentation", "augmentation holds it back", {"training.augment": {}})


def suspects_of_model(model: Any) -> Iterator[Factor]:
    settings = {field.name for field in fields(model)}
    if "start" in settings:
        hypothesis = "positions start where attention cannot tell places apart"
        if not isinstance(model.start, Sinusoidal):
            yield suspect("positions sinusoidal", "positions", hypothesis, {"model.start": "sinusoidal"})
        yield suspect("positions ±0.5", "positions", hypothesis, {"model.start": {"kind": "uniform", "limit": 0.5}})
    if {"width", "hidden"} <= settings and isinstance(model.hidden, int):
        wide = {"model.width": 2 * model.width, "model.hidden": 2 * model.hidden}
        yield suspect("twice as wide", "capacity", f"{model.width} numbers a token are too few", wide)
    if "depth" in settings:
        yield suspect(
            "one block more", "depth", f"{model.depth} blocks are not enough", {"model.depth": model.depth + 1}
        )
    if "dropout" in settings and model.dropout:
        yield suspect("without dropout", "dropout", "dropout holds it back", {"model.dropout": 0.0})
    if "attend" in settings and isinstance(model.attend, Attention) and model.attend.dropout:
        hypothesis = "dropout of attention weights holds it back"
        yield suspect("without attention dropout", "dropout", hypothesis, {"model.attend.dropout": 0.0})


def suspect(name: str, subject: str, hypothesis: str, changes: dict[str, Any]) -> Factor:
    return Factor(name=name, changes=changes, hypothesis=hypothesis, subject=subject)
