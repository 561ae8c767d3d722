"""Files are written whole or not at all: to a temporary file beside the target, flushed to disk, then renamed.

A folder is locked by one process at a time, and never by one that has ended.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from glassformer.errors import FileError

PART = ".part"
LOCK = ".lock"
ABANDONED = 3600.0  # seconds: a temporary file that old is of a write that was killed, not of one under way


def write_whole(path: Path, content: bytes | str) -> None:
    """Replace `path`. Whatever goes wrong, the old file stays as it was."""
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a rename would put a file in the place of a device
        raise FileError(f"{path}: is there, and is no file; nothing was written. Choose the name of a file with --out")
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
        with temporary.open("xb") as file:  # readable by those whom the umask leaves
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise FileError(
            f"{path}: cannot be written: {error.strerror or error}; what was there before is unchanged. "
            "Free some space, or choose another folder with --out"
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)  # where all went well it is not there any more
    with contextlib.suppress(OSError):  # not every file system can; the file itself is safe
        flush_folder(path.parent)


def remove_abandoned(path: Path) -> None:
    """What killed writes of this file left. Another process may be writing it now: young ones stay."""
    with contextlib.suppress(OSError):  # somebody else was faster
        for left in path.parent.iterdir():
            ours = left.name.startswith(f".{path.name}.") and left.name.endswith(PART)
            if ours and time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()


def flush_folder(folder: Path) -> None:
    """After a power cut the folder, too, knows the new file by its name. Windows opens no folders: an OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def made(folder: Path, *, new: bool = False) -> Iterator[None]:
    """Make a folder with those above it; what is empty in the end is removed again.

    With `new` a folder that is there already is a FileExistsError: of two processes only one makes it.
    """
    missing: list[Path] = []
    try:
        try:
            missing = [one for one in (folder, *folder.parents) if not one.exists()]
            folder.mkdir(parents=True, exist_ok=not new)
        except OSError as error:
            if new and isinstance(error, FileExistsError):
                raise
            raise FileError(
                f"{folder}: cannot be written: {error.strerror or error}; choose another folder with --out"
            ) from None
        yield
    finally:
        for one in missing:
            with contextlib.suppress(OSError):  # it holds something
                one.rmdir()


@contextlib.contextmanager
def locked(folder: Path, busy: str = "", wait: float = -1) -> Iterator[None]:
    """Hold the folder's lock; the system releases it when the process ends, however it ends.

    Where another holds it for longer than `wait` seconds (-1: for ever), a FileError says what `busy` says.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=wait, poll_interval=0.02)
    except Timeout:
        raise FileError(f"{folder}: {busy}") from None
    except OSError as error:
        raise FileError(f"{folder / LOCK}: cannot be locked: {error.strerror or error}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # while it is held: whoever waits for it then makes another
            (folder / LOCK).unlink()
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process holds the folder's lock. Nothing is written; what cannot be opened is not locked."""
    from filelock import lock_descriptor

    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | flags)
    except OSError:
        return False
    try:
        if lock_descriptor(handle, blocking=False):
            return False
        time.sleep(0.002)  # somebody else may just be asking, too
        return not lock_descriptor(handle, blocking=False)
    except OSError:
        return False
    finally:
        os.close(handle)  # and with it what was locked
