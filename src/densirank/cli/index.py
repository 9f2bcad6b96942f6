"""``densirank index``: build an index of a model's vectors and measure it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from densirank.cli import printing
from densirank.cli.options import JsonOption, ModelFolder


def index(
    model: ModelFolder,
    kind: Annotated[
        Literal["hnsw", "clusters"],
        typer.Option(help="hnsw needs faiss; clusters needs no package but reads more."),
    ] = "hnsw",
    recall: Annotated[
        float, typer.Option(help="Share of the exact top 20 that searches have to find.")
    ] = 0.99,
    as_json: JsonOption = False,
) -> None:
    """Build an index of a model's item vectors, for large catalogues.

    'densirank recommend --approximate' and the service use it. It is stored with the model; a model
    that replaces this one needs a new index.
    """
    from densirank import load
    from densirank.ranking.index import K
    from densirank.storage import save_index

    ranker = load(model, "cpu").build_index(kind, recall=recall)
    built = ranker.index_
    assert built is not None
    save_index(model, built)
    measured = built.measured
    if as_json:
        printing.print_json(asdict(measured))
    else:
        rows = {
            "kind": measured.kind,
            f"recall@{K} against exact": f"{measured.recall:.4f}",
            "users of the measurement": f"{measured.users:,}",
            "effort of a search": f"{measured.effort:,}",
            "seconds to build": f"{measured.seconds:.1f}",
            "memory": f"{measured.mib:,.1f} MiB",
        }
        printing.print_table(("what", "measured"), rows.items())
    if measured.recall < recall:
        printing.err.print(
            f"The recall of {measured.recall:.4f} is below the {recall:g} asked for."
        )
