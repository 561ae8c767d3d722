"""Text files of any size to shards of tokens (token_shards.py), by several processes, going on where it was stopped.

A text file is one document, a .jsonl file one a line (its `text`); behind each stands the symbol <end>. Files are cut
into pieces of a few megabytes, after a line end that no space follows, so that byte pairs come out as those of the
whole text; a piece becomes a shard. What a folder holds is decided by the files, their sizes and the tokeniser alone.
"""

import hashlib
import json
import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.token_shards import INDEX, TOKENISER, VERSION, digest_of, sha256_of, tokeniser_of
from glassformer.data.tokeniser import Tokeniser, load_tokeniser
from glassformer.data.tokeniser_training import BytePairs, Characters
from glassformer.errors import DataError, SettingError
from glassformer.files import locked, made, write_whole
from glassformer.reading import open_plain, parse_json, read_json, size_of

PIECE = 16 << 20  # bytes of text in a shard
AT_ONCE = 1 << 18  # characters that are encoded together
SAMPLE = 64 << 20  # bytes that a new tokeniser is made from
LINE_END_OF_TEXT = re.compile(r"\n(?=[!-~])")
LINE_END = re.compile(rb"\n(?=[!-~])")  # that no space follows
SAVE_SECONDS = 5.0
BUSY = "another process is tokenising into it; wait for it, or choose another folder with --out"


class Piece(NamedTuple):
    """A part of a file: from one place to another."""

    path: Path
    start: int
    stop: int
    ends: bool  # the document is over behind it

    @property
    def is_lines(self) -> bool:
        return self.path.suffix == ".jsonl"


class Made(NamedTuple):
    number: int
    tokens: int
    unknown: int
    sha256: str


def tokenise(
    files: list[Path],
    out: Path,
    tokeniser: Tokeniser | Characters | BytePairs,
    *,
    workers: int = 1,
    progress: Callable[[int], None] = lambda bytes: None,
) -> dict[str, Any]:
    """Make the folder, or make it whole; what it holds. A tokeniser that is to be made learns from a sample."""
    pieces = list(chain.from_iterable(cut(path) for path in files))
    if not pieces:
        raise DataError("tokenise: the files are empty; expected some text")
    with made(out), locked(out, BUSY, 0):
        plan = {"version": VERSION, "pieces": [[str(p.path.absolute()), p.start, p.stop] for p in pieces]}
        before = begun(out, plan, tokeniser)
        used = before if before is not None else made_from(tokeniser, pieces)
        if used.id_of("end") is None:
            raise DataError("tokenise: the tokeniser has no symbol for the end of a text; bring one that has: <end>")
        write_whole(out / TOKENISER, used.to_json())
        plan |= {"asked": asked(tokeniser), "tokeniser": digest_of(used)}
        index = Index(out, plan, "uint16" if largest(used) < 1 << 16 else "uint32", kept(out) if before else {})
        index.save(done=False)
        for number in index.shards:
            progress(pieces[number].stop - pieces[number].start)
        missing = [number for number in range(len(pieces)) if number not in index.shards]
        jobs = [(number, pieces[number], out, index.dtype) for number in missing]
        for shard in in_processes(jobs, workers):
            index.add(shard)
            progress(pieces[shard.number].stop - pieces[shard.number].start)
        index.save(done=True)
    shards = index.shards.values()
    return {
        "out": str(out),
        "tokens": sum(shard.tokens for shard in shards),
        "unknown": sum(shard.unknown for shard in shards),
        "bytes": sum(piece.stop - piece.start for piece in pieces),
        "shards": len(shards),
        "kept": len(pieces) - len(missing),
        "symbols": used.size,
        "dtype": index.dtype,
    }


class Index:
    """tokens.json, brought up to date as shards are made."""

    def __init__(self, out: Path, plan: dict[str, Any], dtype: str, shards: dict[int, Made]) -> None:
        self.out, self.plan, self.dtype, self.shards = out, plan, dtype, shards
        self.saved = time.monotonic()

    def add(self, made: Made) -> None:
        self.shards[made.number] = made
        if time.monotonic() - self.saved > SAVE_SECONDS:
            self.save(done=False)

    def save(self, *, done: bool) -> None:
        shards = [{"name": name_of(one.number), **one._asdict()} for _, one in sorted(self.shards.items())]
        content = {**self.plan, "dtype": self.dtype, "done": done, "shards": shards}
        write_whole(self.out / INDEX, json.dumps(content, indent=1) + "\n")
        self.saved = time.monotonic()


def begun(out: Path, plan: dict[str, Any], tokeniser: Tokeniser | Characters | BytePairs) -> Tokeniser | None:
    """The tokeniser of the folder, where the same work was begun there; other work there is refused."""
    if not (out / INDEX).is_file():
        if any(path.suffix == ".npy" for path in out.iterdir()):
            raise DataError(f"{out}: it holds other files; choose another folder with --out")
        return None
    index = read_json(out / INDEX, DataError)
    same = {name: index.get(name) for name in plan} == plan if isinstance(index, dict) else False
    if not same:
        raise DataError(f"{out}: it was made from other files, or they have changed; choose another folder with --out")
    before = tokeniser_of(out, index)
    other = isinstance(tokeniser, Tokeniser) and tokeniser.to_json() != before.to_json()
    if other or asked(tokeniser) not in ("", index.get("asked", asked(tokeniser))):
        raise DataError(f"{out}: it was begun with another tokeniser; choose another folder with --out")
    return before


def asked(tokeniser: Tokeniser | Characters | BytePairs) -> str:
    """How one is to be made; nothing where it is there already."""
    return "" if isinstance(tokeniser, Tokeniser) else repr(tokeniser)


