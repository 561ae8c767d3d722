"""int8 kernels in C against their twin in NumPy, bit for bit, on every target; the twin against float."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.edge.boards import ALL, needs

from glassformer.edge import int8
from glassformer.edge.amalgamate import folder
from glassformer.edge.emulator import run, start
from glassformer.edge.objects import compiled
from glassformer.edge.targets import Target, find
from glassformer.native.write import number

C_TYPES = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "float32": "float"}
HEADERS = ("int8_attention", "int8_requantise", "int8_io")


class Case(NamedTuple):
    """A call of a kernel: what it writes into (as it is before), what it reads, and what the twin says."""

    kernel: str
    writes: tuple[np.ndarray, ...]
    reads: tuple[Any, ...]  # arrays, numbers, None
    expected: np.ndarray  # of the first one written

    def source(self, i: int) -> str:
        lines, names = [], []
        for j, one in enumerate((*self.writes, *self.reads)):
            if isinstance(one, np.ndarray):
                const = "const " if j >= len(self.writes) else ""
                numbers = ", ".join(literal(value) for value in one.ravel())
                lines.append(f"static {const}{C_TYPES[one.dtype.name]} a{i}_{j}[] = {{{numbers}}};")
                names.append(f"a{i}_{j}")
            else:
                names.append("NULL" if one is None else literal(one))
        return "\n".join([*lines, f"static void call{i}(void) {{ {self.kernel}({', '.join(names)}); }}"])


def literal(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return number(float(value))
    return f"(-{2**31 - 1} - 1)" if value == -(2**31) else str(value)


def integers(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Of all sizes, the extremes among them."""
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max, shape, endpoint=True) >> rng.integers(0, limits.bits, shape)
    extremes = rng.choice([limits.min, limits.max, 0, -1 if limits.min else 1], shape)
    return np.where(rng.random(shape) < 0.2, extremes, found).astype(dtype)


