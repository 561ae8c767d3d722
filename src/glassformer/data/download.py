"""Files from the network: mirrors in order, a check before anything gets its name, one cache folder."""

import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from glassformer.errors import DataError, FileError
from glassformer.reading import expanded

if TYPE_CHECKING:
    from requests import RequestException

MIRRORS = {  # tried in this order; a file's name is appended
    "mnist": (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    "fashion-mnist": (
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
    ),
    "cifar-10": ("https://www.cs.toronto.edu/~kriz/",),
    "tiny-shakespeare": (
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
        "https://cdn.jsdelivr.net/gh/karpathy/char-rnn@master/data/tinyshakespeare/",
    ),
}
TIMEOUT = 10  # seconds without a sign of life, after which the next mirror is tried
CHUNK = 1 << 16  # bytes
MOST = 1 << 30  # bytes of one file: the largest has 170 MB, and a mirror may send without an end
VARIABLE = "GLASSFORMER_DATA"

Check = Callable[[Path], object]  # raises DataError where a file is not what it should be


def cache_folder(cache: Path | None = None) -> Path:
    """Where data sets are kept: `cache`, else $GLASSFORMER_DATA, else the system's place for caches."""
    import pooch

    chosen = cache or os.environ.get(VARIABLE)
    folder = expanded(str(chosen or pooch.os_cache("glassformer")))
    if folder.parts[0].startswith("~"):
        raise DataError(f"there is no home folder (HOME) to keep data sets in; name a folder in {VARIABLE}")
    return folder


def download(
    name: str,
    file: str,
    folder: Path,
    check: Check,
    *,
    needed: list[str],
    instead: str = "mnist-mini, which is bundled",
) -> Path:
    """`file` of the data set `name`, in `folder`, from the first mirror whose file passes the check.

    Where all fail, the message says so for each, names the files `needed` in the folder, and what to use `instead`.
    """
    failures = []
    for mirror in MIRRORS[name]:
        try:
            return fetch_whole(mirror + file, folder / file, check)
        except DataError as error:
            failures.append(f"  {mirror}{file}: {error}")
        except OSError as error:
            raise FileError(
                f"{folder / file}: cannot be written: {error.strerror or error}; "
                f"free some space, or name another folder in {VARIABLE}"
            ) from None
    raise DataError(
        "\n".join(
            [
                f"{name}: {file} could not be fetched:",
                *failures,
                f"Without a network, put {', '.join(needed)} into {folder}",
                f"or use {instead}",
            ]
        )
    )


def fetch_whole(url: str, target: Path, check: Check) -> Path:
    """Written beside the target, checked, flushed to disk, then renamed: a file with the right name is a whole one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("wb") as file:
            fetch(url, Bounded(file))
            os.fsync(file.fileno())
        try:
            check(part)
        except DataError as error:
            what, _, _ = str(error).removeprefix(f"{part}: ").partition("; ")  # the advice is for files that stay
            raise DataError(what) from None
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


class Bounded:
    """A file that takes no more than MOST bytes; what pooch asks of one."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, chunk: bytes) -> None:
        if self.file.tell() + len(chunk) > MOST:
            raise DataError(f"more than {MOST >> 20} MiB came; not the published file")
        self.file.write(chunk)

    def flush(self) -> None:
        self.file.flush()


def fetch(url: str, file: Bounded) -> None:
    import pooch
    from requests import RequestException

    bar: Any = Bar(url.rpartition("/")[2]) if sys.stderr.isatty() else False
    downloader = pooch.HTTPDownloader(
        progressbar=bar,
        chunk_size=CHUNK,
        timeout=TIMEOUT,
        headers={"Accept-Encoding": "identity"},  # the bytes as they are stored: they will be checked
    )
    try:
        downloader(url, file, None)  # pyright: ignore[reportArgumentType]
    except RequestException as error:
        if bar:
            bar.close()
        raise DataError(reason(error)) from None


def reason(error: "RequestException") -> str:
    """In a few words; the library's own message is a paragraph."""
    from requests import ConnectionError, HTTPError, Timeout
    from requests.exceptions import ChunkedEncodingError

    if isinstance(error, HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    if isinstance(error, Timeout):
        return f"no answer in {TIMEOUT} s"
    if isinstance(error, ChunkedEncodingError):
        return "the connection broke"
    return "no connection" if isinstance(error, ConnectionError) else f"{type(error).__name__}: {error}"


class Bar:
    """What pooch asks of a progress bar, as one line on stderr."""

    def __init__(self, label: str) -> None:
        self.label, self.total, self.done = label, 0, 0

    def update(self, count: int) -> None:
        self.done = min(self.done + count, self.total or self.done + count)  # pooch counts whole chunks
        total = f" of {self.total / 1e6:.1f}" if self.total else ""
        print(f"\r{self.label}: {self.done / 1e6:.1f}{total} MB", end="", file=sys.stderr, flush=True)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        if self.done:
            print(file=sys.stderr)
