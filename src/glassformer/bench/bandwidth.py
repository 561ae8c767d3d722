"""How many bytes this machine reads from memory in a second: a loop that adds up an array, and does nothing else.

A model that writes reads every weight for each token: the bytes of its weights over the bandwidth is the least time a
token can take.
"""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from glassformer.native import build
from glassformer.native.engine import address

PASSES = 4  # over the array, in one call
SOURCE = r"""
/* The read bandwidth. Sums that do not wait for each other, over whole vectors. */
#include "simd.h"

/* Returns what came out, so that the compiler must read all of it; numbers beyond whole rounds are left out. */
float gf_read(const float *x, int64_t n, int passes)
{
    vec sum[8], total = vec_all(0.0f);
    UNROLL
    for (int i = 0; i < 8; i++) sum[i] = vec_all(0.0f);
    for (int pass = 0; pass < passes; pass++)
        for (int64_t k = 0; k + 8 * LANES <= n; k += 8 * LANES) {
            UNROLL
            for (int i = 0; i < 8; i++) sum[i] += vec_load(x + k + i * LANES);
        }
    UNROLL
    for (int i = 0; i < 8; i++) total += sum[i];
    return vec_sum(total);
}
"""


class Reading:
    """The loop over an array that is far larger than the caches, on so many threads at once; a call reads `bytes`."""

    def __init__(self, array: np.ndarray, threads: int, notice: build.Notice, passes: int = PASSES) -> None:
        library = build.load(SOURCE, notice)
        self.read: Callable[..., float] = library.gf_read
        library.gf_read.argtypes = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int)
        library.gf_read.restype = ctypes.c_float
        self.parts, self.passes = np.array_split(array, threads), passes
        self.bytes = array.nbytes * passes
        self.pool = ThreadPoolExecutor(threads)  # a call into C lets other threads run

    def __call__(self) -> list[float]:
        return list(self.pool.map(lambda part: self.read(address(part), part.size, self.passes), self.parts))