def sums(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A multiplier, and what it multiplies."""
    return integers(rng, "int32", n).clip(1, None), integers(rng, "int32", n)


def dots_cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for inputs, outputs, more in [(16, 16, 0), (1, 1, 0), (49, 5, 3), (7, 6, 1), (8, 3, 0), (33, 10, 0), (500, 2, 0)]:
        w = integers(rng, "int8", outputs, inputs + more)
        x, bias = integers(rng, "int16", inputs), integers(rng, "int32", outputs) >> 8
        for given in (None, bias):
            expected = int8.dots(w[:, :inputs], given, x)
            reads = (int8.paired(w), given, x, inputs, outputs, inputs + more)
            cases.append(Case("int8_dots", (np.zeros(outputs, np.int32),), reads, expected))
    worst = np.full((4, 500), -128, np.int8)  # the largest sums there can be
    x = np.full(500, -32768, np.int16)
    reads = (int8.paired(worst), None, x, 500, 4, 500)
    return [*cases, Case("int8_dots", (np.zeros(4, np.int32),), reads, int8.dots(worst, None, x))]


def row_cases(rng: np.random.Generator) -> list[Case]:
    n = 37
    multiplier, total = sums(rng, n)
    a, b = integers(rng, "int16", n), integers(rng, "int16", n)
    table, y = integers(rng, "int16", 256), np.zeros(n, np.int16)
    cases = [
        Case("int8_requantise", (y,), (multiplier, total, n), int8.requantise(multiplier, total)),
        Case("int8_requantise_add", (y,), (a, multiplier, total, n), int8.requantise_add(a, multiplier, total)),
        Case("int8_lookup", (y,), (table, multiplier, total, n), int8.lookup(table, multiplier, total)),
        Case("int8_relu", (y,), (a, n), int8.relu(a)),
        Case("int8_add", (y,), (a, b, n), int8.add(a, b)),
        Case("int8_copy", (y,), (a, n), a),
        Case("int8_pool", (total >> 8,), (a, 1, n), (total >> 8) + 4 * a.astype(np.int32)),
        Case("int8_pool", (total,), (a, 0, n), int8.pool(a[None])),
    ]
    T, H, D = 3, 2, 5
    multiplier, total = sums(rng, H * D)
    found = int8.keys(multiplier, total)
    for t in range(T):
        k = np.zeros((T + 1, H * D), np.int8)
        k[t] = found
        reads = (multiplier, total, t, H * D)
        cases.append(Case("int8_keys", (np.zeros(k.size, np.int8),), reads, int8.paired(k)))
        v = np.zeros((H, D, T), np.int8)
        v[..., t] = found.reshape(H, D)
        paired = np.concatenate([int8.paired(head) for head in v])
        cases.append(Case("int8_values", (np.zeros(paired.size, np.int8),), (multiplier, total, t, T, H, D), paired))
    return cases


def norm_cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for width, bits, eps in [(16, 16, 44333), (16, 4, 1), (1, 16, 7), (5, 10, 10**12), (64, 16, 1), (96, 12, 2**60)]:
        x = integers(rng, "int16", width) >> (16 - bits)
        for row in (x, np.zeros_like(x), np.full_like(x, -32768), np.where(np.arange(width) == 0, 32767, -32768)):
            row = row.astype(np.int16)
            gain, bias = integers(rng, "int32", width), integers(rng, "int32", width) >> 12
            reads = (gain, bias, row, width, eps)
            cases.append(Case("int8_norm", (np.zeros(width, np.int16),), reads, int8.norm(gain, bias, row, eps)))
    return cases


def attention_cases(rng: np.random.Generator) -> list[Case]:
    cases = []
    for T, H, D, shift in [(49, 1, 16, 19), (7, 3, 5, 12), (1, 2, 4, 7), (512, 1, 3, 20), (10, 2, 8, 24)]:
        q, k, v = (integers(rng, kind, T, H * D) for kind in ("int16", "int8", "int8"))
        multiplier = sums(rng, H * D)[0] >> 2
        expected = int8.attend(multiplier, q, k, v, H, shift)
        values = np.concatenate([int8.paired(head) for head in v.T.reshape(H, D, T)])
        for t in {0, T - 1}:
            work = (np.zeros(H * D, np.int16), np.zeros(max(T, D), np.int32), np.zeros(T, np.int16))
            reads = (multiplier, q[t], int8.paired(k), values, T, H, D, shift)
            cases.append(Case("int8_attend", work, reads, expected[t]))
    return cases


def io_cases(rng: np.random.Generator) -> list[Case]:
    image, floats = integers(rng, "uint8", 6, 9, 2), rng.normal(0, 10, 40).astype(np.float32)
    floats[:8] = [0.0, -0.0, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.5]
    n = len(floats)
    rows = int8.patch(image, 3)
    total, scale = integers(rng, "int32", n), rng.random(n).astype(np.float32)
    a, y, z = integers(rng, "int16", n), np.zeros(n, np.int16), np.zeros(n, np.float32)
    cases = [
        Case("int8_bytes", (np.zeros(image.size, np.int16),), (image, image.size), int8.bytes(image).ravel()),
        Case("int8_dequantise", (z,), (a, n, 0.0123), int8.dequantise(a, 0.0123)),
        Case("int8_dequantise_sums", (z,), (scale, total, n), int8.dequantise_sums(scale, total)),
    ]
    cases += [Case("int8_quantise", (y,), (floats, n, f), int8.quantise(floats, f)) for f in (1.0, 3210.7)]
    cases += [Case("int8_patch", (np.zeros(18, np.int16),), (image, t, 9, 2, 3), row) for t, row in enumerate(rows)]
    return cases


@cache
def all_cases() -> tuple[Case, ...]:
    rng = np.random.default_rng(8)
    groups = (dots_cases, row_cases, norm_cases, attention_cases, io_cases)
    return tuple(case for group in groups for case in group(rng))


def program() -> str:
    cases = all_cases()
    sources = "\n".join(case.source(i) for i, case in enumerate(cases))
    calls = "\n".join(
        f'    call{i}(); emulator_report("case{i}", a{i}_0, sizeof a{i}_0);' for i, case in enumerate(cases)
    )
    includes = "\n".join(f'#include "{header}.h"' for header in ("emulator", *HEADERS))
    main = f"int main(void)\n{{\n{calls}\n    return 0;\n}}\n"
    return "\n".join([includes, "#include <math.h>", "#include <stddef.h>", sources, main])


@pytest.mark.parametrize("optimised", ["-O2", pytest.param("-O3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", ALL)
def test_kernels_and_twin_agree_to_the_bit(target: Target, optimised: str) -> None:
    outcome = run(target, [], program(), (optimised, f"-I{folder()}"), timeout=60)
    for i, case in enumerate(all_cases()):
        found = outcome.values(f"case{i}", case.writes[0].dtype.type)
        assert np.array_equal(found, case.expected, equal_nan=False), f"{case.kernel}, case {i}"


@needs("host")
def test_nothing_is_undefined() -> None:
    """Least and largest numbers are among the cases: nothing overflows, nothing outside of an array is touched."""
    sanitizers = ("-fsanitize=undefined,address", "-fno-sanitize-recover=all")
    strict = replace(find("host"), name="host with sanitizers", flags=sanitizers)
    assert run(strict, [], program(), ("-O1", f"-I{folder()}"), timeout=60).status == 0


@pytest.mark.parametrize("compiler", ["gcc", "clang", "arm-none-eabi-gcc"])
def test_kernels_compile_without_a_warning(compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    target = find("m4") if compiler.startswith("arm") else replace(find("host"), name=compiler, compiler=compiler)
    file = tmp_path / "kernels.c"
    file.write_text(program())
    strict = ("-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Werror")
    assert compiled(target, [file], ("-O2", *strict, f"-I{folder()}", f"-I{start()}"))


def test_inverse_root_is_one_over_the_root() -> None:
    n = np.concatenate([np.arange(1, 5000), 2 ** np.arange(63), 3 ** np.arange(39), [2**62 - 1]]).astype(np.int64)
    n = n[n <= 2**62]
    root = int8.inverse_root(n)
    exact = 1 / np.sqrt(n.astype(np.float64))
    assert np.abs(root.mantissa / 2.0 ** (46 + root.half) / exact - 1).max() < 1e-7
    assert root.mantissa.min() >= 2**30 - 2**10
    assert root.mantissa.max() < 2**31


def test_norm_is_layer_norm() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9000, 9000, (50, 16)).astype(np.int16)
    gain, bias, scale, size, eps = rng.normal(size=16), rng.normal(size=16), 3e-4, 2e-4, 1e-5
    factors, terms = (np.round(one).astype(np.int64) for one in (gain / size * 65536, bias / size))
    found = int8.norm(factors, terms, x, round(eps * (16 / scale) ** 2))
    exact = x * scale
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + eps) * gain + bias
    assert np.abs(found * size - exact).max() < 2.5 * size


def test_attention_is_softmax() -> None:
    rng = np.random.default_rng(1)
    T, C, H, shift = 20, 12, 3, 16
    q, k, v = rng.integers(-3000, 3000, (T, C)), rng.integers(-127, 128, (T, C)), rng.integers(-127, 128, (T, C))
    found = int8.attend(np.full(C, 100 << 20), q.astype(np.int16), k.astype(np.int8), v.astype(np.int8), H, shift)
    by_head = [one.reshape(T, H, -1).swapaxes(0, 1) for one in (q, k, v)]
    powers = np.exp2(by_head[0] @ by_head[1].swapaxes(1, 2) / 2.0**shift)
    exact = powers / powers.sum(-1, keepdims=True) @ by_head[2]
    assert np.abs(found / 100 - exact.swapaxes(0, 1).reshape(T, C)).max() < 0.5  # of 127
