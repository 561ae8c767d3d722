"""Files that are damaged, or made to do damage: bytes, numbers, nesting, types, and pieces of other files."""

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
WORD = re.compile(rb'"[^"\n]*"|\b[a-z_]{2,}\b')
NUMBERS = (
    *(b"0", b"-1", b"1", b"2147483648", b"9223372036854775807", b"18446744073709551616", b"1" + b"0" * 400),
    *(b"-9223372036854775809", b"1e999", b"-1e999", b"1e-400", b"nan", b"inf", b"NaN", b"Infinity", b"0.5", b"1e30"),
    *(b"true", b'"1"', b"[]", b"{}", b"null", b'""', b"1" * 5000),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1 << 31, 1 << 63, -(1 << 63), 10**30, 0.5, -0.0, 1e300, float("nan"), float("inf")),
    *("", "x", "\0", "ü😀", "\ud800", "a" * 5000, "../../x", "/dev/zero", [], [[]], {}, {"": {}}, [0] * 1000, [None]),
)
OPENINGS = (b"[", b"{", b'{"a":', b"[[", b"(", b'"', b"a = [", b"[a.", b"a.")
BYTES = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\x1f\x8b", b"\x80", b'"', b",", b"=", b"\xed\xa0\x80")
LARGEST = 1 << 20  # of what comes out

Mutation = Callable[[Random, bytes], bytes]


def place(draw: Random, data: bytes) -> int:
    return draw.randrange(len(data) + 1)


def block(draw: Random, data: bytes) -> tuple[int, int]:
    start = place(draw, data)
    return start, min(len(data), start + int(2 ** draw.uniform(0, 10)))


def truncated(draw: Random, data: bytes) -> bytes:
    return data[: place(draw, data)]


def flipped(draw: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8)) if data else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def overwritten(draw: Random, data: bytes) -> bytes:
    start, _ = block(draw, data)
    word = draw.choice((b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 8)) * draw.choice((1, 1, 4))
    return data[:start] + word + data[start + len(word) :]


def inserted(draw: Random, data: bytes) -> bytes:
    at = place(draw, data)
    piece = draw.choice(BYTES) if draw.random() < 0.5 else draw.randbytes(draw.randrange(1, 9))
    return data[:at] + piece * draw.choice((1, 1, 1, 50)) + data[at:]


def removed(draw: Random, data: bytes) -> bytes:
    start, end = block(draw, data)
    return data[:start] + data[end:]


def duplicated(draw: Random, data: bytes) -> bytes:
    start, end = block(draw, data)
    at, times = place(draw, data), draw.choice((1, 1, 2, 100))
    return data[:at] + data[start:end] * times + data[at:]


def renumbered(draw: Random, data: bytes) -> bytes:
    found = [*NUMBER.finditer(data)]
    if not found:
        return overwritten(draw, data)
    one = draw.choice(found)
    return data[: one.start()] + draw.choice(NUMBERS) + data[one.end() :]


def reworded(draw: Random, data: bytes) -> bytes:
    """A word in the place of another, or of nothing that is one."""
    found = [*WORD.finditer(data)]
    if not found:
        return inserted(draw, data)
    one, other = draw.choice(found), draw.choice(found)
    word = draw.choice((other.group(), other.group(), draw.choice(NUMBERS), b'""', b"x"))
    return data[: one.start()] + word + data[one.end() :]


def nested(draw: Random, data: bytes) -> bytes:
    at, opening, depth = place(draw, data), draw.choice(OPENINGS), draw.choice((3, 70, 1000, 20_000))
    closing = {b"[": b"]", b"{": b"}", b'{"a":': b"}", b"[[": b"]]"}.get(opening, b"")
    return data[:at] + opening * depth + b"1" + closing * draw.choice((0, depth)) + data[at:]


ANY: tuple[Mutation, ...] = (truncated, flipped, overwritten, inserted, removed, duplicated)
TEXT: tuple[Mutation, ...] = (*ANY, renumbered, renumbered, renumbered, reworded, reworded, nested)


def in_json(draw: Random, data: bytes) -> bytes:
    """Another value, of whatever type, in some place; or a key more, or one less."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return renumbered(draw, data)
    inside: list[tuple[Any, Any]] = []
    waiting = [content]
    while waiting and len(inside) < 5000:
        outer = waiting.pop()
        if isinstance(outer, dict | list):
            inside += [(outer, key) for key in (outer if isinstance(outer, dict) else range(len(outer)))]
            waiting += outer.values() if isinstance(outer, dict) else outer
    if not inside:
        return json.dumps(draw.choice(VALUES)).encode()
    outer, key = draw.choice(inside)
    match draw.randrange(5):
        case 0:
            del outer[key]
        case 1:
            other, its = draw.choice(inside)
            outer[key] = other[its] if isinstance(other, list) or its in other else None
        case 2 if isinstance(outer[key], int | float):
            outer[key] = outer[key] * draw.choice((-1, 0, 2, 1 << 20, 1 << 40, 1.5 if abs(outer[key]) < 1e300 else 3))
        case _:
            outer[key] = draw.choice(VALUES)
    try:
        return json.dumps(content).encode()
    except (ValueError, RecursionError):  # it has become a part of itself
        return data


def in_safetensors(draw: Random, data: bytes) -> bytes:
    """Its header, with a length that is right."""
    (length,) = struct.unpack("<Q", data[:8].ljust(8, b"\0"))
    head = draw.choice((in_json, in_json, renumbered, reworded, nested))(draw, data[8 : 8 + length])
    return struct.pack("<Q", len(head)) + head + data[8 + length :]


def in_gzip(draw: Random, data: bytes) -> bytes:
    try:
        inner = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return flipped(draw, data)
    return gzip.compress(draw.choice(ANY)(draw, inner), 1)


def in_zip(draw: Random, data: bytes) -> bytes:
    """One of its members, packed again."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {one.filename: archive.read(one) for one in archive.infolist()}
    except Exception:  # it is damaged already
        return flipped(draw, data)
    if not members:
        return data
    name = draw.choice([*members])
    if draw.random() < 0.2:
        members[draw.choice(("x", "x_train.npy", "test_labels.npy", name[::-1]))] = members.pop(name)
    else:
        head, rest = members[name][:128], members[name][128:]
        members[name] = draw.choice((renumbered, reworded, overwritten, flipped, inserted))(draw, head) + rest
    packed = io.BytesIO()
    how = draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(packed, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def in_png(draw: Random, data: bytes) -> bytes:
    """One of its chunks, with a checksum that is right."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    if not chunks or data[:4] != b"\x89PNG":
        return flipped(draw, data)
    chosen = draw.randrange(len(chunks))
    kind, content = chunks[chosen]
    chunks[chosen] = kind, draw.choice(ANY)(draw, content)
    packed = b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return data[:8] + packed


def mutated(draw: Random, seeds: tuple[bytes, ...], ways: tuple[Mutation, ...]) -> bytes:
    """One of the seeds, changed once or several times; now and then with the end of another."""
    data = draw.choice(seeds)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 5))):
        data = draw.choice(ways)(draw, data)[:LARGEST]
    if draw.random() < 0.03:
        other = draw.choice(seeds)
        data = data[: place(draw, data)] + other[place(draw, other) :]
    return data
