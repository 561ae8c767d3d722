"""Boards by name: how much memory they have, as published, and what the C would be compiled for.

RAM is the largest piece in which an arena can lie. A radio's software, an operating system and the rest of the program
take their share of both.
"""

from typing import NamedTuple

from glassformer.edge.targets import Target
from glassformer.edge.targets import find as find_target
from glassformer.errors import UnknownNameError
from glassformer.names import nearest

KB, MB = 1024, 1024 * 1024


class Board(NamedTuple):
    name: str
    part: str
    processor: str  # with what it has for floats (FPU) and for int8 (DSP, MVE)
    ram: int  # bytes
    flash: int
    source: str  # of the figures, in words
    target_name: str = ""  # of edge/targets.py; empty: there is none of this processor

    @property
    def target(self) -> Target | None:
        return find_target(self.target_name) if self.target_name else None


M0, M3 = "Cortex-M0+ without FPU or DSP", "Cortex-M3 without FPU or DSP"
M4, M7, M33 = (f"Cortex-{name} with FPU and DSP" for name in ("M4F", "M7", "M33"))
M55 = "Cortex-M55 with FPU and MVE"
BOARDS = {
    board.name: board
    for board in (
        Board(
            "esp32",
            "ESP32-WROOM-32E",
            "Xtensa LX6 with FPU",
            320 * KB,
            4 * MB,
            "ESP-IDF Programming Guide: 320 KB of the 520 KB of SRAM are DRAM; module data sheet: 4 MB of flash",
        ),
        Board(
            "esp32-s3",
            "ESP32-S3-WROOM-1-N8",
            "Xtensa LX7 with FPU",
            512 * KB,
            8 * MB,
            "ESP32-S3 data sheet: 512 KB of SRAM, shared with code and caches; module data sheet: 8 MB of flash",
        ),
        Board(
            "esp32-c3",
            "ESP32-C3-MINI-1-N4",
            "RISC-V RV32IMC without FPU",
            400 * KB,
            4 * MB,
            "ESP32-C3 data sheet: 400 KB of SRAM, 16 KB of it for the cache; module data sheet: 4 MB of flash",
        ),
        Board("stm32f1", "STM32F103C8 (Blue Pill)", M3, 20 * KB, 64 * KB, "STM32F103x8 data sheet", "m3"),
        Board("stm32f4", "STM32F411RE (Nucleo)", M4, 128 * KB, 512 * KB, "STM32F411xC/xE data sheet", "m4"),
        Board("stm32f7", "STM32F746ZG (Nucleo)", M7, 320 * KB, 1 * MB, "STM32F745xx/F746xx data sheet", "m7"),
        Board(
            "stm32h7",
            "STM32H743ZI (Nucleo)",
            M7,
            512 * KB,
            2 * MB,
            "STM32H742xI/G and H743xI/G data sheet: 1 MB of RAM in pieces, the largest of which (AXI SRAM) has 512 KB",
            "m7",
        ),
        Board(
            "rp2040",
            "Raspberry Pi Pico",
            M0,
            264 * KB,
            2 * MB,
            "RP2040 data sheet: 264 KB of SRAM; Pico data sheet: 2 MB of flash",
        ),
        Board(
            "rp2350",
            "Raspberry Pi Pico 2",
            M33,
            520 * KB,
            4 * MB,
            "RP2350 data sheet: 520 KB of SRAM; Pico 2 data sheet: 4 MB of flash",
        ),
        Board("nrf52840", "nRF52840 DK", M4, 256 * KB, 1 * MB, "nRF52840 product specification", "m4"),
        Board("arduino-nano-33-ble", "nRF52840", M4, 256 * KB, 1 * MB, "nRF52840 product specification", "m4"),
        Board("arduino-uno-r4", "RA4M1 (R7FA4M1AB)", M4, 32 * KB, 256 * KB, "RA4M1 Group data sheet", "m4"),
        Board("arduino-zero", "SAMD21G18A", M0, 32 * KB, 256 * KB, "SAM D21 family data sheet"),
        Board("microbit-v2", "nRF52833", M4, 128 * KB, 512 * KB, "nRF52833 product specification", "m4"),
        Board("samd51", "ATSAMD51J19A (Feather M4)", M4, 192 * KB, 512 * KB, "SAM D5x/E5x family data sheet", "m4"),
        Board(
            "alif-e7",
            "Alif Ensemble E7, high-performance core",
            M55,
            1 * MB,
            5632 * KB,
            "Alif Ensemble data sheet: 1 MB of DTCM of this core; 5.5 MB of MRAM",
            "m55",
        ),
    )
}


def find(name: str) -> Board:
    if name not in BOARDS:
        known = ", ".join(BOARDS)
        raise UnknownNameError(f"no board is called {name!r}{nearest(name.lower(), BOARDS)}; there are {known}")
    return BOARDS[name]