def kept(out: Path) -> dict[int, Made]:
    """The shards that are there and whole."""
    shards: dict[int, Made] = {}
    for one in read_json(out / INDEX, DataError).get("shards", []):
        path = out / name_of(one["number"])
        if path.is_file() and sha256_of(path) == one["sha256"]:
            shards[one["number"]] = Made(**{name: one[name] for name in Made._fields})
    return shards


def made_from(tokeniser: Tokeniser | Characters | BytePairs, pieces: list[Piece]) -> Tokeniser:
    """A tokeniser that is to be made learns from pieces that lie evenly in the text."""
    if isinstance(tokeniser, Tokeniser):
        return tokeniser
    count = max(1, SAMPLE // PIECE)
    sample = pieces if len(pieces) <= count else [pieces[i * len(pieces) // count] for i in range(count)]
    texts = (text for piece in sample for text, _ in documents(piece))
    return tokeniser.train(part for text in texts for part in short(text))  # of long ones it keeps 40 times their size


def largest(tokeniser: Tokeniser) -> int:
    """The largest id: of some there are more than symbols."""
    return max(tokeniser.inner.get_vocab(with_added_tokens=True).values())


def in_processes(jobs: list[tuple[int, Piece, Path, str]], workers: int) -> Iterator[Made]:
    """In any order, as they are done."""
    if workers <= 1 or len(jobs) <= 1:
        yield from map(make_shard, jobs)
        return
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the processes are the threads
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context, initializer=end_with_parent) as pool:
        try:
            yield from pool.map(make_shard, jobs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def end_with_parent() -> None:
    """A process whose parent is killed would wait for its next piece for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "only called in a process of the pool"

    def until_alone() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=until_alone, daemon=True).start()


def make_shard(job: tuple[int, Piece, Path, str]) -> Made:
    """Encode a piece and write it."""
    number, piece, out, dtype = job
    tokeniser = loaded(out / TOKENISER)
    end, unknown = tokeniser.id_of("end"), tokeniser.id_of("unknown")
    parts: list[np.ndarray] = []
    for text, over in documents(piece):
        parts += [np.array(tokeniser.encode_long(part), dtype) for part in short(text)]
        parts += [np.array([end], dtype)] * over
    tokens = np.concatenate(parts)
    content = BytesIO()
    np.save(content, tokens)
    data = content.getvalue()
    write_whole(out / name_of(number), data)
    lost = 0 if unknown is None else int((tokens == unknown).sum())
    return Made(number, len(tokens), lost, hashlib.sha256(data).hexdigest())


@cache
def loaded(path: Path) -> Tokeniser:
    """Once in each process."""
    return load_tokeniser(path)


def name_of(number: int) -> str:
    return f"{number:05}.npy"


def cut(path: Path) -> Iterator[Piece]:
    """The pieces of a file, in order."""
    with open_plain(path, DataError, "a text file in UTF-8, or .jsonl") as file:
        start, size = 0, size_of(file)
        while start < size:
            stop = size if start + PIECE >= size else line_end(file, start, start + PIECE)
            yield Piece(path, start, stop, stop == size)
            start = stop


def line_end(file: Any, start: int, stop: int) -> int:
    """The last place before `stop` that follows a line end and is no space; where there is none, any character's."""
    for back in (1 << 12, 1 << 18, PIECE):
        first = max(start, stop - back)
        file.seek(first)
        data = file.read(stop - first + 1)
        if found := [*LINE_END.finditer(data)]:
            return first + found[-1].end()
    while data[stop - first] & 0xC0 == 0x80:  # within a character of UTF-8
        stop -= 1
    return stop


def documents(piece: Piece) -> Iterator[tuple[str, bool]]:
    """The texts of a piece, and whether each is over with it."""
    with open_plain(piece.path, DataError) as file:
        file.seek(piece.start)
        data = file.read(piece.stop - piece.start)
    if len(data) < piece.stop - piece.start:
        raise DataError(f"{piece.path}: it has become shorter while it was read; tokenise it again")
    try:
        text = data.decode("utf-8-sig" if piece.start == 0 else "utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{piece.path}: not UTF-8: byte {piece.start + error.start:,} is 0x{data[error.start]:02x}; expected a "
            "text file in UTF-8: save it as such, or convert it with `iconv -f latin1 -t utf-8`"
        ) from None
    if not piece.is_lines:
        yield text, piece.ends
        return
    for line in text.splitlines():
        if line.strip():
            yield text_of(line, piece.path), True


def text_of(line: str, path: Path) -> str:
    found = parse_json(line, path, DataError)
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        raise DataError(f'{path}: the line {line[:60]!r} came; expected {{"text": "…"}} in each line')
    return found["text"]


def short(text: str) -> Iterator[str]:
    """Parts that are encoded quickly, cut as pieces are."""
    start = 0
    while start < len(text):
        stop = min(start + AT_ONCE, len(text))
        if stop < len(text) and (found := [*LINE_END_OF_TEXT.finditer(text, start, stop)]):
            stop = found[-1].end()
        yield text[start:stop]
        start = stop


def chosen_tokeniser(word: str, symbols: int) -> Tokeniser | Characters | BytePairs:
    """`characters`, `byte-pairs`, or the path of a tokenizer.json or of a folder that has one."""
    if word == "characters":
        return Characters()
    if word == "byte-pairs":
        return BytePairs(symbols)
    path = Path(word).expanduser()
    path = path / TOKENISER if path.is_dir() else path
    if not path.is_file():
        raise SettingError(
            f"--tokeniser: {word!r} came; expected characters, byte-pairs, a tokenizer.json or a folder that has one"
        )
    return load_tokeniser(path)
