"""The same few small programs are compiled by many of these tests: once is enough."""

from collections.abc import Iterator

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture(autouse=True, scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """JAX keeps what it compiled in a folder; the same for another process, as its environment."""
    options = {
        "jax_compilation_cache_dir": str(tmp_path_factory.getbasetemp() / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in options}
    for name, value in options.items():
        jax.config.update(name, value)
    yield {name.upper(): str(value) for name, value in options.items()}
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
