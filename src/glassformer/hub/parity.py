"""An imported folder beside transformers: the same drawn input through both, and how far apart they are by layers.

Theirs hands out the values between its blocks as `hidden_states`: what goes into the first, what comes out of each.
Language models of theirs give the last one behind the final norm. Ours are seen by their names.
"""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from glassformer.errors import EngineError
from glassformer.hub import bert
from glassformer.hub.folder import Imported, read_config
from glassformer.models import GPT, T5, BERTFor, ViT
from glassformer.models.t5 import Inputs
from glassformer.names import recording, visiting

BATCH, MOST_TOKENS = 2, 16
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


class Given(NamedTuple):
    """The same input for both."""

    ours: Any
    keywords: dict[str, Any]
    theirs: dict[str, Any]


def is_possible() -> bool:
    return find_spec("torch") is not None and find_spec("transformers") is not None


def compare(folder: Path, found: Imported, seed: int = 0) -> list[Row]:
    """What went into the first block, what came out of each, and the logits where both have the same head."""
    transformers, torch = needed("transformers"), needed("torch")
    given = drawn(found.model, np.random.default_rng(seed))
    tensors = {name: torch.tensor(np.asarray(value)) for name, value in given.theirs.items()}
    with quiet(transformers), torch.no_grad():
        their_class = getattr(transformers, architecture_in(folder))
        theirs = their_class.from_pretrained(folder, local_files_only=True, use_safetensors=True).float().eval()
        answer = theirs(**tensors, output_hidden_states=True)
    seen: dict[str, Any] = {}
    with visiting(recording(seen)):
        logits, _ = found.model.forward(found.params, given.ours, **given.keywords)
    rows = [row(name, seen[name], value) for name, value in zip(names(found.model), states(answer), strict=True)]
    their_logits = logits_of(answer, found, type(theirs).__name__)
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


def architecture_in(folder: Path) -> str:
    config = read_config(folder)
    usual = {"gpt2": "GPT2LMHeadModel", "t5": "T5ForConditionalGeneration", "vit": "ViTForImageClassification"}
    if config["model_type"] in usual:
        return usual[config["model_type"]]
    return (config.get("architectures") or [bert.BARE])[0]


def drawn(model: Any, draw: np.random.Generator) -> Given:
    if isinstance(model, ViT):
        images = draw.integers(256, size=(BATCH, *model.images.shape), dtype=np.uint8)
        pixels = ((images / 255 - model.images.mean) / model.images.std).astype(np.float32)
        return Given(jnp.asarray(images), {}, {"pixel_values": pixels.transpose(0, 3, 1, 2)})
    text = model.bert.text if isinstance(model, BERTFor) else model.text
    tokens = min(text.context, MOST_TOKENS)
    ids = draw.integers(text.vocabulary, size=(BATCH, tokens))
    if isinstance(model, GPT):
        return Given(jnp.asarray(ids), {}, {"input_ids": ids})
    keep = np.arange(tokens) < np.array([[tokens], [max(1, tokens // 2)]])
    theirs = {"input_ids": ids, "attention_mask": keep.astype(int)}
    if isinstance(model, T5):
        target = draw.integers(text.vocabulary, size=(BATCH, max(1, tokens - 3)))
        both = Inputs(source=jnp.asarray(ids), target=jnp.asarray(target))
        return Given(both, {"keep": jnp.asarray(keep)}, theirs | {"decoder_input_ids": target})
    kinds = draw.integers(model.bert.segments, size=ids.shape)
    keywords = {"keep": jnp.asarray(keep), "segments": jnp.asarray(kinds)}
    return Given(jnp.asarray(ids), keywords, theirs | {"token_type_ids": kinds})


def names(model: Any) -> list[str]:
    """Of ours, in the order of their states."""
    if isinstance(model, ViT):
        return ["positions.y", *(f"blocks.{i}.resid_post" for i in range(model.depth))]
    if isinstance(model, BERTFor):
        return ["bert.drop.y", *(f"bert.blocks.{i}.norm2.y" for i in range(model.bert.depth))]
    if isinstance(model, GPT):
        return ["drop.y", *between("", model.depth), "norm.y"]
    return [
        "encoder.drop.y",
        *between("encoder.", model.depth),
        "encoder.drop_memory.y",
        "decoder.drop.y",
        *between("decoder.", model.decoder_blocks),
        "decoder.drop_last.y",
    ]


def between(stack: str, depth: int) -> Iterable[str]:
    return (f"{stack}blocks.{i}.resid_post" for i in range(depth - 1))


def states(answer: Any) -> list[Any]:
    if "encoder_hidden_states" in answer:
        return [*answer.encoder_hidden_states, *answer.decoder_hidden_states]
    return list(answer.hidden_states)


def logits_of(answer: Any, found: Imported, theirs: str) -> Any:
    """None where their head is another one than ours, or none."""
    if not isinstance(found.model, BERTFor):
        return answer.logits
    ours = bert.architecture_of(found.model, found.classes)
    if theirs == bert.PRETRAINING:
        return {bert.MASKED: answer.prediction_logits, bert.NEXT: answer.seq_relationship_logits}.get(ours)
    if theirs != ours:
        return None
    if ours == bert.SPANS:
        return np.stack([answer.start_logits, answer.end_logits], axis=1)
    return answer.logits


def row(name: str, ours: Any, theirs: Any) -> Row:
    expected = np.asarray(theirs, np.float64)
    return Row(name, float(np.abs(np.asarray(ours, np.float64) - expected).max()), float(np.abs(expected).max()))
