"""Progress as a person watches it: bars on a terminal, now and then a line elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from densirank.training.callbacks import Report

PLAIN_LINE_EVERY = 50
"""Where there is no terminal, one line after about so many iterations."""


class Bars:
    """Bars with a status each, on a terminal, while inside ``with``; none elsewhere."""

    def __init__(self, console: Console, clock: ProgressColumn | None = None) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}", markup=False),
            clock or TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()


class TrainingBar(Bars):
    """A callback of the trainer; a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(console or Console(stderr=True))
        self._validation = ""
        self._last_line = 0
        self._task = self._progress.add_task("training", total=None, status="")

    def __call__(self, report: Report) -> None:
        if report.validation is not None:
            self._validation = f"  nDCG@20 {report.validation:.4f}"
        status = f"loss {report.loss:.4f}{self._validation}"
        self._progress.update(
            self._task, completed=report.iteration, total=report.iterations, status=status
        )
        due = report.iteration - self._last_line >= PLAIN_LINE_EVERY
        if not self._console.is_terminal and (due or report.validation is not None):
            self._last_line = report.iteration
            self._console.print(f"iteration {report.iteration}/{report.iterations}  {status}")
