"""A GPT that writes, token by token: our C, our JAX and peers (generation_peers.py), greedy, one text, on the CPU.

All have the same random weights and read the same prompts, so they write the same tokens. Prompts have several lengths,
because a cache of keys and values that grows should cost little: the time of a token is given for each. It is counted
from the first token that is written to the last; reading the prompt, until the first, is counted apart.

What a token costs at least is reading every weight once, at the bandwidth of the memory (bandwidth.py): 4 bytes each in
float32, 1.06 in int8. Sides of fewer bits may write other tokens, and do not count where sides are compared for that.
"""

import dataclasses
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from glassformer.bench.bandwidth import Reading
from glassformer.bench.generation_peers import THEIRS, Heard, Write, peers_writing
from glassformer.bench.measure import REST, timed
from glassformer.bench.training import JAX, NATIVE, on_cpu, say
from glassformer.cores import cores
from glassformer.errors import EngineError, SettingError
from glassformer.generate.decoder import Decoder
from glassformer.generate.jax_decoder import JaxDecoder
from glassformer.models import GPT, gpt
from glassformer.models.text import Text
from glassformer.native.decoder import NativeDecoder
from glassformer.native.packed_weights import KINDS

LARGE = GPT()  # GPT-2 small
SMALL = GPT(text=Text(vocabulary=257, context=64), width=48, hidden=96, heads=3, depth=2)
SIXTEENTHS = (1, 4, 8, 15)  # of the context, that prompts fill
BATCH = 8  # texts that are written together
INT8 = f"{NATIVE} int8"
FEWER_BITS = ("bf16", "int8", "q8_0")
FAR = 64_000_000  # bytes: fewer may stay in the caches, and say nothing about memory


