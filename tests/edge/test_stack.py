"""The bound of the stack against a painted stack in the emulator, and what has no bound."""

from pathlib import Path

import pytest

from glassformer.edge.emulator import run
from glassformer.edge.stack import bound, foreign
from glassformer.edge.targets import Target, find
from glassformer.errors import EngineError

from .boards import EMULATED, needs

SOURCE = r"""
#include <math.h>
#include <stdint.h>
#include <string.h>

#define APART __attribute__((noinline))

/* A leaf with an array, all of which it writes. */
APART float leaf(const float *x, int n) {
    volatile float kept[40];
    for (int i = 0; i < 40; i++) kept[i] = x[i % n];
    return kept[7];
}

/* Two levels: soft float, memcpy and sqrtf below. */
static APART float norm(const float *x, int n) {
    float y[24], sum = 0.0f;
    memcpy(y, x, (size_t)n * sizeof *y);
    for (int i = 0; i < n; i++) sum += y[i] * y[n - 1 - i] / (1.0f + x[i]);
    return sum < 2.0f ? sqrtf(sum + 7.0f) : sqrtf(sum);
}
APART float nested(const float *x, int n) {
    float scores[16];
    for (int i = 0; i < 16; i++) scores[i] = norm(x + i, n);
    return norm(scores, 16) + leaf(scores, 16);
}

/* Its frame, which is large, is gone when it calls. */
APART float tail(const float *x, int n) {
    volatile float kept[100];
    for (int i = 0; i < 100; i++) kept[i] = x[i % n];
    return leaf(x, kept[3] > 9.0f ? n : n - 1);
}

/* A helper of the compiler's library that calls another. */
APART float division(const float *x, int n) {
    int64_t sum = 1;
    for (int i = 0; i < n; i++) sum = ((int64_t)(x[i] * 1e6f) << 20) / (sum | 1) % 999983;
    return (float)(int32_t)sum;
}

APART float deeper(const float *x, int n) {
    float kept[30];
    for (int i = 0; i < 30; i++) kept[i] = tail(x, n - (i & 1)) + nested(x, n);
    return nested(kept, 8);
}
"""
ENTRIES = ("leaf", "nested", "tail", "division", "deeper")
CALLS = "".join(f'emulator_begin(); y = {name}(x, 12); emulator_end("{name}");\n' for name in ENTRIES)
MAIN = f"""
#include "emulator.h"
float {", ".join(f"{name}(const float *x, int n)" for name in ENTRIES)};
int main(void) {{
    float x[40];
    volatile float y;
    for (int i = 0; i < 40; i++) x[i] = 0.1f * (float)i;
    {CALLS}
    return 0;
}}
"""
M4 = find("m4")


@pytest.mark.parametrize("level", ["-Os", "-O2", "-O3"])
@pytest.mark.parametrize("target", EMULATED)
def test_bound_holds_and_is_close(target: Target, level: str, tmp_path: Path) -> None:
    source = tmp_path / "source.c"
    source.write_text(SOURCE)
    outcome = run(target, [source], MAIN, (level,))
    for entry in ENTRIES:
        measured, found = outcome.measured(entry).stack, bound(target, [source], entry, (level,))
        assert measured <= found.bytes <= 1.25 * measured, f"{entry}: {measured} bytes were used, of {found}"


UNBOUNDED = """
int recursion(int n) { return n < 2 ? n : recursion(n - 1) * recursion(n - 2); }
int array(int n) { volatile char x[n]; x[n - 1] = 1; return x[n - 1]; }
int pointer(int (*function)(int)) { return function(3) + 1; }
int tail_pointer(int (*function)(int)) { return function(3); }
int caller(int n) { return array(n) + 1; }
"""


@needs("m4")
def test_what_has_no_bound_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "unbounded.c"
    source.write_text(UNBOUNDED)
    for entry, reason in [
        ("recursion", "the stack has no bound: recursion calls recursion"),
        ("array", "array has a dynamic frame"),
        ("caller", "array has a dynamic frame"),
        ("pointer", "pointer calls through a pointer"),
        ("tail_pointer", "pointer calls through a pointer"),
        ("nowhere", "nowhere"),
    ]:
        with pytest.raises(EngineError, match=reason):
            bound(M4, [source], entry, ("-O2", "-fno-inline"))
    with pytest.raises(EngineError, match="host is none"):
        bound(find("host"), [source], "caller")


COLD = """
void __attribute__((cold, noinline)) report(volatile int *x) { volatile int kept[50]; kept[0] = x[3]; x[2] = kept[0]; }
int work(volatile int *x, int n) {
    volatile int kept[20];
    int sum = 0;
    for (int i = 0; i < n; i++) {
        kept[i % 20] = x[i];
        if (kept[0] == 99) kept[3]++, report(kept), report(x), sum += kept[2];
    }
    return sum;
}
"""


@needs("rv32")
@pytest.mark.slow
def test_what_is_set_apart_as_rare_belongs_to_its_function(tmp_path: Path) -> None:
    source = tmp_path / "cold.c"
    source.write_text(COLD)
    path = bound(find("rv32"), [source], "work", ("-O2", "-freorder-blocks-and-partition")).path
    assert [name for name, _ in path] == ["work", "report"]


def test_frames_of_library_functions_are_added_up() -> None:
    arm = ["push {r4, r5, lr}", "vpush {d8-d10}", "sub sp, #8", "subw sp, sp, #1000", "str.w ip, [sp, #-4]!"]
    back = ["add sp, #8", "pop {r4, r5, pc}", "ldr.w pc, [sp], #8", "bx lr", "sub.w ip, sp, #8", "ldr r5, [sp, #32]"]
    found = foreign("memcpy", [*arm, *back, "bl 8 <memset>", "b.n 4 <memcpy+0x4>", "bne.w 20 <memmove+0x20>"])
    assert found == (12 + 24 + 8 + 1000 + 4, ["memset", "memmove"], [], "")
    riscv = ["add sp,sp,-32", "sw ra,28(sp)", "add sp,sp,32", "jalr ra # 54 <memset>", "ret", "j 5e <memmove>"]
    assert foreign("memcpy", riscv) == (32, ["memset", "memmove"], [], "")
    for unclear in ("mov sp, r7", "sub sp, sp, r3", "ldr sp, [r0]", "blx r3", "bx r3", "ldr pc, [r3]", "jr t0"):
        assert foreign("longjmp", [unclear]).unbounded == f"of a library has {unclear!r}"
