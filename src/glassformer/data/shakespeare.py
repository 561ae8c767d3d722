"""tiny-shakespeare: forty thousand lines of Shakespeare in one file, as published with char-rnn and widely measured on.

The first nine tenths of the characters are for training and the rest for testing, to the character: so it is divided
where losses on it are reported.
"""

import hashlib
from pathlib import Path

from glassformer.data.download import cache_folder, download
from glassformer.data.text_file import read_text
from glassformer.data.texts import Example, Texts
from glassformer.errors import DataError

FILE = "input.txt"
SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"  # of 1,115,394 bytes


def load_shakespeare(name: str, cache: Path | None = None) -> Texts:
    path = cache_folder(cache) / name / FILE
    if path.is_file():
        check(path)
    else:
        instead = "pydoc, which comes with Python"
        path = download(name, FILE, path.parent, check, needed=[FILE], instead=instead)
    text = read_text(path)
    cut = len(text) * 9 // 10
    return Texts(name=name, train=(Example(text[:cut]),), test=(Example(text[cut:]),))


def check(path: Path) -> None:
    with path.open("rb") as file:
        came = hashlib.file_digest(file, "sha256").hexdigest()
    if came != SHA256:
        raise DataError(
            f"{path}: sha256 {came}, expected {SHA256}: not the published text; delete it to fetch it, "
            "or give its path to use it as it is"
        )


def in_cache(name: str, cache: Path | None = None) -> bool:
    return (cache_folder(cache) / name / FILE).is_file()
