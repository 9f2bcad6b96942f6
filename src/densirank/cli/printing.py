"""Where commands print: sentences and progress to stderr, results to stdout.

Ids and paths are printed as they are: nothing in them is taken for markup or an emoji's name, and
no sentence is cut into lines.
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from densirank.errors import DensirankError, TrainingError

if TYPE_CHECKING:
    import polars as pl

    from densirank.training.callbacks import Report

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

PLAIN_LINE_EVERY = 50
"""Where there is no terminal, one line after about so many iterations."""

out = Console(soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


def say_error(sentence: str) -> None:
    """Tell what went wrong, also where the rest of what is said is another process's part."""
    err.quiet = False
    err.print(Text.assemble(("error:", "bold red"), " ", sentence))


def say_warning(sentence: str) -> None:
    """Tell what may not be meant."""
    err.print(Text.assemble(("warning:", "bold yellow"), " ", sentence))


def run(app: typer.Typer) -> None:
    """Run a command; what a person can put right is told in one sentence, not a traceback."""
    try:
        app()
    except TrainingError as error:
        _complain(str(error), status=1)
    except DensirankError as error:
        _complain(str(error), status=2)
    except OSError as error:
        _complain(f"{error.filename or 'input or output'}: {error.strerror or error}", status=2)


def _complain(sentence: str, status: int) -> None:
    say_error(sentence)
    sys.exit(status)


def print_json(value: Any) -> None:
    """A result for machines."""
    out.print_json(json.dumps(value))


def print_frame(frame: pl.DataFrame) -> None:
    """A result for people."""
    table = Table(*frame.columns)
    for row in frame.iter_rows(named=True):
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    out.print(table)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if column == "probability":
        return f"{value:.2%}"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


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


class CountBar(Bars):
    """One bar of things that are done one after the other."""

    def __init__(self, what: str, total: int | None = None) -> None:
        super().__init__(err)
        self._task = self._progress.add_task(what, total=total, status="")

    def done(self, count: int, total: int | None = None) -> None:
        """So many are done, of so many, if that was not known before."""
        self._progress.update(self._task, completed=count, total=total)


class TrainingBar(Bars):
    """A callback of the trainer; a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, console: Console = err) -> None:
        super().__init__(console)
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
