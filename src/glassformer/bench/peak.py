"""How many multiply-adds a model needs, and how many this machine can do: their quotient is the share of its peak.

What a training step needs, counted from the Python model (`models.summary`): the matrix products of forward, and for
each the two gradients of backward, less the gradient of the pixels, which nobody computes:

    multiply-adds of a step = batch * (forward + backward - first product), of text without subtracting anything:
    the input of its first product is the embedding's output, whose gradient is needed

Nothing else counts (activations, norms, softmax, optimiser), nor what the native engine saves by exact rewrites: the
same work for everyone. What the machine can do is measured: a loop of independent multiply-adds on whole vectors that
reads and writes no memory, compiled as the native engine is.
"""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from glassformer.models.model import Network
from glassformer.models.summary import summarise
from glassformer.native import build

LOOP = 4_000_000  # about 20 ms
SOURCE = r"""
/* The multiply-add peak. Each chain waits for itself alone, and there are enough of them to keep every unit busy. */
#include "simd.h"

#if LANES == 16 || defined(__ARM_NEON)
#define CHAINS 16
#else
#define CHAINS 12 /* 16 registers: these, and the two that all share */
#endif

/* Returns what came out, so that the compiler must compute it; it stays between 0 and 16. */
float gf_multiply_adds(int64_t rounds, float factor, float term)
{
    vec chain[CHAINS], sum = vec_all(0.0f);
    const vec factors = vec_all(factor), terms = vec_all(term);
    UNROLL
    for (int i = 0; i < CHAINS; i++) chain[i] = vec_all((float)i);
    for (int64_t round = 0; round < rounds; round++) {
        UNROLL
        for (int i = 0; i < CHAINS; i++) chain[i] = chain[i] * factors + terms;
    }
    UNROLL
    for (int i = 0; i < CHAINS; i++) sum += chain[i];
    return vec_sum(sum);
}

int gf_multiply_adds_in_a_round(void) { return CHAINS * LANES; }
"""


class Loop:
    """The loop on so many threads at once; each call does `multiply_adds` of them in all."""

    def __init__(self, threads: int, notice: build.Notice, rounds: int = LOOP) -> None:
        library = build.load(SOURCE, notice)
        self.run: Callable[..., float] = library.gf_multiply_adds
        library.gf_multiply_adds.argtypes = (ctypes.c_int64, ctypes.c_float, ctypes.c_float)
        library.gf_multiply_adds.restype = ctypes.c_float
        self.rounds, self.threads = rounds, threads
        self.multiply_adds: int = threads * rounds * library.gf_multiply_adds_in_a_round()
        self.pool = ThreadPoolExecutor(threads)  # a call into C lets other threads run

    def __call__(self) -> list[float]:
        return list(self.pool.map(lambda _: self.run(self.rounds, 0.5, 0.5), range(self.threads)))


def multiply_adds(model: Network) -> int:
    """Of the matrix products of a training step, for one sample."""
    parts = summarise(model).parts
    first = next(part.forward for part in parts if part.forward)
    return sum(part.forward + part.backward for part in parts) - (first if model.input.reads == "images" else 0)
