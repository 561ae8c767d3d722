"""What a request may ask: nothing that comes from outside is used before its type and size are known.

{"runs": ["vit-nano-1"], "input": …}                       {"run": "vit-nano-1", "input": …}, where input is one of

{"image": base64 of uint8 pixels, "label": 7 or null}      {"picture": base64 of a file}
{"text": "…", "target": "…" or null}                       {"sample": 17}
"""

import base64
import binascii
import json
import re
from typing import Any, NamedTuple

from glassformer.lens.studio.http_errors import HTTPError

LONGEST_TEXT = 100_000  # characters
LONGEST_NAME = 600  # characters of the name of a run
LARGEST_NUMBER = 1 << 40
MOST_AROUND = 1000  # bytes of a request that are not in strings; the longest we send has 60
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # it never goes back: one that does not end is one too


class Pixels(NamedTuple):
    content: bytes
    label: int | None


class PictureFile(NamedTuple):
    content: bytes


class Words(NamedTuple):
    text: str
    target: str | None


class SampleNumber(NamedTuple):
    number: int


Input = Pixels | PictureFile | Words | SampleNumber


def read_object(body: bytes, *keys: str, most_around: int = MOST_AROUND) -> dict[str, Any]:
    """One JSON object of these keys; NaN and infinity, which JSON does not know, are refused.

    Eight megabytes of brackets become 250 in Python: before anything is parsed, all but the strings is counted.
    """
    around = end = 0
    for string in STRING.finditer(body):
        around, end = around + string.start() - end, string.end()
        if around > most_around:
            break
    if max(around, around + len(body) - end) > most_around:
        raise HTTPError(
            400, f"the request is not one of ours (nested too deeply, or no JSON); expected {', '.join(keys)}"
        )
    try:
        plain = json.loads(body.decode("utf-8"), parse_constant=no_constant)
    except (ValueError, RecursionError):  # among them bytes that are no UTF-8, and numbers of thousands of digits
        raise HTTPError(400, "the request is not JSON (or nested too deeply); send one JSON object") from None
    if not isinstance(plain, dict):
        raise HTTPError(400, f"{kind_of(plain)} came, expected a JSON object")
    for key in plain:
        if key not in keys:
            raise HTTPError(400, f"{key[:40]!r} came, expected {', '.join(keys)}")
    return plain


def no_constant(word: str) -> Any:
    raise ValueError(word)


def run_name(plain: Any) -> str:
    if not isinstance(plain, str) or not 0 < len(plain) <= LONGEST_NAME:
        raise HTTPError(400, f"run: {kind_of(plain)} came, expected the name of a run as /api/runs lists it")
    return plain


def run_names(plain: Any) -> list[str]:
    if not isinstance(plain, list) or len(plain) not in (1, 2):
        raise HTTPError(400, f"runs: {kind_of(plain)} came, expected a list of one or two names of runs")
    return [run_name(one) for one in plain]


def number_in(text: str | None) -> int:
    """A whole number in the address."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise HTTPError(400, "index: expected the number of a test sample: index=17")
    return int(text)


def read_input(plain: Any) -> Input:
    if not isinstance(plain, dict):
        raise HTTPError(400, f"input: {kind_of(plain)} came, expected an object: image, picture, text or sample")
    for name, (reader, beside) in READERS.items():
        if name in plain:
            unknown = [key for key in plain if key not in (name, beside)]
            if unknown:
                raise HTTPError(400, f"input: {unknown[0][:40]!r} came beside {name!r}, which does not take it")
            return reader(plain)
    raise HTTPError(400, f"input: expected one of {', '.join(READERS)}")


def read_pixels(plain: dict[str, Any]) -> Pixels:
    label = plain.get("label")
    return Pixels(decoded("image", plain["image"]), None if label is None else whole("label", label))


def read_picture(plain: dict[str, Any]) -> PictureFile:
    return PictureFile(decoded("picture", plain["picture"]))


def read_words(plain: dict[str, Any]) -> Words:
    target = plain.get("target")
    return Words(text_of("text", plain["text"]), None if target is None else text_of("target", target))


def read_sample(plain: dict[str, Any]) -> SampleNumber:
    return SampleNumber(whole("sample", plain["sample"]))


READERS: dict[str, tuple[Any, str]] = {
    "image": (read_pixels, "label"),
    "picture": (read_picture, ""),
    "text": (read_words, "target"),
    "sample": (read_sample, ""),
}


def decoded(name: str, plain: Any) -> bytes:
    if not isinstance(plain, str):
        raise HTTPError(400, f"{name}: {kind_of(plain)} came, expected base64 in a string")
    try:
        return base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        raise HTTPError(400, f"{name}: not base64; send the bytes in base64, with its padding") from None


def text_of(name: str, plain: Any) -> str:
    if not isinstance(plain, str):
        raise HTTPError(400, f"{name}: {kind_of(plain)} came, expected a string")
    if len(plain) > LONGEST_TEXT:
        raise HTTPError(400, f"{name}: {len(plain):,} characters came, at most {LONGEST_TEXT:,} are taken")
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise HTTPError(400, f"{name}: holds half a character (a lone surrogate), expected whole ones") from None
    return plain


def whole(name: str, plain: Any) -> int:
    if not isinstance(plain, int) or isinstance(plain, bool) or not 0 <= plain < LARGEST_NUMBER:
        raise HTTPError(400, f"{name}: {kind_of(plain)} came, expected a whole number, 0 or more")
    return plain


def kind_of(plain: Any) -> str:
    """In words, and short: what came may be megabytes."""
    if plain is None or isinstance(plain, bool):
        return json.dumps(plain)
    if isinstance(plain, int | float):
        return "a number"
    if isinstance(plain, str):
        return "a string" if plain else "an empty string"
    return f"a list of {len(plain)}" if isinstance(plain, list) else "an object"
