"""The usual suspects around a run: a plan made of its own recipe, whatever the model.

learning rate     from a tenth to ten times what it is, without Adam to a hundred times; where the best is at an edge,
                  further (widen.py)
optimiser         AdamW at 2e-3 with a warm-up, where it is another: beside the others, not combined with them. It may
                  well make up for what else is wrong (positions that start badly, say), which would then not be found
training          twice the epochs; half and twice the batch; the rate falling to nothing on the way
data              four times as much, where the run has a part; half of it: what that costs says whether more would help
positions         sinusoids, or larger random numbers, where the model has positions and starts them otherwise
capacity          twice as wide; one block more, where there are blocks
regularisation    without dropout, label smoothing, shifts and augmentation, where there are any

They are judged by the loss of the task on validation, which tells sooner than right answers do; with a target, by what
the target is given in. Suspects that are hopeless after half of the seeds are dropped (looks_log.py). Runs too long for
the time there is are shortened, all of them alike, and the question says so.
"""

import os
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from glassformer.lab.cells import key_of
from glassformer.lab.metric import LOSS, Metric
from glassformer.lab.one_run import loaded, train_one
from glassformer.lab.plan import Factor, Plan, changed, usual_metric
from glassformer.lab.plan_parts import factors_of, sweep_of
from glassformer.lab.plan_text import plan_text
from glassformer.lab.sample_size import usual_seeds
from glassformer.layers import Attention
from glassformer.layers.positions import Sinusoidal
from glassformer.train.augment import Augment
from glassformer.train.held_out import split
from glassformer.train.recipe import Recipe

ENOUGH_TO_LOOK = 8  # seeds: half of them tell which suspects are hopeless
HOPELESS = 0.05  # the probability to help at the end below which a suspect is dropped there
TIMES = (0.1, 0.3, 1, 3, 10)
MUCH_FASTER = (30, 100)


def diagnosis(
    recipe: Recipe,
    name: str,
    *,
    seeds: int = 0,
    target: float | None = None,
    metric: Metric | None = None,
    samples: int = 0,
    epochs: int = 0,
) -> Plan:
    """A plan that asks why this recipe is not better.

    samples   of training, where they are known
    epochs    of the run, where it is to be shortened to so many
    """
    baseline, whole = comparable(recipe), recipe.training.epochs
    short = 0 < epochs < whole
    if short:
        baseline = replace(baseline, training=replace(baseline.training, epochs=epochs))
    judged_by = metric or (LOSS if target is None else usual_metric(recipe))
    rate = baseline.optimiser.lr
    times = TIMES if baseline.optimiser.name in ("adam", "adamw") else (*TIMES, *MUCH_FASTER)
    values = [rate if one == 1 else float(f"{rate * one:.3g}") for one in times]
    rates = sweep_of(
        "rate", "optimiser.lr", values, rate, hypothesis=f"the learning rate, {rate:g}, is wrong", widen=True
    )
    tried = [factor for factor in suspects(baseline, samples) if not (short and factor.subject == "epochs")]
    key = key_of(baseline)
    factors = (*(one for one in tried if key_of(changed(baseline, one.changes, name)) != key), *factors_of(rates))
    question = f"Why is the {judged_by.name} of {name} not better?"
    if short:
        question += f" (all runs shortened to {epochs} of {whole} epochs)"
    count = seeds or usual_seeds(len(factors))
    plan = Plan(
        name,
        question,
        baseline,
        factors,
        seeds=tuple(range(1, count + 1)),
        target=target,
        metric=judged_by,
        sweeps=(rates,),
        looks=(count // 2, count) if count >= ENOUGH_TO_LOOK else (),
        futility=HOPELESS if count >= ENOUGH_TO_LOOK else 0.0,
    )
    return replace(plan, text=plan_text(plan))


def comparable(recipe: Recipe) -> Recipe:
    """With something held out, run to its end, on whatever engine there is."""
    share = recipe.validation.share or 0.1
    validation = replace(recipe.validation, share=share, patience=0, min_delta=0.0)
    engine = replace(recipe.engine, name="auto", threads=0, rng="threefry")
    return replace(recipe, start="", validation=validation, engine=engine)


def samples_of(recipe: Recipe) -> int:
    """That it could be trained on."""
    whole = comparable(recipe)
    whole = replace(whole, training=replace(whole.training, subset=0))
    train, _ = split(whole, loaded(whole))
    return len(train[0])  # as `training.subset` counts them: of running text, tokens


def epochs_within(recipe: Recipe, seconds: float, runs: int, at_once: int = 0) -> int:
    """So many epochs that so many runs take no longer; by what runs of one epoch and of two take on one thread.

    What a run takes besides its epochs (the test set, a look inside) may be more than they do.
    """
    most, whole = seconds * (at_once or os.cpu_count() or 1) / runs, recipe.training.epochs
    first = time_of(recipe, 1)  # reads the data, too
    if whole * first <= most or first > 2 * most:
        return whole if whole * first <= most else 1
    once, twice = time_of(recipe, 1), time_of(recipe, 2)
    return max(1, min(whole, 1 + int((most - once) / max(twice - once, 1e-3))))


def time_of(recipe: Recipe, epochs: int) -> float:
    whole = comparable(recipe)
    short = replace(whole, training=replace(whole.training, epochs=epochs), engine=replace(whole.engine, threads=1))
    record = train_one("", short)
    return record.seconds - record.compile_seconds


def suspects(recipe: Recipe, samples: int = 0) -> Iterator[Factor]:
    name = recipe.optimiser.name
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
    yield from suspects_of_data(recipe, samples)
    yield from suspects_of_model(recipe.model)
    for setting, word in (("label_smoothing", "label smoothing"), ("shift", "shifts")):
        if getattr(recipe.training, setting):
            yield suspect(f"without {word}", word, f"{word} holds it back", {f"training.{setting}": 0})
    if recipe.training.augment != Augment():
        yield suspect("without augmentation", "augmentation", "augmentation holds it back", {"training.augment": {}})


def suspects_of_data(recipe: Recipe, samples: int) -> Iterator[Factor]:
    """`samples`: how many there are; 0: nobody knows."""
    part = recipe.training.subset or samples
    if recipe.training.subset and (not samples or part < samples):
        more = 4 * part if not samples or 4 * part < samples else 0
        name = "four times the data" if more else "all of the data"
        yield suspect(name, "data", f"{part:,} samples are too few", {"training.subset": more})
    if part // 2:
        hypothesis = "with fewer samples it is worse: then more would help"
        yield replace(suspect("half the data", "data", hypothesis, {"training.subset": part // 2}), combine=False)


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
