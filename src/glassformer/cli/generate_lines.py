"""The part of glassformer generate that reads JSON lines: a prompt on each, a text for each, in the same order.

A line's settings are called as on the command line, and hold for it alone. Lines are written in batches; those of a
pipe as they arrive, so that a program may wait for each text before it sends the next prompt. What a line gives depends
on no other. A line that cannot be read gets an object with an `error` in its place, and the command ends with 1.
"""

import json
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from os import fstat
from queue import Queue
from typing import Any, BinaryIO, NamedTuple

from glassformer.errors import DataError, GlassformerError
from glassformer.generate.prompts import Prompt
from glassformer.generate.text import Row, Writing
from glassformer.names import nearest
from glassformer.predict.writer import DRAWING, Writer, written
from glassformer.reading import expanded, open_plain, parse_json

NUMBER, WHOLE = "a number", "a whole number"
EXPECTED: dict[str, tuple[tuple[type, ...], str]] = {
    "prompt": ((str,), "a text"),
    "id": ((object,), "anything"),  # is given back
    "length": ((int,), WHOLE),
    "max_tokens": ((int,), WHOLE),  # `length`, as others call it
    "seed": ((int,), WHOLE),
    "stop": ((str, list), "a text or a list of texts"),
    "temperature": ((int, float), NUMBER),
    "top_k": ((int,), WHOLE),
    "top_p": ((int, float), NUMBER),
    "min_p": ((int, float), NUMBER),
    "repetition_penalty": ((int, float), NUMBER),
    "logit_bias": ((dict,), 'biases by token: {"17": -5}'),
    "greedy": ((bool,), "true or false"),
}
SAMPLING = (*DRAWING, "repetition_penalty", "logit_bias", "greedy")
Lines = Iterator[tuple[int, bytes]]  # number, content


class Asked(NamedTuple):
    about: dict[str, Any]  # what is given back with the text: the line, its id
    text: str
    prompt: Prompt
    how: Writing


class Refused(NamedTuple):
    about: dict[str, Any]  # with the error


def write_lines(writer: Writer, name: str, how: Writing, batch: int) -> None:
    """`how` holds where a line does not say otherwise; its seed is that of the first line."""
    count, wrong = 0, []
    with nullcontext(sys.stdin.buffer) if name == "-" else open_plain(expanded(name), DataError) as file:
        for lines in batches(file, batch):
            read = [read_line(writer, name, how, *line) for line in lines]
            write_batch(writer, read)
            count += len(read)
            wrong += [one.about["error"] for one in read if isinstance(one, Refused)]
    if wrong:
        raise DataError(f"{len(wrong):,} of {count:,} lines could not be read; the first: {wrong[0]}")


def write_batch(writer: Writer, read: list[Asked | Refused]) -> None:
    """Each object is printed when it is known, and all before it are out."""
    known = {i: one.about for i, one in enumerate(read) if isinstance(one, Refused)}
    asked = {i: one for i, one in enumerate(read) if isinstance(one, Asked)}
    places = [*asked]
    out = 0

    def tell(i: int, row: Row) -> None:
        one = asked[places[i]]
        known[places[i]] = {**one.about, **written(one.text, row)._asdict()}
        flush()

    def flush() -> None:
        nonlocal out
        while out in known:
            print(json.dumps(known.pop(out)), flush=True)
            out += 1

    flush()
    writer.write([one.prompt for one in asked.values()], [one.how for one in asked.values()], on_row=tell)


def read_line(writer: Writer, name: str, how: Writing, number: int, content: bytes) -> Asked | Refused:
    about: dict[str, Any] = {"line": number}
    try:
        asked = checked(parse_json(content.decode(), f"{name}:{number}", DataError))
        about |= {"id": asked["id"]} if "id" in asked else {}
        how = own(how, number, asked)
        [prompt] = writer.read([asked["prompt"]], how.length)
        how.sampling.of_tokens(writer.tokeniser)
        return Asked(about, asked["prompt"], prompt, how)
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 text: {error}"
    except GlassformerError as error:
        problem = str(error).removeprefix(f"{name}:{number}: ")
    return Refused({**about, "error": f"{name}:{number}: {problem}"})


def checked(asked: Any) -> dict[str, Any]:
    """An object with a prompt, and of settings only those there are; null counts as not said."""
    if not isinstance(asked, dict):
        raise DataError(f'{asked!r:.60} came, expected an object: {{"prompt": "…"}}')
    asked = {key: value for key, value in asked.items() if value is not None}
    for key, value in asked.items():
        if key not in EXPECTED:
            raise DataError(f"{key!r} came{nearest(key, [*EXPECTED])}, known: {', '.join(EXPECTED)}")
        kinds, expected = EXPECTED[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
            raise DataError(f"{key} is {value!r:.60}, expected {expected}")
    if "prompt" not in asked:
        raise DataError('there is no prompt; expected {"prompt": "…"}')
    return asked


def own(how: Writing, number: int, asked: dict[str, Any]) -> Writing:
    """The settings of a line: what it says, else those of the command; of the seed, one more with each line."""
    if asked.get("greedy") and (drawn := [key for key in DRAWING if key in asked]):
        raise DataError(f"greedy takes the likeliest token; leave out {', '.join(drawn)}")
    draws = asked.keys() & set(DRAWING)
    sampling = {"greedy": how.sampling.greedy and not draws} | {key: asked[key] for key in SAMPLING if key in asked}
    stop = asked.get("stop", how.stop)
    if not isinstance(stop, str) and not all(isinstance(one, str) for one in stop):
        raise DataError(f"stop is {stop!r:.60}, expected a text or a list of texts")
    return Writing(
        length=asked.get("max_tokens", asked.get("length", how.length)),
        sampling=replace(how.sampling, **sampling),
        seed=asked.get("seed", how.seed + number - 1),
        stop=[stop] if isinstance(stop, str) else stop,
    )


def batches(file: BinaryIO, most: int) -> Iterator[list[tuple[int, bytes]]]:
    """Lines with something on them, by their numbers: of a file so many at once, of a pipe those that are there."""
    lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    take = chunks if is_plain(file) else arriving
    return take(lines, most)


def chunks(lines: Lines, most: int) -> Iterator[list[tuple[int, bytes]]]:
    while chunk := list(islice(lines, most)):
        yield chunk


def arriving(lines: Lines, most: int) -> Iterator[list[tuple[int, bytes]]]:
    """One, as soon as it is there, and with it those that already wait behind it.

    A power of two of them, so that a few compiled programs serve all.
    """
    queue: Queue[tuple[int, bytes] | None] = Queue(maxsize=most)  # bounded: who sends faster than we write has to wait

    def receive() -> None:
        for line in lines:
            queue.put(line)
        queue.put(None)

    threading.Thread(target=receive, daemon=True).start()
    waiting = [queue.get()]
    while waiting[0] is not None:
        while len(waiting) < most and waiting[-1] is not None and not queue.empty():
            waiting.append(queue.get())
        there = [line for line in waiting if line is not None]
        count = 1 << (len(there).bit_length() - 1)
        yield there[:count]
        waiting = waiting[count:] or [queue.get()]


def is_plain(file: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(fstat(file.fileno()).st_mode)
    except OSError:  # not a file of the system's
        return True
