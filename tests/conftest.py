"""What tests compile is kept in a folder of their own, shared by the processes that run them."""

import os
from collections.abc import Iterator

import pytest

from glassformer.native import build


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.VARIABLE, str(shared / "native"))
        yield
