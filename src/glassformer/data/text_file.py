"""Any text file by its path: UTF-8, the last tenth for testing, cut at the end of a line."""

from pathlib import Path

from glassformer.data.texts import Example, Texts
from glassformer.errors import DataError
from glassformer.memory import must_fit
from glassformer.reading import open_plain, size_of

LEAST = 100  # characters, of which ten are left for testing
IN_MEMORY = 8  # bytes that a byte of text takes: as it is, with Unix's line ends, in two parts; up to four a character


def load_text_file(name: str, path: Path) -> Texts:
    text = read_text(path)
    if len(text) < LEAST:
        raise DataError(f"{path}: {len(text)} characters are too short to learn from; expected {LEAST} or more")
    cut = last_line_end(text, len(text) * 8 // 10, len(text) * 9 // 10)
    return Texts(name=name, train=(Example(text[:cut]),), test=(Example(text[cut:]),))


def read_text(path: Path, expected: str = f"{LEAST} characters or more") -> str:
    """Line ends become those of Unix, and the mark that Windows puts first is taken away."""
    with open_plain(path, DataError, "a text file") as file:
        must_fit(IN_MEMORY * size_of(file), f"{path}: the text", "take a part of it", DataError)
        content = file.read()
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: not UTF-8: byte {error.start:,} is 0x{content[error.start]:02x}; expected a text file in UTF-8: "
            "save it as such, or convert it with `iconv -f latin1 -t utf-8`"
        ) from None
    if "\0" in text:
        raise DataError(f"{path}: not a text: character {text.index(chr(0)):,} is NUL; expected a text file in UTF-8")
    if not text.strip():
        raise DataError(f"{path}: there is no text in it; expected {expected}")
    return text


def last_line_end(text: str, start: int, end: int) -> int:
    """Where the last line that ends in text[start:end] is over; where none does, `end`: a file of endless lines."""
    return text.rfind("\n", start, end) + 1 or end
