"""What the file of a published format tells: how a folder is read and written, and how ours is compared with theirs.

Each architecture's file (gpt2.py, bert.py, roberta.py, …) ends in such a FORMAT; formats.py lists them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.data.chat_template import ChatTemplate
from glassformer.hub.tensors import Tensor
from glassformer.hub.tokeniser_files import SpecialTokens
from glassformer.models import Network, Text
from glassformer.train.tasks import Task

BATCH, MOST_TOKENS = 2, 16  # of an input that is drawn to compare


class Folder(NamedTuple):
    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Any]
    architecture: str | None  # the head that was asked for; None: the one that the config names


@dataclass(frozen=True)
class Imported:
    model: Any
    params: Any
    notes: list[str]  # what a person should know: left out, converted, new
    classes: tuple[str, ...] = ()  # names; none where the model does not classify
    tokeniser_json: str | None = None
    chat: ChatTemplate | None = None
    task: Task | None = None  # None: the model's usual one

    @property
    def precision(self) -> Literal["float32", "bf16"]:
        """Of the weights."""
        return "bf16" if any(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(self.params)) else "float32"


class Given(NamedTuple):
    """The same input for both."""

    ours: Any
    theirs: dict[str, Any]
    keywords: Mapping[str, Any] = {}  # of our forward


@dataclass(frozen=True)
class Format:
    """A published format and the class of ours that it is mapped to."""

    model_type: str  # in config.json
    model: type[Network]
    architecture: str  # their class; of those with heads to choose from, the one without
    read: Callable[[Folder], Imported]
    write: Callable[[Any, Any, tuple[str, ...]], tuple[dict[str, Any], dict[str, Any]]]  # config and tensors
    draw: Callable[[Any, np.random.Generator], Given]
    states: Callable[[Any], list[str]]  # our names, in the order of their hidden_states
    special_tokens: SpecialTokens | None = None  # None: it reads no texts
    heads: tuple[str, ...] = ()  # to choose from
    others: tuple[str, ...] = ()  # further classes of theirs, of which the config names one
    bare: type[Network] | None = None  # the class of ours that has none of them
    fits: Callable[[Any], bool] = lambda model: True  # where several formats are mapped to one class
    files: Callable[[Any, Mapping[str, Any]], dict[str, Any]] = lambda model, config: {}  # beside the config
    modules: Callable[[Any, tuple[str, ...]], tuple[list[Tensor], ...]] = lambda model, classes: ()  # for adapters:
    # tensors by their names in memory, where those are known; then by older ones
    logits: Callable[[Any, Imported, str], Any] = lambda answer, found, theirs: answer.logits  # None: of another head


def generation_config(model: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """What a model that writes has beside its config."""
    return {"generation_config.json": {name: value for name, value in config.items() if name.endswith("_token_id")}}


def drawn_ids(text: Text, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """And a padding mask: False in the second half of the last sequence."""
    tokens = min(text.context, MOST_TOKENS)
    keep = np.arange(tokens) < np.array([[tokens], [max(1, tokens // 2)]])
    return rng.integers(text.vocabulary, size=(BATCH, tokens)), keep
