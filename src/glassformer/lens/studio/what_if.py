"""What if, asked by the page and worked out by the model itself, in the process that touches runs.

{"run", "input", "changes": [record, …], "place": 3}           the answer after these changes (lens/what_if.py)
{"run", "input", "table": "heads"}                             every head off, one by one
{"run", "input", "table": "positions", "changes": […], …}      activation patching from the changed input; label, place

Changes of the input (token, image) come first; where a value is swapped, it is taken from the input so changed, and the
rest of the pass is that of the input as it came.
"""

from typing import Any, NamedTuple

import numpy as np

from glassformer.errors import SettingError
from glassformer.lens.ablate_each import ablate_each
from glassformer.lens.activation_patching import activation_patching
from glassformer.lens.studio.http_errors import HTTPError
from glassformer.lens.studio.requests import decoded, kind_of, whole
from glassformer.lens.trace_input import TraceInput
from glassformer.lens.what_if import Change, SetImage, Swap, ToInput, change_of, what_if
from glassformer.predict.run import Run

MOST_CHANGES = 64
MOST_AROUND = 20_000  # bytes of a request that are not in strings
MOST_LOGITS = 500_000  # numbers: of more, only the row that is looked at is sent
TABLES = ("heads", "positions")


class Question(NamedTuple):
    changes: tuple[dict[str, Any], ...] = ()
    table: str = ""
    label: int | None = None
    place: int | None = None


def read_question(plain: dict[str, Any]) -> Question:
    changes, table = plain.get("changes") or [], plain.get("table") or ""
    if not isinstance(changes, list) or not all(isinstance(one, dict) for one in changes):
        raise HTTPError(400, f"changes: {kind_of(changes)} came, expected a list of objects")
    if len(changes) > MOST_CHANGES:
        raise HTTPError(400, f"changes: {len(changes):,} came, at most {MOST_CHANGES} are taken")
    if table and table not in TABLES:
        raise HTTPError(400, f"table: {kind_of(table)} came, expected {' or '.join(TABLES)}")
    label, place = (None if plain.get(name) is None else whole(name, plain[name]) for name in ("label", "place"))
    return Question(tuple(changes), table, label, place)


def answer(run: Run, given: TraceInput, question: Question) -> dict[str, Any]:
    rest = {"labels": given.labels, "weights": given.weights, "loss": run.recipe.loss, **given.keywords}
    if question.table == "heads":
        effects = ablate_each(run.model, run.params, given.x, **rest)
        return {
            "heads": [
                {"layer": one.name.removesuffix(".z"), "head": one.head, "loss": one.loss, "change": one.loss_change}
                for one in effects.heads
            ]
        }
    changes = [read_change(plain) for plain in question.changes]
    edited = given.x
    for change in changes:
        if isinstance(change, ToInput):
            must_be_known(run, change)
            edited = change.applied(edited)
    if question.table == "positions":
        if edited is given.x:
            raise SettingError("activation patching: nothing of the input is changed; change a token or the image")
        keywords = given.keywords
        table = activation_patching(
            run.model, run.params, given.x, edited, label=question.label, place=question.place, **keywords
        )
        return table.as_dict()
    swaps = any(isinstance(change, Swap) for change in changes)
    values = [change for change in changes if not isinstance(change, ToInput)]
    x, other = (given.x, edited) if swaps else (edited, None)
    after = what_if(run.model, run.params, x, values, other=other, **rest).after
    return {"logits": plain_logits(np.asarray(after.logits)[0], question.place), "loss": after.loss}


def read_change(plain: dict[str, Any]) -> Change:
    if plain.get("change") == "image":
        pixels = np.frombuffer(decoded("pixels", plain.get("pixels")), np.uint8)
        return SetImage(pixels)
    return change_of(plain)


def must_be_known(run: Run, change: Change) -> None:
    """An id outside the table would be read as another one, silently."""
    known = getattr(run.model.input, "vocabulary", None)
    number = getattr(change, "id", None)
    if number is not None and known is not None and not 0 <= number < known:
        raise SettingError(f"token: id {number} came, {run.path.name} knows 0 to {known - 1}")


def plain_logits(logits: np.ndarray, place: int | None) -> dict[str, Any]:
    if logits.ndim == 2 and logits.size > MOST_LOGITS:
        logits = logits[min(len(logits) - 1 if place is None else place, len(logits) - 1)]
    return {"shape": list(logits.shape), "data": logits.ravel().tolist()}
