"""The command line in this process: as `main` runs it, at a fraction of what a new process costs."""

import io
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from glassformer.cli import main

PLAIN = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}


def glassformer(*arguments: str | Path, folder: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """What it printed and returned; an error that `main` does not catch is raised here, not printed."""
    words = [*map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, chdir(folder or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["glassformer", *words])
        for name, value in (PLAIN | env).items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main()
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), out.getvalue(), err.getvalue())
