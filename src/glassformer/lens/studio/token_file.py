"""The token and the port of a folder's studio, kept for its owner alone: started again, it is found by its open pages.

They belong together. Where the port has another listener by now, that one was asked by the pages, and has seen the
token: it is not used again.
"""

import contextlib
import hashlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import FileError
from glassformer.lens.studio.json_bytes import json_bytes
from glassformer.reading import parse_json
from glassformer.user_cache import cache_folder

TOKEN = re.compile(r"[\w-]{32}", re.ASCII)


class Kept(NamedTuple):
    token: str
    port: int


def file_of(runs: Path) -> Path:
    """Beside what is compiled, not in the folder of runs."""
    name = hashlib.sha256(os.fsencode(runs.resolve())).hexdigest()[:32]
    return cache_folder("studio") / f"{name}.json"


def read(file: Path) -> Kept | None:
    """None where nothing is kept, or where others could have read or written it."""
    try:
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as opened:
            if not is_private(os.fstat(handle)):
                return None
            plain = parse_json(opened.read(1000), file)
        kept = Kept(plain["token"], plain["port"])
        is_right = TOKEN.fullmatch(kept.token) and type(kept.port) is int and 0 < kept.port < 65536
    except (OSError, FileError, KeyError, TypeError):
        return None
    return kept if is_right else None


def is_private(found: os.stat_result) -> bool:
    if not stat.S_ISREG(found.st_mode):
        return False
    return os.name != "posix" or (found.st_uid == os.geteuid() and not found.st_mode & 0o077)


def write(file: Path, kept: Kept) -> None:
    """Where it cannot be kept, the next start has another token."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = file.with_suffix(f".{secrets.token_hex(4)}")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as opened:
            opened.write(json_bytes(kept._asdict()))
        part.replace(file)
