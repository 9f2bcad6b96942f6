"""``python -m paper``: the paper's tables and figures from the records, and what they lack."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from densirank.cli.options import DataDirOption, DeviceOption, JsonOption
from densirank.cli.printing import INTERRUPTED, err, out, say_error
from densirank.cli.printing import run as run_app
from densirank.data.datasets import PUBLIC_SETS
from densirank.errors import InputError
from densirank.methods import METHODS
from densirank.progress import TrainingBar
from paper.document import renew_file
from paper.grids import GRIDS
from paper.planning import PRODUCTS, Job, commands_for, jobs_for, missing
from paper.products import MAKERS, Request
from paper.records import Records
from paper.rows import DATASETS
from paper.working import PublicData, Workshop

ALL = "all"
RECORDS = Path("results")
WIDE = 132
"""Columns for a table where the terminal has fewer, or there is none."""


def paper(
    product: Annotated[
        str, typer.Argument(metavar="WHAT", help=f"{', '.join(PRODUCTS)} or {ALL}.")
    ],
    datasets: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,…", help=f"Default: {', '.join(DATASETS)}."),
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(metavar="NAME,…", help="Only these methods.")
    ] = None,
    records: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the records.")] = RECORDS,
    out_dir: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for Markdown, JSON and pictures."),
    ] = None,
    document: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Markdown file whose marked tables are regenerated."),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="Make what is missing; a later call goes on from there.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="With --run: start nothing new after so long.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="One trial, one seed, few iterations; records of their own."),
    ] = False,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
    data_dir: DataDirOption = None,
) -> None:
    """Make the paper's tables and figures again from stored records of runs.

    Settings are chosen on a part of the training data, then tested once. What is missing is said,
    with the command that makes it.
    """
    if document is not None and not document.is_file():
        raise InputError(f"there is no file {document} to write tables into")
    if product not in (ALL, *PRODUCTS):
        raise InputError(f"there is no {product!r}; there are {', '.join(PRODUCTS)} and {ALL}")
    products = list(PRODUCTS) if product == ALL else [product]
    sets = _names("data set", datasets, PUBLIC_SETS) or list(DATASETS)
    only = _names("method", methods, GRIDS)
    store = Records(records / "quick" if quick else records)
    jobs = jobs_for(products, sets, only, quick)
    possible = [job for job in jobs if job.method in METHODS]
    faults: list[str] = []
    if run:
        deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
        shop = Workshop(store, PublicData(data_dir), err, device, quick, deadline)
        faults = _work(shop, missing(possible, store))

    asked = Request(store, sets, only, quick, run, out_dir or store.folder / "figures")
    shown = {name: MAKERS[name](asked) for name in products}
    if as_json:
        out.print_json(json.dumps({name: one.data for name, one in shown.items()}))
    wide = Console(width=max(out.width, WIDE), markup=False, emoji=False)
    for name, one in shown.items():
        if not as_json:
            for sheet in one.sheets:
                wide.print(sheet.rich())
        if not one.sheets and not one.files:
            err.print(f"{name}: there are no records to draw it from yet.")
        files = one.files + (one.write(out_dir, name) if out_dir is not None else [])
        if files:
            err.print(f"{name}: written to {', '.join(map(str, files))}")
    if document is not None:
        changed = renew_file(document, (sheet for one in shown.values() for sheet in one.sheets))
        err.print(f"{document}: {'changed: ' + '; '.join(changed) if changed else 'as it was'}")

    absent = sorted({job.method for job in jobs} - set(METHODS))
    if absent:
        err.print(f"This version has no method {', '.join(absent)}.")
    options = _repeated(records, data_dir, device, quick)
    _say_what_is_missing(product, missing(possible, store), options)
    for fault in faults:
        say_error(fault)
    if faults:
        raise typer.Exit(1)


def _work(shop: Workshop, jobs: Sequence[Job]) -> list[str]:
    """Do what is missing, with a bar where there is a terminal; Ctrl-C leaves what is done."""
    with TrainingBar(err) as bar:
        try:
            return replace(shop, callbacks=[bar] if err.is_terminal else []).work(jobs)
        except KeyboardInterrupt:
            err.print("Interrupted. What is finished is kept; the same command goes on from there.")
            raise typer.Exit(INTERRUPTED) from None


def _names(what: str, given: Sequence[str] | None, known: Iterable[str]) -> list[str] | None:
    """Names from options that may be repeated and may hold several, with commas between them."""
    if given is None:
        return None
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise InputError(f"there is no {what} {name!r} here; there are {', '.join(known)}")
    return list(dict.fromkeys(names))


def _repeated(records: Path, data_dir: Path | None, device: str, quick: bool) -> list[str]:
    """The options that the command for missing records must repeat."""
    options: list[str] = []
    if records != RECORDS:
        options += ["--records", str(records)]
    if data_dir is not None:
        options += ["--data-dir", str(data_dir)]
    if device != "auto":
        options += ["--device", device]
    return options + (["--quick"] if quick else [])


def _say_what_is_missing(product: str, jobs: Sequence[Job], options: Sequence[str]) -> None:
    if not jobs:
        return
    counts = Counter(job.kind for job in jobs)
    what = ", ".join(f"{count} of kind {kind}" for kind, count in counts.items())
    err.print(f"{len(jobs)} records are missing ({what}). They are made by:")
    for command in commands_for(product, jobs, options):
        err.print(f"  {command}")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
app.command()(paper)

if __name__ == "__main__":
    run_app(app)
