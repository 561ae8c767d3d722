"""What these tests compile is kept in a folder of their own."""

import pytest

from glassformer.native import build


@pytest.fixture(scope="session")
def compiled_here(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def own_cache(compiled_here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.VARIABLE, compiled_here)
