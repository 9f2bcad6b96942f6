"""``densirank export``: a model's vectors, or its scorer, for other systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from densirank._version import __version__
from densirank.cli import printing
from densirank.cli.options import ModelFolder

if TYPE_CHECKING:
    from densirank.ranker import Ranker

DESCRIPTION = "export.json"

ExportFormat = Literal["parquet", "numpy", "onnx"]


def export(
    model: ModelFolder,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the files.")],
    format: Annotated[
        ExportFormat, typer.Option(help="onnx is the scorer, the others are its vectors.")
    ] = "parquet",
) -> None:
    """Write a model's vectors with their ids, or its scorer as an ONNX graph.

    export.json says what was written and how a score is made of it.
    """
    from densirank import load
    from densirank.files import written_atomically
    from densirank.storage import model_fingerprint, prepare_folder

    prepare_folder(to, own=frozenset({DESCRIPTION}), what="export")
    fingerprint = model_fingerprint(model)
    ranker = load(model, "cpu")
    written = _write(ranker, to, format)
    contains_sparse = ranker.scorer_.sparse_part is not None
    description = {
        "densirank": __version__,
        "model": fingerprint,
        "method": ranker.method,
        "format": format,
        "files": written,
        "users": ranker.scorer_.n_users,
        "items": ranker.scorer_.n_items,
        "dim": ranker.scorer_.item_vectors.shape[1],
        "score": "user_vector · item_vector" + (" + sparse part" if contains_sparse else ""),
        "not_contained": ["the items each user has had: leave them out of a list yourself"],
    }
    with written_atomically(to / DESCRIPTION) as temporary:
        temporary.write_text(
            json.dumps(description, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    printing.err.print(f"{', '.join(written)} written to {to}; {DESCRIPTION} says how to use them.")
    if contains_sparse:
        printing.err.print(
            "A score of this model is a dot product and a sparse part: both were written, and a "
            "database that searches the vectors alone finds by the dot product alone."
        )


def _write(ranker: Ranker, folder: Path, format: ExportFormat) -> list[str]:
    from densirank.export.onnx_graph import export_onnx
    from densirank.export.vectors import export_numpy, export_parquet

    data, scorer = ranker.interactions_, ranker.scorer_
    if format == "onnx":
        return export_onnx(scorer, folder) + _write_ids(ranker, folder)
    write = export_parquet if format == "parquet" else export_numpy
    return write(data, scorer, folder)


def _write_ids(ranker: Ranker, folder: Path) -> list[str]:
    """The ids at the indices that the graph takes and gives."""
    from densirank.files import written_atomically
    from densirank.storage import write_ids

    for name, ids in (
        ("users.parquet", ranker.interactions_.user_ids),
        ("items.parquet", ranker.interactions_.item_ids),
    ):
        with written_atomically(folder / name) as temporary:
            write_ids(temporary, ids)
    return ["users.parquet", "items.parquet"]
