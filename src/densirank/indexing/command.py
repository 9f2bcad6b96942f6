"""``densirank index``: build an index of a model's vectors, and say how good it is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from densirank import load
from densirank.indexing.building import K
from densirank.indexing.storing import save_index
from densirank.options import JsonOption, ModelFolder, err, out


def index(
    model: ModelFolder,
    kind: Annotated[
        str, typer.Option(help="hnsw (needs faiss) or clusters (needs nothing, reads more).")
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
    ranker = load(model, "cpu").build_index(kind, recall=recall)
    built = ranker.index_
    assert built is not None
    save_index(model, built)
    measured = built.measured
    if as_json:
        out.print_json(json.dumps(asdict(measured)))
    else:
        table = Table("what", "measured")
        table.add_row("kind", measured.kind)
        table.add_row(f"recall@{K} against exact", f"{measured.recall:.4f}")
        table.add_row("users it was measured on", f"{measured.users:,}")
        table.add_row("effort of a search", f"{measured.effort:,}")
        table.add_row("seconds to build", f"{measured.seconds:.1f}")
        table.add_row("memory", f"{measured.mib:,.1f} MiB")
        out.print(table)
    if measured.recall < recall:
        err.print(
            f"It finds {measured.recall:.4f} of the exact lists, less than the {recall:g} asked "
            "for.",
            highlight=False,
        )
