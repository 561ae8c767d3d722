"""A process that trains for a study ends with it: a study that is killed leaves nobody behind to compute for nobody."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.registry import load_code
from glassformer.train.recipe import Recipe
from glassformer.train.settings import from_plain

EVERY = 0.5  # seconds between two looks
# joblib replaces a process that grew by 300 MB, as one does that has compiled the programs of a dozen cells
MAY_GROW = 2 << 30  # bytes


def working_for(study: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result, in a process of the study's, or in the study's own."""
    if os.getpid() != study:
        end_with(study)
    return function(*arguments)


def with_code(code: Sequence[Path], train: Callable[..., Any], key: str, recipe: dict[str, Any], *more: Any) -> Any:
    """Train in another process: own code that the study was given is loaded there before the recipe is read."""
    for file in code:
        load_code(file)
    return train(key, from_plain(Recipe, recipe), *more)


@cache
def end_with(study: int) -> None:
    from joblib.externals.loky import process_executor

    process_executor._MAX_MEMORY_LEAK_SIZE = MAY_GROW  # pyright: ignore
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the study alone decides
    threading.Thread(target=watch, args=(study,), daemon=True).start()


def watch(study: int) -> None:
    """An orphan has another parent."""
    while os.getppid() == study:
        time.sleep(EVERY)
    os._exit(1)
