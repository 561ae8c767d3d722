"""An imported folder beside transformers: the same drawn input through both, and how far apart they are by layers.

Theirs hands out the values between its blocks as `hidden_states`: what goes into the first, what comes out of each.
Language models of theirs give the last one behind the final norm. Ours are seen by their names.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.errors import EngineError
from glassformer.hub.folder import read_config
from glassformer.hub.format import Format, Imported
from glassformer.hub.formats import format_of
from glassformer.layers.precision import wide
from glassformer.names import recording, visiting

CLOSE = 1e-3  # of the largest magnitude; float32 through some dozens of blocks stays well below it
LOGITS = "logits"


@dataclass(frozen=True)
class Row:
    name: str  # as ours is called
    difference: float  # the largest
    magnitude: float  # the largest of theirs

    @property
    def relative(self) -> float:
        return self.difference / self.magnitude if self.magnitude else self.difference

    @property
    def close(self) -> bool:
        return self.relative < CLOSE  # not so where either is not a number


def is_possible() -> bool:
    return find_spec("torch") is not None and find_spec("transformers") is not None


def compare(folder: Path, found: Imported, seed: int = 0) -> list[Row]:
    """What went into the first block, what came out of each, and the logits where both have the same head."""
    transformers, torch = needed("transformers"), needed("torch")
    known = format_of(found.model)
    given = known.draw(found.model, np.random.default_rng(seed))
    tensors = {name: torch.tensor(np.asarray(value)) for name, value in given.theirs.items()}
    with quiet(transformers), torch.no_grad():
        their_class = getattr(transformers, architecture_in(folder, known))
        theirs = their_class.from_pretrained(folder, local_files_only=True, use_safetensors=True).float().eval()
        if found.precision == "bf16":  # both compute in float32, with the same rounded weights
            for weight in theirs.parameters():
                weight.copy_(weight.bfloat16())
        answer = theirs(**tensors, output_hidden_states=True)
    seen: dict[str, Any] = {}
    with visiting(recording(seen)):
        x, keywords = jax.tree.map(jnp.asarray, (given.ours, given.keywords))
        logits, _ = found.model.forward(jax.tree.map(wide, found.params), x, **keywords)
    pairs = zip(known.states(found.model), states(answer), strict=True)
    rows = [row(name, seen[name], value) for name, value in pairs]
    their_logits = known.logits(answer, found, type(theirs).__name__)
    return rows if their_logits is None else [*rows, row(LOGITS, logits, their_logits)]


def needed(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise EngineError(f"parity: {package} is not installed; pip install 'glassformer[parity]'") from None


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Without its bars and remarks on what a file has too much or too little."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def architecture_in(folder: Path, known: Format) -> str:
    name, *_ = read_config(folder).get("architectures") or [known.architecture]
    return name if known.heads or name in known.others else known.architecture


def states(answer: Any) -> list[Any]:
    if "encoder_hidden_states" in answer:
        return [*answer.encoder_hidden_states, *answer.decoder_hidden_states]
    return list(answer.hidden_states)


def row(name: str, ours: Any, theirs: Any) -> Row:
    expected = np.asarray(theirs, np.float64)
    return Row(name, float(np.abs(np.asarray(ours, np.float64) - expected).max()), float(np.abs(expected).max()))
