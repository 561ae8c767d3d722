"""What tests compile: C in a folder that all their processes share; JAX programs quickly, and let go in time."""

import atexit
import gc
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Nearly all the time of the suite goes into compiling programs that run once, on a handful of numbers. LLVM without
# optimisation and XLA's older code generator take a seventh of the time for them; HLO passes are the same.
QUICK = "--xla_cpu_use_fusion_emitters=false"
START = "import jax; jax.devices()"
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if "XLA_FLAGS" not in os.environ:  # else they are the user's, or those of the process that started this worker
    tried = subprocess.run([sys.executable, "-c", START], env=os.environ | {"XLA_FLAGS": QUICK}, capture_output=True)
    os.environ["XLA_FLAGS"] = QUICK if tried.returncode == 0 else ""  # XLA ends a process whose flags it does not know

# What one process has compiled, no other compiles again: workers, commands, servers. It goes with the session, unless
# JAX_COMPILATION_CACHE_DIR names a folder that stays.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="glassformer-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(Path(tempfile.gettempdir()) / "glassformer-hypothesis"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nor are our modules, by the hundred processes that tests start

import jax  # noqa: E402 - it reads the environment

from glassformer import registry  # noqa: E402
from glassformer.native import build  # noqa: E402

MOST = 3 << 30  # bytes of one process


def pytest_collection_finish() -> None:
    """What was imported stays: no collection of garbage need look at it again."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.VARIABLE, str(shared / "native"))
        yield


@pytest.fixture
def registry_as_it_was() -> Iterator[None]:
    """Whatever a test registers is forgotten again; files that others loaded are not its concern."""
    before = {what: dict(things) for what, things in registry._registered.items()}
    code, loaded = dict(registry._code), set(registry._loaded)
    registry._code.clear()
    yield
    for what, things in before.items():
        registry._registered[what].clear()
        registry._registered[what].update(things)
    for module in registry._code.values():
        sys.modules.pop(module.__name__, None)
    registry._code.clear()
    registry._code.update(code)
    registry._loaded.intersection_update(loaded)
    registry._entry_points.cache_clear()


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