@dataclass(frozen=True)
class Result:
    contexts: list[int]  # tokens of the prompts
    tokens: int  # written in a turn, after the first
    token_ms: dict[str, list[float]]  # of each side, by context
    prompt_ms: dict[str, list[float]]  # until the first token is there
    weight_bytes: int  # that a token reads in float32
    batch_ms: dict[str, float]  # of a token of each of BATCH texts together, behind the shortest prompt
    bandwidth: dict[str, float]  # bytes a second that one thread reads, and all
    others: list[str]  # sides that wrote other tokens than the first one
    spread: float  # slowest turn over fastest, of the least steady side
    without_native: str | None = None  # why it was left out

    @property
    def best(self) -> str | None:
        """The faster way of transformers."""
        theirs = [side for side in self.token_ms if side.startswith(THEIRS)]
        return max(theirs, key=self.tokens_per_s.__getitem__, default=None)

    @property
    def tokens_per_s(self) -> dict[str, float]:
        """Over all contexts."""
        return {side: 1e3 / statistics.mean(ms) for side, ms in self.token_ms.items()}

    @property
    def ratios(self) -> dict[str, float | None]:
        """How many times as many tokens in the same time."""
        one = {side: 1e3 / ms[0] for side, ms in self.token_ms.items()}
        return {
            "native_to_transformers": self.ratio(self.best),
            "native_to_jax": self.ratio(JAX),
            "int8_to_float32": self.ratio(NATIVE, INT8),
            "int8_to_best_int8_peer": self.ratio(self.best_int8, INT8),
            **{f"batch_{side}": 1e3 * BATCH / ms / one[side] for side, ms in self.batch_ms.items()},
        }

    @property
    def best_int8(self) -> str | None:
        """The fastest peer of 8 bits."""
        theirs = [side for side in self.token_ms if side.endswith(("int8", "q8_0")) and side != INT8]
        return max(theirs, key=self.tokens_per_s.__getitem__, default=None)

    def ratio(self, other: str | None, ours: str = NATIVE) -> float | None:
        rate = self.tokens_per_s
        return rate[ours] / rate[other] if other in rate and ours in rate else None

    @property
    def flatness(self) -> dict[str, float]:
        """By how much the slowest and the fastest context differ from the middle between them."""
        return {side: (max(ms) - min(ms)) / (max(ms) + min(ms)) for side, ms in self.token_ms.items()}

    @property
    def share(self) -> float | None:
        """Of the bandwidth that native reaches with the shortest prompt, by its weights alone."""
        if NATIVE not in self.token_ms or not self.bandwidth:
            return None
        return self.weight_bytes / (self.token_ms[NATIVE][0] / 1e3) / max(self.bandwidth.values())

    def plain(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {
            "tokens_per_s": self.tokens_per_s,
            "best": self.best,
            "best_int8": self.best_int8,
            "ratios": self.ratios,
            "flatness": self.flatness,
            "share": self.share,
        }


class Contest:
    """All sides that run here, ready to write."""

    def __init__(self, model: GPT, tokens: int, *, with_peers: bool = True) -> None:
        context = model.text.context
        if tokens + 1 > context - context * SIXTEENTHS[-1] // 16:
            raise SettingError(
                f"bench generate: {tokens} tokens came, behind the longest prompt is room for {context // 16 - 1}"
            )
        self.model, self.tokens = model, tokens
        self.contexts = [context * share // 16 for share in SIXTEENTHS]
        self.prompt = np.random.default_rng(0).integers(model.text.vocabulary, size=context, dtype=np.int32)
        self.without_native: str | None = None
        self.sides: dict[str, Write] = {}
        self.native: dict[str, NativeDecoder] = {}
        self.loops: dict[str, Reading] = {}
        with on_cpu():
            params = talkative(model)
            self.add_ours(params)
            if with_peers:
                self.sides |= peers_writing(model, params)
        self.seconds: dict[tuple[str, int], list[float]] = {}  # of a token
        self.reading: dict[tuple[str, int], list[float]] = {}  # of the prompt
        self.loop_seconds: dict[str, list[float]] = {name: [] for name in self.loops}
        self.together: dict[str, list[float]] = {}  # seconds of a step of BATCH texts
        self.written: dict[int, dict[str, list[int]]] = {}  # tokens, by context and side

    def add_ours(self, params: Any) -> None:
        try:
            for kind in KINDS:
                side = NATIVE if kind == "float32" else f"{NATIVE} {kind}"
                self.native[side] = NativeDecoder(self.model, params, weights=kind, notice=say)
                self.sides[side] = writing(self.native[side])
            whole = self.native[NATIVE].stack.weights
            self.weight_bytes = whole.nbytes
            if self.weight_bytes >= FAR:
                floats = whole.view(np.float32)
                self.loops = {str(threads): Reading(floats, threads, say) for threads in (1, cores())}
        except EngineError as error:
            self.without_native, self.weight_bytes = str(error), 0
        self.sides[JAX] = writing(JaxDecoder(self.model, params))

    def run(self, rounds: int) -> Iterator[int]:
        """Measure; yields after each round, the first of which compiles and is not counted."""
        with on_cpu():
            for turn in range(rounds + 1):
                for context in self.contexts:
                    for name, loop in self.loops.items():
                        time.sleep(REST)
                        self.loop_seconds[name].append(timed(loop, 1))
                    for side in self.sides:
                        time.sleep(REST)
                        self.take_turn(side, context, counts=turn > 0)
                for side, decoder in self.native.items():
                    time.sleep(REST)
                    self.take_batch(side, decoder, counts=turn > 0)
                yield turn

    def take_batch(self, side: str, decoder: NativeDecoder, *, counts: bool) -> None:
        """A step of BATCH texts behind the shortest prompt."""
        context = self.contexts[0]
        scores = decoder.start(np.stack([np.roll(self.prompt, i)[:context] for i in range(BATCH)]), [context] * BATCH)
        start = time.perf_counter()
        for _ in range(self.tokens):
            scores = decoder.step(scores.argmax(axis=-1))
        if counts:
            self.together.setdefault(side, []).append((time.perf_counter() - start) / self.tokens)

    def take_turn(self, side: str, context: int, *, counts: bool) -> None:
        tokens: list[int] = []
        times = [time.perf_counter()]

        def heard(token: int) -> None:
            times.append(time.perf_counter())
            tokens.append(token)

        self.sides[side](self.prompt[:context], self.tokens + 1, heard)
        start, first, last = times[0], times[1], times[-1]
        if not side.endswith(FEWER_BITS):
            self.written.setdefault(context, {})[side] = tokens
        if counts:
            self.reading.setdefault((side, context), []).append(first - start)
            self.seconds.setdefault((side, context), []).append((last - first) / self.tokens)

    def others(self) -> list[str]:
        """Sides that wrote other tokens than the first one, in any context."""
        found = [side for texts in self.written.values() for side in texts if texts[side] != next(iter(texts.values()))]
        return list(dict.fromkeys(found))

    def result(self) -> Result:
        def by_context(seconds: dict[tuple[str, int], list[float]]) -> dict[str, list[float]]:
            return {
                side: [1e3 * statistics.median(seconds[side, context]) for context in self.contexts]
                for side in self.sides
            }

        return Result(
            contexts=self.contexts,
            tokens=self.tokens,
            token_ms=by_context(self.seconds),
            prompt_ms=by_context(self.reading),
            weight_bytes=self.weight_bytes,
            batch_ms={side: 1e3 * statistics.median(seconds) for side, seconds in self.together.items()},
            bandwidth={
                name: self.loops[name].bytes / statistics.median(seconds) for name, seconds in self.loop_seconds.items()
            },
            others=self.others(),
            spread=max(max(seconds) / min(seconds) for seconds in self.seconds.values()),
            without_native=self.without_native,
        )


def talkative(model: GPT) -> gpt.Params:
    """Random weights, larger in the blocks than at the start: else the last token of a text comes again and again."""
    params = model.init(jax.random.key(0))
    blocks = jax.tree.map(lambda leaf: 8 * leaf if leaf.ndim == 2 else leaf, params.blocks)
    return params._replace(blocks=blocks)


def writing(decoder: Decoder) -> Write:
    """Greedy: always the token with the highest score."""

    def write(prompt: np.ndarray, tokens: int, heard: Heard) -> None:
        scores = decoder.start(prompt[None], np.array([len(prompt)], np.int32))
        for left in reversed(range(tokens)):
            token = int(scores[0].argmax())
            heard(token)
            if left:
                scores = decoder.step(np.array([token], np.int32))

    return write
