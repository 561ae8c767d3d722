"""Programs on emulated boards: results, exit status, instructions and stack, and what is said when one goes wrong."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from glassformer.edge.emulator import program, run
from glassformer.edge.objects import compiled, forbidden, sizes, symbols
from glassformer.edge.targets import Target, available, find, missing
from glassformer.errors import EngineError, UnknownNameError

from .boards import ALL, EMULATED, needs

KERNELS = r"""
#include "kernels.h"
#if __ARM_FEATURE_MVE
#include <arm_mve.h>
#elif __ARM_FEATURE_DSP
#include <arm_acle.h>
#endif

float dot(const float *a, const float *b, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

int32_t dot_int8(const int8_t *a, const int8_t *b, int n) {
    int32_t sum = 0;
    int i = 0;
#if __ARM_FEATURE_MVE
    for (; i + 16 <= n; i += 16) sum = vmladavaq_s8(sum, vldrbq_s8(a + i), vldrbq_s8(b + i));
#elif __ARM_FEATURE_DSP
    for (; i + 4 <= n; i += 4) {
        const uint32_t x = load(a + i), y = load(b + i);
        sum = __smlad(__sxtb16(x), __sxtb16(y), sum);
        sum = __smlad(__sxtb16(x >> 8 | x << 24), __sxtb16(y >> 8 | y << 24), sum);
    }
#endif
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}
"""
HEADER = r"""
#include <stdint.h>
#include <string.h>
static inline uint32_t load(const int8_t *p) { uint32_t word; memcpy(&word, p, 4); return word; }
float dot(const float *a, const float *b, int n);
int32_t dot_int8(const int8_t *a, const int8_t *b, int n);
"""
MAIN = r"""
#include "emulator.h"
#include "kernels.h"
static float a[] = {FLOATS}, cleared[3];  /* .data and .bss */
static const int8_t b[] = {BYTES};
int main(void) {
    const float sum = dot(a, a + 1, 99);
    const int32_t sum_int8 = dot_int8(b, b + 1, 99);
    emulator_report("float", &sum, sizeof sum);
    emulator_report("int8", &sum_int8, sizeof sum_int8);
    emulator_report("cleared", cleared, sizeof cleared);
    emulator_report("float", a, 2 * sizeof *a);
    return 7;
}
"""
LOOPS = r"""
#include "emulator.h"
#define LOOP "1: " MINUS "\n nop\n nop\n " BRANCH
#if __arm__
#define MINUS "subs %0, %0, #1"
#define BRANCH "bne 1b"
#else
#define MINUS "addi %0, %0, -1"
#define BRANCH "bnez %0, 1b"
#endif
static void __attribute__((noinline)) loop(uint32_t n) { __asm__ volatile(LOOP : "+r"(n) : : "cc"); }
static void __attribute__((noinline)) array(void) {
    volatile uint8_t bytes[1000];
    for (int i = 0; i < 1000; i++) bytes[i] = (uint8_t)i;
}
int main(void) {
    emulator_begin(); emulator_end("nothing");
    emulator_begin(); loop(1000); emulator_end("thousand");
    emulator_begin(); loop(5000000); emulator_end("millions");
    emulator_begin(); array(); emulator_end("array");
    emulator_begin(); emulator_end("afterwards");
    return 0;
}
"""
M4 = find("m4")


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    (tmp_path / "kernels.h").write_text(HEADER)
    (tmp_path / "kernels.c").write_text(KERNELS)
    return tmp_path / "kernels.c"


@pytest.mark.parametrize("target", ALL)
def test_results_are_the_same_everywhere(target: Target, kernels: Path) -> None:
    rng = np.random.default_rng(0)
    floats, int8 = rng.normal(size=100).astype(np.float32), rng.integers(-128, 128, 100)
    main = MAIN.replace("FLOATS", ", ".join(f"{x:.9g}f" for x in floats))
    outcome = run(target, [kernels], main.replace("BYTES", ", ".join(map(str, int8))))
    expected = np.float32(0)
    for x, y in pairwise(floats):
        expected += x * y
    assert outcome.status == 7
    assert outcome.values("float", np.float32).tolist() == [expected, *floats[:2]]  # to the last bit
    assert outcome.values("int8", np.int32) == int8[:-1] @ int8[1:]
    assert outcome.values("cleared", np.float32).tolist() == [0, 0, 0]
    with pytest.raises(UnknownNameError, match="reported no 'logits', only float, int8, cleared"):
        outcome.values("logits", np.float32)


@pytest.mark.parametrize("target", EMULATED)
def test_instructions_and_stack_are_counted_exactly(target: Target) -> None:
    outcome = run(target, [], LOOPS)
    instructions, stack = zip(*(outcome.measured(name) for name in outcome.reports), strict=True)
    nothing, thousand, millions, array, afterwards = instructions
    assert nothing == afterwards == 0
    assert millions - thousand == pytest.approx(4 * (5_000_000 - 1000), abs=1)  # RISC-V: a large number takes two
    assert 4000 < thousand <= 4004  # the number, the call and the return
    assert array > 2000
    assert [*stack[:3], stack[4]] == [0, 0, 0, 0]
    assert 1000 <= stack[3] <= 1016  # what it saves, alignment
    assert run(target, [], LOOPS) == outcome  # time is emulated: nothing depends on this machine
    with pytest.raises(EngineError, match=r"took more instructions .* than can be counted"):
        run(replace(target, shift=10), [], LOOPS.replace("5000000", "50000000"))


@needs("m4")
@needs("m55")
@pytest.mark.slow
def test_intrinsics_take_fewer_instructions(kernels: Path) -> None:
    main = """
        #include "emulator.h"
        #include "kernels.h"
        int main(void) {
            static const int8_t x[480] = {1};
            emulator_begin();
            const int32_t sum = dot_int8(x, x, 480);
            emulator_end("dot");
            return (int)sum;
        }
    """
    plain = run(M4, [kernels], main, ("-O2", "-U__ARM_FEATURE_DSP"))
    dsp, mve = run(M4, [kernels], main), run(find("m55"), [kernels], main)
    assert plain.status == dsp.status == mve.status == 1
    counts = [outcome.measured("dot").instructions for outcome in (plain, dsp, mve)]
    assert counts[0] > 1.5 * counts[1] > 2 * counts[2], counts


def test_a_program_that_hangs_is_stopped() -> None:
    with pytest.raises(EngineError, match=r"on m4 did not end within 0.5 s"):
        run(M4, [], "int main(void) { for (;;) {} }", timeout=0.5)


@pytest.mark.parametrize("target", EMULATED)
def test_a_fault_is_an_error(target: Target) -> None:
    for fault in ("return main()", "*(volatile int *)0xF0000000 = 1", "__builtin_trap()"):
        text = f"int main(void) {{ volatile int bytes[999]; bytes[0] = 1; {fault}; return bytes[0]; }}"
        with pytest.raises(EngineError, match=f"on {target.name} faulted"):
            run(target, [], text, ("-O0",))


@needs("m4")
def test_what_the_compiler_and_the_linker_say_is_passed_on() -> None:
    with pytest.raises(EngineError, match=r"for m4 failed: .*'nowhere' undeclared"):
        run(M4, [], "int main(void) { return nowhere; }")
    with pytest.raises(EngineError, match=r"for m4 failed: .*undefined reference to `nothing'"):
        run(M4, [], "int nothing(void); int main(void) { return nothing(); }")


@needs("m4")
def test_an_edited_header_is_compiled_anew(tmp_path: Path) -> None:
    source, header = tmp_path / "source.c", tmp_path / "header.h"
    source.write_text('#include "header.h"\nint value(void) { return VALUE; }')
    for value in (3, 4):
        header.write_text(f"#define VALUE {value}")
        assert run(M4, [source], "int value(void); int main(void) { return value(); }").status == value
    assert compiled(M4, [source]) == compiled(M4, [source])  # the same file


SECTIONS = """
#include <string.h>
float sqrtf(float);
const int table[7] = {1};
static const char text[5] = "four";
int initial = 3;
int cleared[11];
float function(float *x, unsigned n) { memcpy(x + 9, x, n); return sqrtf(x[n]) + (float)(table[n] + text[initial]); }
"""


@pytest.mark.parametrize("target", ALL)
def test_sizes_and_symbols(target: Target, tmp_path: Path) -> None:
    (tmp_path / "sections.c").write_text(SECTIONS)
    (tmp_path / "other.c").write_text("extern int initial; int other(void) { return initial; }")
    objects = compiled(target, [tmp_path / "sections.c", tmp_path / "other.c"], ("-O2",))
    found = sizes(target, objects)
    assert (found.rodata, found.data, found.bss) == (28 + 5, 4, 44)
    assert found.text > 20
    assert found.flash == found.text + 37
    assert found.ram == 48
    by_name = {symbol.name: symbol for symbol in symbols(target, objects)}
    assert by_name["table"].size == 28
    assert by_name["initial"].kind in "DGS"  # defined by one, used by the other
    undefined = {name for name, symbol in by_name.items() if symbol.kind == "U"}
    helpers = {name for name in undefined if name.startswith("__")}
    assert undefined - helpers - {"_GLOBAL_OFFSET_TABLE_"} == {"memcpy", "sqrtf"}
    assert bool(helpers) == (not target.fpu)


@pytest.mark.parametrize("target", EMULATED)
def test_forbidden_symbols(target: Target, tmp_path: Path) -> None:
    allowed, others = tmp_path / "allowed.c", tmp_path / "others.c"
    allowed.write_text(SECTIONS + "long long divide(long long a, long long b) { return a / b * (a % b); }")
    others.write_text(
        "#include <stdlib.h>\n#include <math.h>\n"
        "float f(float x, double y) { return (float)((double)x + y) + *(float *)malloc(4) + expf(x); }"
    )
    assert forbidden(target, compiled(target, [allowed])) == []
    found = set(forbidden(target, compiled(target, [allowed, others])))
    assert {"malloc", "expf"} <= found
    doubles = 0 if target.name == "m55" else 3  # to double, an addition, and back; the M55 needs no help
    assert len(found) == 2 + doubles


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert missing(find("m4")).startswith("m4 needs arm-none-eabi-gcc and qemu-system-arm (apt-get install gcc-arm")
    with pytest.raises(EngineError, match=r"rv32 needs riscv64-unknown-elf-gcc .*picolibc-riscv64-unknown-elf"):
        available(find("rv32"))
    with pytest.raises(UnknownNameError, match="no target is called 'm5'; there are host, m3, m4, m7, m55, rv32"):
        find("m5")


@needs("m4")
def test_a_linked_program_holds_only_what_is_called(kernels: Path) -> None:
    main = '#include "kernels.h"\nint main(void) { static const int8_t x[4] = {1}; return (int)dot_int8(x, x, 4); }'
    names = {symbol.name for symbol in symbols(M4, [program(M4, [kernels], main)])}
    assert "main" in names
    assert "dot" not in names
