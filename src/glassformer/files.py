"""Files are written whole or not at all: to a temporary file beside the target, flushed to disk, then renamed."""

import os
import tempfile
from pathlib import Path

from glassformer.errors import FileError


def write_whole(path: Path, content: bytes | str) -> None:
    """Replace `path`. Whatever goes wrong, the old file stays as it was."""
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
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
