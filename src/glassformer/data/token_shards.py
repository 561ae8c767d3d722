"""Tokens in files: one long stream, cut into shards that are read where they lie and never held in memory whole.

tokens.json      the type of the tokens; of every shard its name, how many tokens it has, and its checksum; of the
                 tokeniser its checksum
tokenizer.json   what they were made with
00000.npy, …     uint16, or uint32 where there are more than 65,536 symbols

Made by `glassformer data tokenise` (tokenise.py). A shard is checked when it is first read.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from glassformer.data.tokeniser import Tokeniser, load_tokeniser
from glassformer.errors import DataError
from glassformer.reading import read_json

INDEX, TOKENISER, VERSION = "tokens.json", "tokenizer.json", 1
AGAIN = "make it again: `glassformer data tokenise` goes on where files are missing"


class Shard(NamedTuple):
    name: str
    tokens: int
    sha256: str


@dataclass(frozen=True, eq=False)
class TokenStream:
    """Tokens `start` to `stop` (not included) of a folder of shards. A slice of it is one, too."""

    folder: Path
    dtype: str
    shards: tuple[Shard, ...]
    start: int
    stop: int
    opened: dict[int, np.ndarray] = field(default_factory=dict, repr=False)  # by the number of the shard

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, part: slice) -> "TokenStream":
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise DataError(f"tokens: a step of {step} came; a part of a stream is in one piece")
        return replace(self, start=self.start + start, stop=self.start + max(start, stop))

    def read(self, start: int, count: int) -> np.ndarray:
        """Some tokens that follow each other, int32."""
        if not 0 <= start <= start + count <= len(self):
            raise DataError(f"tokens: {start:,} to {start + count:,} came, and there are {len(self):,}")
        return np.concatenate([*self.pieces(self.start + start, count), np.zeros(0, np.int32)]).astype(np.int32)

    def crops(self, starts: np.ndarray, length: int) -> np.ndarray:
        """A window of `length` tokens from each start, int32 (B, length)."""
        return np.stack([self.read(int(start), length) for start in starts])

    def pieces(self, start: int, count: int) -> Iterator[np.ndarray]:
        """Of each shard what lies between two places of the whole folder."""
        number = int(np.searchsorted(self.ends, start, side="right"))
        while count > 0:
            first = start - (int(self.ends[number - 1]) if number else 0)
            found = self.shard(number)[first : first + count]
            yield found
            start, count, number = start + len(found), count - len(found), number + 1

    def shard(self, number: int) -> np.ndarray:
        if number not in self.opened:
            self.opened[number] = open_shard(self.folder / self.shards[number].name, self.shards[number], self.dtype)
        return self.opened[number]

    def digest(self) -> str:
        """Other tokens, or another part of them, have another."""
        said = [self.dtype, self.start, self.stop, *(shard.sha256 for shard in self.shards)]
        return hashlib.sha256(repr(said).encode()).hexdigest()

    @cached_property
    def ends(self) -> np.ndarray:
        return np.cumsum([shard.tokens for shard in self.shards])


def open_tokens(folder: Path) -> tuple[TokenStream, Tokeniser]:
    """All tokens of a folder, and what they were made with."""
    index = read_json(folder / INDEX, DataError)
    try:
        version, dtype, done = index["version"], index["dtype"], index["done"]
        shards = tuple(Shard(str(one["name"]), int(one["tokens"]), str(one["sha256"])) for one in index["shards"])
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{folder / INDEX}: not a list of shards; {AGAIN}") from None
    if version != VERSION:
        raise DataError(f"{folder / INDEX}: version {version} came, expected {VERSION}; {AGAIN}")
    if dtype not in ("uint16", "uint32") or any(Path(shard.name).name != shard.name for shard in shards):
        raise DataError(f"{folder / INDEX}: not a list of shards of uint16 or uint32; {AGAIN}")
    if not done:
        raise DataError(
            f"{folder}: tokenising it was stopped before its end; give the same `glassformer data tokenise` again, "
            "which goes on where it was stopped"
        )
    for shard in shards:
        if not (folder / shard.name).is_file():
            raise DataError(f"{folder / shard.name}: the shard is missing; {AGAIN}")
    tokens = TokenStream(folder, dtype, shards, 0, sum(shard.tokens for shard in shards))
    return tokens, tokeniser_of(folder, index)


def tokeniser_of(folder: Path, index: dict[str, Any]) -> Tokeniser:
    """What the tokens were made with; another in its place would give them another meaning."""
    again = "bring it back, or tokenise the text again into another folder"
    if not (folder / TOKENISER).is_file():
        raise DataError(f"{folder / TOKENISER}: it is missing, and the tokens mean nothing without it; {again}")
    found = load_tokeniser(folder / TOKENISER)
    if index.get("tokeniser") not in (None, digest_of(found)):  # older folders do not say
        raise DataError(
            f"{folder / TOKENISER}: it is not the one that the tokens of this folder were made with; {again}"
        )
    return found


def digest_of(tokeniser: Tokeniser) -> str:
    return hashlib.sha256(tokeniser.to_json().encode()).hexdigest()


def is_token_folder(path: Path) -> bool:
    return (path / INDEX).is_file()


def open_shard(path: Path, shard: Shard, dtype: str) -> np.ndarray:
    """Memory-mapped, if it is the file that its checksum says."""
    found = sha256_of(path)
    if found != shard.sha256:
        raise DataError(
            f"{path}: damaged: its checksum is {found[:12]}…, expected {shard.sha256[:12]}…; delete it and {AGAIN}"
        )
    tokens: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    if tokens.dtype != dtype or tokens.shape != (shard.tokens,):
        raise DataError(
            f"{path}: {tokens.dtype} of shape {tokens.shape} came, expected {dtype} of ({shard.tokens},); {AGAIN}"
        )
    return tokens


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}; {AGAIN}") from None
