"""The page in a notebook: `lens.view(model, params, x)` traces one input and shows it in place, every number of it.

The page stands in a frame of its own (`srcdoc`), with its content policy: it asks the network for nothing.
"""

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from glassformer.data.dataset import IMAGES, TEXTS
from glassformer.errors import ShapeError
from glassformer.files import write_whole
from glassformer.layers import Patches
from glassformer.lens.attention import patch_grid, tokens_in_front
from glassformer.lens.page import page
from glassformer.lens.payload import Weights, payload
from glassformer.lens.trace import trace
from glassformer.lens.trace_input import TraceInput, continued
from glassformer.losses import CrossEntropy
from glassformer.models.model import Network
from glassformer.structure import structure

HEIGHT = 900  # pixels


@dataclass(frozen=True, eq=False)
class PageView:
    """One HTML file; in a notebook it is shown, `save` writes it."""

    html: str
    height: int = HEIGHT

    def save(self, path: str | Path) -> Path:
        write_whole(Path(path), self.html)
        return Path(path)

    def __repr__(self) -> str:
        return f"<page of {len(self.html.encode()) / 1e6:.1f} MB; save it with .save('page.html')>"

    def _repr_html_(self) -> str:
        inside = html.escape(self.html, quote=True)
        style = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe title="glassformer" style="{style}" srcdoc="{inside}"></iframe>'


def view(
    model: Network,
    params: Any,
    x: Any,
    *,
    labels: Any = None,
    name: str = "",
    tokens: tuple[str, ...] = (),
    words: tuple[str, ...] = (),
    weights: Weights = "shown",
    loss: Any = None,
    height: int = HEIGHT,
    **keywords: Any,
) -> PageView:
    """The page of one input (a batch of one). Without labels the gradient is that of the loss against the model's own
    answer; of a language model, against the text itself, and the page shows what comes next. `tokens` and `words` name
    the tokens, and the classes or symbols; they are numbers otherwise.

    >>> from glassformer import lens
    >>> from glassformer.predict.run import load
    >>> run = load()
    >>> shown = lens.view(run.model, run.params, run.load_data().test.images[18:19], labels=[3])
    >>> shown.html[:15], shown._repr_html_()[:7]
    ('<!DOCTYPE html>', '<iframe')
    """
    rows = {np.shape(leaf)[0] for leaf in jax.tree.leaves(x)}
    if rows != {1}:
        raise ShapeError(f"view: a batch of {', '.join(map(str, sorted(rows)))} came, a page shows one input: x[:1]")
    answer = np.asarray(model.forward(params, x, **keywords)[0])
    is_known = labels is not None
    labels = np.asarray(labels) if is_known else answer.argmax(axis=-1).astype(np.int32)
    kind = {IMAGES: "image", TEXTS: "text"}.get(model.input.reads, "row")
    *memory, asked = [tuple(map(str, np.asarray(leaf)[0])) for leaf in jax.tree.leaves(x)] if kind == "text" else [()]
    if kind == "image" and structure(model).first(Patches):
        down, across = patch_grid(model)
        asked = (*tokens_in_front(model), *(f"{row},{column}" for row in range(down) for column in range(across)))
    given = TraceInput(
        kind=kind,
        name=name or type(model).__name__,
        x=x,
        labels=labels,
        is_known=is_known,
        tokens=tokens or asked,
        memory=memory[0] if memory else (),
        words=words or tuple(map(str, range(answer.shape[-1]))),
        keywords=keywords,
    )
    if not is_known and kind == "text" and model.tasks[0] == "next-token":
        given = continued(given)
    traced = trace(
        model, params, x, labels=given.labels, weights=given.weights, loss=loss or CrossEntropy(), **keywords
    )
    return PageView(page(payload(traced, given, weights=weights, loss=loss)), height)
