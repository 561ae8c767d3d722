"""The helper that compiles strictly finds what it is there to find."""

from pathlib import Path

import pytest

from glassformer.errors import EngineError

from .boards import needs
from .strict import strictly_compiled


@needs("host")
def test_warnings_are_errors(tmp_path: Path) -> None:
    source = tmp_path / "source.c"
    source.write_text("float half(float x) { return 0.5f * x; }\n")
    assert "host" in strictly_compiled([source])
    for text, warning in [
        ("float half(float x) { return (float)(0.5 * x); }", "double-promotion"),
        ("signed char narrow(int x) { return x; }", "conversion"),
        ("int unused(int x) { return 0; }", "unused-parameter"),
        ("int array(void) { int x[] = {}; return (int)sizeof x; }", "pedantic"),
    ]:
        source.write_text(text + "\n")
        with pytest.raises(EngineError, match=f"failed: .*-W(error=)?{warning}"):
            strictly_compiled([source])
