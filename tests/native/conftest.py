"""What these tests compile is kept in a folder of their own."""

from collections.abc import Iterator

import pytest

from glassformer.native import build


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield
