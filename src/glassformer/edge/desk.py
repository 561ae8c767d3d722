"""The device at the desk: an exported program (exported/desk.c) is asked for its own numbers, in lines of text.

model          glassformer 1 NAME INPUTS OUTPUTS bytes|floats WEIGHTS
input HEX      attention NAME HEAD QUERY HEX …, for each query of each head; logits HEX …
label NUMBER   loss HEX; gradient NAME HEX …, for each trained weight

An answer ends with `end`, or is one line `error …`. Numbers are the bits of a float in 8 hex digits, so that not one is
lost; bytes of an input have 2.
"""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from glassformer.edge.device_link import AGAIN, Link, connected
from glassformer.errors import DeviceError, SettingError
from glassformer.lens.device import DeviceNumbers
from glassformer.lens.trace_input import TraceInput
from glassformer.names import named_leaves
from glassformer.predict.run import Run

VERSION = 1
QUIET = 0.3  # seconds: a serial port that was asked several times has then answered all
HEX = re.compile(r"[0-9a-f]{8}")


class Model(NamedTuple):
    """What a device says of itself."""

    name: str
    inputs: int
    outputs: int
    given: str  # bytes or floats
    fingerprint: str  # of the weights


def fingerprint(weights: Mapping[str, np.ndarray]) -> str:
    """Of all weights in their order, as float32."""
    number = 0
    for array in weights.values():
        number = crc32(np.ascontiguousarray(array, "<f4").tobytes(), number)
    return f"{number:08x}"


def given_as(is_bytes: bool) -> str:
    return "bytes" if is_bytes else "floats"


def device_numbers(run: Run, given: TraceInput, device: str, timeout: float) -> DeviceNumbers:
    """Ask a device for its numbers of one input: a command that speaks the protocol, or a serial port."""
    if given.kind == "text":
        raise SettingError("--device: a device has models of images and of rows of numbers; this run reads texts")
    x = np.asarray(given.x[0])
    weights = {name: np.asarray(leaf) for name, leaf in named_leaves(run.params).items()}
    with connected(device, timeout) as link:
        model = greeted(link)
        own = Model(model.name, x.size, len(run.classes), given_as(x.dtype == np.uint8), fingerprint(weights))
        must_be_same(link, model, own)
        rows: dict[str, dict[tuple[int, int], np.ndarray]] = {}
        logits = np.zeros(0, np.float32)
        for kind, words in asked(link, f"input {as_hex(x)}"):
            if kind == "attention" and len(words) > 3 and words[1].isdecimal() and words[2].isdecimal():
                rows.setdefault(words[0], {})[int(words[1]), int(words[2])] = floats(link, kind, words[3:])
            elif kind == "logits":
                logits = floats(link, kind, words)
            else:
                raise unreadable(link, kind, words)
        loss, gradients, silent = None, {}, "a regression has no label to learn from"
        if not run.gives_numbers:
            loss, gradients, silent = learned(link, int(given.labels[0]))
    return DeviceNumbers(model.name, device, logits, rows, loss, gradients, silent)


def greeted(link: Link) -> Model:
    """What a board says when it starts is passed over."""
    deadline = time.monotonic() + link.timeout
    line: str | None = None
    while line is None or not line.startswith("glassformer "):
        now = time.monotonic()
        if line is None:
            if now >= deadline:
                raise DeviceError(
                    f"{link.who}: no model answered within {link.timeout:g} s; expected a program such as the "
                    "desk.c that `glassformer export --to c` writes; a slow device may take a longer --device-timeout"
                )
            link.send("\nmodel")  # whatever half a line may stand there is ended
        line = link.line(min(deadline, now + AGAIN) if link.loses else deadline)
    while link.loses and link.line(time.monotonic() + QUIET) is not None:
        pass
    if not link.loses and link.line() != "end":
        raise unreadable(link, line, [])
    match line.split()[1:]:
        case [version, *_] if version != str(VERSION):
            raise DeviceError(f"{link.who}: version {version} of the protocol came, this release knows {VERSION}")
        case [_, name, inputs, outputs, given, weights] if inputs.isdecimal() and outputs.isdecimal():
            return Model(name, int(inputs), int(outputs), given, weights)
    raise unreadable(link, line, [])


def must_be_same(link: Link, came: Model, own: Model) -> None:
    sizes = [f"{one.inputs} {one.given} in, {one.outputs} numbers out" for one in (came, own)]
    if sizes[0] != sizes[1]:
        raise DeviceError(f"{link.who}: {came.name} is another model: {sizes[0]}; this run has {sizes[1]}")
    if came.fingerprint != own.fingerprint:
        raise DeviceError(
            f"{link.who}: {came.name} has other weights ({came.fingerprint}) than this run ({own.fingerprint}); view "
            "the run that was exported, or export this one"
        )


def asked(link: Link, question: str) -> Iterator[tuple[str, list[str]]]:
    """Lines of an answer: the first word, and the others."""
    link.send(question)
    while (line := link.line()) != "end":
        kind, *words = (line or "").split() or [""]
        if kind == "error":
            raise RefusedError(link.who, " ".join(words))
        yield kind, words


class RefusedError(DeviceError):
    """An answer `error …`."""

    def __init__(self, who: str, reason: str) -> None:
        super().__init__(f"{who}: the device refused it: {reason}")
        self.reason = reason


def learned(link: Link, label: int) -> tuple[float | None, dict[str, np.ndarray], str]:
    """Loss and gradients; of a device that does not learn, why there are none."""
    loss: float | None = None
    gradients: dict[str, np.ndarray] = {}
    try:
        for kind, words in asked(link, f"label {label}"):
            if kind == "loss" and len(words) == 1:
                loss = float(floats(link, kind, words)[0])
            elif kind == "gradient" and words:
                gradients[words[0]] = floats(link, kind, words[1:])
            else:
                raise unreadable(link, kind, words)
    except RefusedError as error:
        return None, {}, error.reason
    return loss, gradients, ""


def floats(link: Link, kind: str, words: list[str]) -> np.ndarray:
    if not all(map(HEX.fullmatch, words)):
        raise unreadable(link, kind, words)
    return np.array([int(word, 16) for word in words], np.uint32).view(np.float32)


def unreadable(link: Link, kind: str, words: list[str]) -> DeviceError:
    line = " ".join([kind, *words])
    return DeviceError(f"{link.who}: a line came that cannot be read: {line[:60]!r}{' …' if len(line) > 60 else ''}")


def as_hex(x: Any) -> str:
    if x.dtype == np.uint8:
        return x.tobytes().hex()
    return "".join(f"{bits:08x}" for bits in np.ascontiguousarray(x, np.float32).view(np.uint32).ravel())
