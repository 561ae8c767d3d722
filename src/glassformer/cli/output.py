"""The one place that prints results: a text for people, or, with --json, one JSON object as the last line of stdout."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

Item = TypeVar("Item")


def report(result: dict[str, Any], text: str | Table, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(result))
    else:
        Console(soft_wrap=True, highlight=False, markup=False, emoji=False).print(text)


def note(text: str) -> None:
    """What is worth knowing, and stops nothing."""
    typer.echo(f"note: {text}", err=True)


def progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """The items, with a bar on stderr while they are worked through; no bar where stderr is not a terminal."""
    with counted(total, label) as count:
        for item in items:
            yield item
            count(1)


@contextmanager
def counted(total: int, label: str) -> Iterator[Callable[[int], None]]:
    """The same bar, for work that tells how many items it has done."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda count: bar.advance(task, count)
