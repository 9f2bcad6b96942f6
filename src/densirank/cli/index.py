"""``densirank index``: build an index of a model's vectors, and say how good it is."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from densirank.cli import printing
from densirank.cli.options import JsonOption, ModelFolder

if TYPE_CHECKING:
    from densirank.ranking.index import Measured


def index(
    model: ModelFolder,
    kind: Annotated[
        Literal["hnsw", "clusters"],
        typer.Option(help="hnsw needs faiss; clusters needs nothing, and reads more."),
    ] = "hnsw",
    recall: Annotated[
        float, typer.Option(help="Share of the exact top 20 that searches are to find.")
    ] = 0.99,
    as_json: JsonOption = False,
) -> None:
    """Build an index of a model's item vectors, for large catalogues.

    'densirank recommend --approximate' and the service use it. It is kept with the model and goes
    with it: a model that is replaced needs a new one.
    """
    from densirank import load
    from densirank.stored_index import save_index

    ranker = load(model, "cpu").build_index(kind, recall=recall)
    built = ranker.index_
    assert built is not None
    save_index(model, built)
    measured = built.measured
    if as_json:
        printing.print_json(asdict(measured))
    else:
        printing.out.print(_table(measured))
    if measured.recall < recall:
        printing.err.print(
            f"It finds {measured.recall:.4f} of the exact lists, less than the {recall:g} asked "
            "for."
        )


def _table(measured: Measured) -> Table:
    from densirank.ranking.index import K

    table = Table("what", "measured")
    table.add_row("kind", measured.kind)
    table.add_row(f"recall@{K} against exact", f"{measured.recall:.4f}")
    table.add_row("users it was measured on", f"{measured.users:,}")
    table.add_row("effort of a search", f"{measured.effort:,}")
    table.add_row("seconds to build", f"{measured.seconds:.1f}")
    table.add_row("memory", f"{measured.mib:,.1f} MiB")
    return table
