"""What a person sees while a study runs: a bar with the time left, and what went wrong. All on stderr."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from glassformer.lab.run import Listener

if TYPE_CHECKING:
    from glassformer.lab.record import Record

EVERY = 20  # runs between two lines, where no bar can be drawn


class StudyProgress(Listener):
    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
        self.bar = Progress(
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[left]}  {task.fields[title]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task: Any = self.bar.add_task("", total=None, title="", left="")
        self.done, self.total = 0, 0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bar.stop()

    def notice(self, text: str) -> None:
        self.console.print(text)

    def stage(self, total: int, done: int) -> None:
        self.done, self.total = done, total
        self.bar.update(self.task, total=total, completed=done)

    def finished(self, title: str, record: "Record", seconds_left: float) -> None:
        self.done += 1
        left = f"{duration(seconds_left)} left"
        self.bar.update(self.task, completed=self.done, title=title, left=left)
        if record.failed:
            self.console.print(f"{title}, seed {record.seed}: {record.failed}")
        elif not self.console.is_terminal and self.done % EVERY == 0:
            self.console.print(f"{self.done} of {self.total} runs, {left}")


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(320), duration(8000)
    ('42 s', '5 min', '2.2 h')
    """
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
