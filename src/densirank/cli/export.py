"""``densirank export``: a model's vectors, or its scorer, for other systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from densirank._version import __version__
from densirank.cli import printing
from densirank.cli.options import ModelFolder

DESCRIPTION = "export.json"


def export(
    model: ModelFolder,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the files.")],
    format: Annotated[
        Literal["parquet", "numpy", "onnx"],
        typer.Option(help="onnx is the scorer, the others are its vectors."),
    ] = "parquet",
) -> None:
    """Write a model's vectors with their ids, or its scorer as an ONNX graph.

    export.json lists the files and says how a score is computed from them.
    """
    from densirank import load
    from densirank.export.onnx_graph import export_onnx
    from densirank.export.vectors import export_numpy, export_parquet
    from densirank.files import write_json
    from densirank.storage import model_fingerprint, prepare_folder

    prepare_folder(to, own=frozenset({DESCRIPTION}), what="export")
    fingerprint = model_fingerprint(model)
    ranker = load(model, "cpu")
    data, scorer = ranker.interactions_, ranker.scorer_
    write = {"parquet": export_parquet, "numpy": export_numpy, "onnx": export_onnx}[format]
    written = write(data, scorer, to)
    has_sparse_part = scorer.sparse_part is not None
    description = {
        "densirank": __version__,
        "model": fingerprint,
        "method": ranker.method,
        "format": format,
        "files": written,
        "users": scorer.n_users,
        "items": scorer.n_items,
        "dim": scorer.item_vectors.shape[1],
        "score": "user_vector · item_vector" + (" + sparse part" if has_sparse_part else ""),
        "not_contained": ["the items each user has had: leave them out of a list yourself"],
    }
    write_json(to / DESCRIPTION, description)
    printing.err.print(f"{', '.join(written)} written to {to}; {DESCRIPTION} describes them.")
    if has_sparse_part:
        printing.err.print(
            "Scores of this model are a dot product plus a sparse part. Both were written; a "
            "database that searches the vectors uses the dot product alone."
        )
