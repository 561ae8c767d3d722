"""Files are written whole or not at all: to a temporary file beside the target, flushed to disk, then renamed."""

import contextlib
import os
import tempfile
import time
from pathlib import Path

from glassformer.errors import FileError

PART = ".part"
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
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
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
    """After a power cut the folder, too, knows the new file by its name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
