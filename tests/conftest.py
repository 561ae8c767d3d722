"""What tests compile: C in a folder of their own, shared by all their processes; JAX programs, let go in time."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from glassformer.native import build

MOST = 3 << 30  # bytes of one process


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.VARIABLE, str(shared / "native"))
        yield


@pytest.fixture(autouse=True, scope="module")
def programs_are_let_go() -> Iterator[None]:
    """Thousands of compiled programs take gigabytes; whoever needs one again compiles it again."""
    yield
    if resident() > MOST:
        jax.clear_caches()
        gc.collect()


def resident() -> int:
    """Bytes of memory this process holds; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
