"""The command line: one file per command, which parses options, calls the library and prints.

Commands import the library when they are called, so that help texts and errors about options need
neither torch nor polars.
"""

from __future__ import annotations

from typing import Annotated

import typer

from densirank._version import __version__
from densirank.cli import printing
from densirank.cli.calibrate import calibrate
from densirank.cli.doctor import doctor
from densirank.cli.evaluate import evaluate
from densirank.cli.export import export
from densirank.cli.fit import fit
from densirank.cli.index import index
from densirank.cli.methods import methods
from densirank.cli.partition import partition
from densirank.cli.recommend import recommend
from densirank.cli.serve import serve
from densirank.cli.similar import similar
from densirank.cli.tune import tune
from densirank.cli.update import update

app = typer.Typer(
    name="densirank",
    help="Learn from clicks, plays or purchases which items people want next, and rank by it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for command in (
    fit,
    tune,
    update,
    evaluate,
    calibrate,
    recommend,
    similar,
    index,
    export,
    serve,
    partition,
    methods,
    doctor,
):
    app.command()(command)


def _version(show: bool) -> None:
    if show:
        printing.out.print(f"densirank {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of ``densirank`` itself."""


def main() -> None:
    """Run the command line."""
    printing.run(app)
