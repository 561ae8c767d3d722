"""What the C is compiled for and run on: this machine, and boards that QEMU emulates.

Instructions are counted by emulated time: under `-icount shift=s` each one takes 2^s ns, and start/emulator.c reads a
clock of the board before and after. An emulator counts instructions; of cycles, wait states of the flash and
milliseconds it knows nothing.
"""

import shutil
from dataclasses import dataclass
from typing import Literal

from glassformer.errors import EngineError, UnknownNameError

# CMSDK_TIMER: 32 bits at 25 MHz. SSE_COUNTER: low 32 bits at 32 MHz. INSTRET: RISC-V's own register, in emulated ns.
Counter = Literal["NONE", "CMSDK_TIMER", "SSE_COUNTER", "INSTRET"]


@dataclass(frozen=True)
class Target:
    """A processor: how C is compiled for it, and the machine in which QEMU emulates it."""

    name: str
    processor: str  # in words
    compiler: str
    flags: tuple[str, ...] = ()
    qemu: str = ""  # the emulator's program; empty: programs run here
    machine: tuple[str, ...] = ()
    fpu: bool = True  # without one, floats are calls of the compiler's library
    counter: Counter = "NONE"
    shift: int = 0  # an instruction takes 2^shift ns of emulated time
    memory: tuple[int, int] = (0, 0)  # where code begins, and where data

    def tool(self, name: str) -> str:
        """nm, size or objdump of the same family as the compiler."""
        return self.compiler.removesuffix("gcc") + name


ARM, RISCV = "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc"
CORTEX_M = (0x00000000, 0x20000000)
# 128 ns are three ticks of the slower clock: rounded, the count is exact.
TARGETS = {
    target.name: target
    for target in (
        Target("host", "this machine", "gcc"),
        Target(
            "m3",
            "Cortex-M3",
            ARM,
            ("-mthumb", "-mcpu=cortex-m3", "-mfloat-abi=soft"),
            "qemu-system-arm",
            ("-M", "mps2-an385"),
            fpu=False,
            counter="CMSDK_TIMER",
            shift=7,
            memory=CORTEX_M,
        ),
        Target(
            "m4",
            "Cortex-M4F",
            ARM,
            ("-mthumb", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"),
            "qemu-system-arm",
            ("-M", "mps2-an386"),
            counter="CMSDK_TIMER",
            shift=7,
            memory=CORTEX_M,
        ),
        Target(
            "m7",
            "Cortex-M7",
            ARM,
            ("-mthumb", "-mcpu=cortex-m7", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard"),
            "qemu-system-arm",
            ("-M", "mps2-an500"),
            counter="CMSDK_TIMER",
            shift=7,
            memory=CORTEX_M,
        ),
        Target(
            "m55",
            "Cortex-M55 with MVE",
            ARM,
            ("-mthumb", "-mcpu=cortex-m55", "-mfloat-abi=hard"),
            "qemu-system-arm",
            ("-M", "mps3-an547"),
            counter="SSE_COUNTER",
            shift=7,
            memory=CORTEX_M,
        ),
        Target(
            "rv32",
            "RISC-V RV32IMAFC",
            RISCV,
            ("-march=rv32imafc", "-mabi=ilp32f", "--specs=picolibc.specs"),
            "qemu-system-riscv32",
            ("-M", "virt", "-bios", "none"),
            counter="INSTRET",
            memory=(0x80000000, 0x80800000),
        ),
    )
}
PACKAGES = {  # Debian's
    ARM: "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    RISCV: "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
}


def find(name: str) -> Target:
    if name not in TARGETS:
        raise UnknownNameError(f"no target is called {name!r}; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def missing(target: Target, *, to_run: bool = True) -> str:
    """What this machine lacks to compile for the target, and to run it, and where it is had; empty: nothing."""
    needed = (target.compiler, target.qemu if to_run else "")
    lacks = [program for program in needed if program and not shutil.which(program)]
    packages = " ".join(PACKAGES.get(program, program) for program in lacks)
    return f"{target.name} needs {' and '.join(lacks)} (apt-get install {packages})" if lacks else ""


def available(target: Target, *, to_run: bool = True) -> None:
    """Refuse a target whose compiler or emulator is not installed."""
    if lacks := missing(target, to_run=to_run):
        raise EngineError(lacks)
