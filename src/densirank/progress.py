"""Progress bars on a terminal, and lines of progress elsewhere."""

from __future__ import annotations

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

ITERATIONS_PER_LINE = 50
"""Iterations between two lines of progress, if there is no terminal."""


class Bars:
    """Progress bars with a status each, shown on a terminal while inside ``with``."""

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

    def __exit__(self, *error: object) -> None:
        self._progress.stop()


class TrainingBar(Bars):
    """A training callback: a bar on a terminal, a line from time to time elsewhere."""

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
        due = report.iteration - self._last_line >= ITERATIONS_PER_LINE
        if not self._console.is_terminal and (due or report.validation is not None):
            self._last_line = report.iteration
            self._console.print(f"iteration {report.iteration}/{report.iterations}  {status}")
