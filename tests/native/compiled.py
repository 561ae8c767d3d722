"""The kernels by themselves: wrapped into one C file, compiled in several ways, called with arrays between guards."""

import ctypes
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from glassformer.native import build
from glassformer.native.write import number

X86 = platform.machine() in ("x86_64", "AMD64")
GUARD = 132  # bytes on both sides of an array; not a multiple of a vector: kernels must take any address of a float
FILLER = 0x7FC00001  # NaN, with a number of its own for each array: to copy one guard onto another shows, too

VARIANTS = {
    "native": (build.processor_flag(),),
    "scalar": (build.processor_flag(), "-O2", "-DGF_SCALAR"),  # -O3 takes six times as long to compile
    "avx2": ("-mavx2", "-mfma"),
    "plain": (),  # on x86: SSE, four lanes
    "clang": (build.processor_flag(), "-O2"),
}


def c_compiler() -> str:
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    return found or pytest.skip("no C compiler")


def compiler_of(variant: str) -> str:
    return shutil.which("clang") or pytest.skip("no clang") if variant == "clang" else c_compiler()


def skip_what_cannot_run(variant: str) -> None:
    if variant == "avx2" and not (X86 and {"avx2", "fma"} <= set(build.processor().split())):
        pytest.skip("this processor has no AVX2")


@dataclass(frozen=True)
class Instance:
    """A kernel at sizes that the compiler sees as constants, as the generator writes them; its pointers, in order."""

    kernel: str
    present: tuple[bool, ...]  # False: NULL
    sizes: tuple[int | float, ...]
    returns: bool = False  # the first pointer receives what the kernel returns

    @property
    def name(self) -> str:
        words = [self.kernel, *(str(int(here)) for here in self.present), *map(str, self.sizes)]
        return re.sub(r"\W", "_", "_".join(words))

    @property
    def source(self) -> str:
        pointers = [f"x{i}" if here else "NULL" for i, here in enumerate(self.present)]
        given = ", ".join(f"void *{pointer}" for pointer in pointers if pointer != "NULL")
        result = "*(float *)x0 = " if self.returns else ""
        values = ", ".join([*pointers[self.returns :], *map(number, self.sizes)])
        return f"void {self.name}({given}) {{ {result}{self.kernel}({values}); }}"


# Functions of a vector over whole arrays, and what only the host puts together.
MORE = """
int lanes(void) { return LANES; }
void exp_of_all(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) vec_store(y + i, vec_exp(vec_load(x + i)));
}
void cdf_of_all(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i += LANES) vec_store(y + i, vec_normal(vec_load(x + i)).cdf);
}
INLINE void transposed(float *y, const float *x, int N, int C) { transpose(y, N, x, C, N, C); }
INLINE void head_loss_part(float *demb, float *db, float *work, const float *emb, const float *b, const float *tokens,
                           const float *facts, int N, int C, int V, int first, float smoothing)
{
    const table_part part = {first, smoothing, work};
    head_loss_rows(demb, db, emb, b, tokens, facts, N, C, V, &part);
}
INLINE void embedding_part(float *demb, const float *ids, const float *dy, int N, int V, int C, int first)
{
    const table_part part = {first, 0.0f, NULL};
    embedding_rows(demb, ids, dy, N, V, C, &part);
}
INLINE void clip(float *g, int n, float most)
{
    const float factor = clip_factor(sum_of_squares(g, n), most);
    for (int i = 0; i < n; i++) g[i] *= factor;
}
"""


def library_source(instances: Iterable[Instance]) -> str:
    headers = sorted(path.name for path in build.kernels().glob("*.h") if path.name != "host.h")
    unique = {instance.name: instance.source for instance in instances}
    return "\n".join([*(f'#include "{name}"' for name in headers), MORE, *unique.values()])


def compile_library(source: str, variant: str, folder: Path) -> ctypes.CDLL:
    program, library = folder / "kernels.c", folder / "kernels.so"
    program.write_text(source)
    command = [
        compiler_of(variant),
        *build.FLAGS,
        *VARIANTS[variant],
        *build.SHARED,
        f"-I{build.kernels()}",
        str(program),
    ]
    done = subprocess.run([*command, "-o", str(library), *build.LIBRARIES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def compile_once(source: str, variant: str, folder: Path) -> ctypes.CDLL:
    """For all processes of a session: it takes half a minute."""
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "lock"):
        if (folder / "whole").exists():
            return ctypes.CDLL(str(folder / "kernels.so"))
        library = compile_library(source, variant, folder)
        (folder / "whole").touch()
        return library


Call = Callable[..., list[np.ndarray]]


class Kernels:
    """Calls kernels of one library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.lanes: int = library.lanes()

    def padded(self, n: int) -> int:
        return -(-n // self.lanes) * self.lanes

    def call(self, kernel: str, arrays: tuple[Any, ...], *sizes: int | float, returns: bool = False) -> list[Any]:
        """All arrays as they are afterwards. One that is given twice is one place in memory."""
        instance = Instance(kernel, tuple(array is not None for array in arrays), sizes, returns)
        rooms = {id(array): Room(array, FILLER + i) for i, array in enumerate(arrays) if array is not None}
        getattr(self.library, instance.name)(*(rooms[id(array)].address for array in arrays if array is not None))
        return [None if array is None else rooms[id(array)].after(kernel) for array in arrays]

    def of_all(self, name: str, x: np.ndarray) -> np.ndarray:
        """A function of one vector, of every number in x, whose length is one of whole vectors."""
        assert len(x) % self.lanes == 0
        y = np.empty_like(x)
        getattr(self.library, name)(y.ctypes.data_as(ctypes.c_void_p), x.ctypes.data_as(ctypes.c_void_p), len(x))
        return y


class Recorder(Kernels):
    """Notes what would be called."""

    def __init__(self) -> None:
        self.lanes = 1
        self.instances: list[Instance] = []

    def call(self, kernel: str, arrays: tuple[Any, ...], *sizes: int | float, returns: bool = False) -> list[Any]:
        self.instances.append(Instance(kernel, tuple(array is not None for array in arrays), sizes, returns))
        return list(arrays)


class Room:
    """An array between two guards."""

    def __init__(self, array: np.ndarray, filler: int) -> None:
        self.before = array
        self.guard = np.full(GUARD // 4, filler, np.uint32).tobytes()
        self.bytes = np.frombuffer(self.guard + array.tobytes() + self.guard, np.uint8).copy()

    @property
    def address(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.bytes.ctypes.data + GUARD)

    def after(self, kernel: str) -> np.ndarray:
        for guard in (self.bytes[:GUARD], self.bytes[-GUARD:]):
            assert guard.tobytes() == self.guard, f"{kernel} wrote outside an array of shape {self.before.shape}"
        return np.frombuffer(self.bytes[GUARD:-GUARD].tobytes(), self.before.dtype).reshape(self.before.shape)
