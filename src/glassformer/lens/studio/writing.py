"""Writing on in the studio: what `glassformer generate` writes behind a prompt, with the same settings and seed.

{"run": "gpt-nano-1", "prompt": "def ", "length": 3, "temperature": 0.8, "top_p": 0.9, "greedy": false, "seed": 0}
"""

import math
from typing import Any, NamedTuple

from glassformer.generate.text import Writing
from glassformer.lens.studio.http_errors import HTTPError
from glassformer.lens.studio.requests import kind_of, text_of, whole
from glassformer.lens.studio.run_cache import LoadedRun
from glassformer.predict.reading import context_of
from glassformer.predict.writer import generate, sampling_for, tokeniser_of

KEYS = ("run", "prompt", "length", "temperature", "top_p", "greedy", "seed")
LONGEST = 1000  # tokens


class Asked(NamedTuple):
    prompt: str
    length: int
    seed: int
    drawing: dict[str, Any]  # settings of Sampling


def read_asked(plain: dict[str, Any]) -> Asked:
    length = whole("length", plain.get("length"))
    if not 0 < length <= LONGEST:
        raise HTTPError(400, f"length: {length:,} tokens came, expected 1 to {LONGEST:,}")
    greedy = plain.get("greedy", False)
    if not isinstance(greedy, bool):
        raise HTTPError(400, f"greedy: {kind_of(greedy)} came, expected true or false")
    draws = {name: share_of(name, plain.get(name, 1)) for name in ("temperature", "top_p")}
    drawing = {"greedy": True} if greedy else draws
    return Asked(text_of("prompt", plain.get("prompt")), length, whole("seed", plain.get("seed", 0)), drawing)


def share_of(name: str, plain: Any) -> float:
    if isinstance(plain, bool) or not isinstance(plain, int | float) or not math.isfinite(plain):
        raise HTTPError(400, f"{name}: {kind_of(plain)} came, expected a number")
    return float(plain)


def write_on(loaded: LoadedRun, asked: Asked) -> dict[str, Any]:
    """The text behind the prompt, and why it ended; where the context is full, its last half, to go on from."""
    how = Writing(asked.length, sampling_for(loaded.run, **asked.drawing), asked.seed)
    (written,) = generate(loaded.writer, [asked.prompt], how)
    tokeniser, context = tokeniser_of(loaded.run), context_of(loaded.run)
    ids = [*tokeniser.encode(asked.prompt), *written.tokens]
    found = {"text": written.text, "stopped": written.stopped, "tokens": len(written.tokens)}
    return found if len(ids) <= context else found | {"last_half": tokeniser.decode(ids[:-1][-(context // 2) :])}
