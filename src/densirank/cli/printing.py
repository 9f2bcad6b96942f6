"""What commands print: messages and progress to stderr, results to stdout.

Ids and paths are printed as they are, without markup or emoji names, and messages are not wrapped.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from densirank.errors import DensirankError, DensirankWarning, TrainingError
from densirank.progress import Bars

if TYPE_CHECKING:
    import polars as pl

INTERRUPTED = 130
"""Exit status after Ctrl-C, as in shells."""

out = Console(soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


def say_error(sentence: str) -> None:
    """Print an error, even in a process whose other messages are suppressed."""
    err.quiet = False
    err.print(Text.assemble(("error:", "bold red"), " ", sentence))


def say_warning(sentence: str) -> None:
    """Print a warning."""
    err.print(Text.assemble(("warning:", "bold yellow"), " ", sentence))


def run(app: typer.Typer) -> None:
    """Run a command; an error that users can fix is printed as a message, not a traceback."""
    try:
        with said_warnings():
            app()
    except TrainingError as error:
        _complain(str(error), status=1)
    except DensirankError as error:
        _complain(str(error), status=2)
    except OSError as error:
        _complain(f"{error.filename or 'input or output'}: {error.strerror or error}", status=2)


@contextmanager
def said_warnings() -> Iterator[None]:
    """Print warnings of the library as sentences, each once; others as Python does."""
    with warnings.catch_warnings():
        usual = warnings.showwarning
        said: set[str] = set()  # a search fits many times, with the same words

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, DensirankWarning):
                usual(message, category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
                say_warning(str(message))

        warnings.showwarning = show
        warnings.simplefilter("always", DensirankWarning)
        yield


def _complain(sentence: str, status: int) -> None:
    say_error(sentence)
    sys.exit(status)


def print_json(value: Any) -> None:
    """Print a result as JSON."""
    out.print_json(json.dumps(value))


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str | Text]]) -> None:
    """Print a result as a table."""
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def print_frame(frame: pl.DataFrame, as_json: bool) -> None:
    """Print a frame as JSON or as a table."""
    if as_json:
        print_json(frame.to_dicts())
        return
    rows = frame.iter_rows(named=True)
    print_table(frame.columns, ([_cell(name, row[name]) for name in row] for row in rows))


def print_settings(method: str | None) -> None:
    """Explain the settings of a method with its defaults, or the settings of all methods."""
    from densirank.methods import METHODS, method_named

    if method is not None:
        chosen = method_named(method)
        help_texts, defaults = chosen.settings_type.help(), chosen.settings().to_json()
        _print_group(method, {key: (defaults[key], text) for key, text in help_texts.items()})
        return
    parts = {part: None for known in METHODS.values() for part in known.settings_type.parts()}
    for part in parts:
        defaults, own = part().to_json(), part.declared()
        _print_group(part.title(), {key: (defaults[key], text) for key, text in own.items()})


def _print_group(title: str, settings: Mapping[str, tuple[object, str]]) -> None:
    table = Table("setting", "default", "", box=SIMPLE, title=title, title_justify="left")
    for key, (default, text) in settings.items():
        table.add_row(key, "none" if default is None else str(default), text)
    out.print(table)


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if column == "probability":
        return f"{value:.2%}"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


class CountBar(Bars):
    """A progress bar that counts."""

    def __init__(self, what: str, total: int | None = None) -> None:
        super().__init__(err)
        self._task = self._progress.add_task(what, total=total, status="")

    def done(self, count: int, total: int | None = None) -> None:
        """Show how many are done, and of how many, if that was not known before."""
        self._progress.update(self._task, completed=count, total=total)
