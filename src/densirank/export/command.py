"""``densirank export``: a model's vectors, or its scorer, for other systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from densirank import Ranker, load
from densirank._version import __version__
from densirank.atomic import written_atomically
from densirank.export.onnx_graph import export_onnx
from densirank.export.vectors import export_numpy, export_parquet
from densirank.options import ModelFolder, choice, err
from densirank.storage import model_fingerprint, prepare_folder, write_ids

DESCRIPTION = "export.json"


def export(
    model: ModelFolder,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the files.")],
    format: Annotated[str, typer.Option(help="parquet, numpy or onnx.")] = "parquet",
) -> None:
    """Write a model's vectors with their ids, or its scorer as an ONNX graph.

    export.json says what was written and how a score is made of it.
    """
    choice("--format", format, ("parquet", "numpy", "onnx"))
    prepare_folder(to, own=frozenset({DESCRIPTION}), what="export")
    fingerprint = model_fingerprint(model)
    ranker = load(model, "cpu")
    written = _write(ranker, to, format)
    contains_sparse = ranker.scorer_.sparse_part is not None
    description = {
        "densirank": __version__,
        "model": fingerprint,
        "method": ranker.method.name,
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
    err.print(
        f"{', '.join(written)} written to {to}; {DESCRIPTION} says how to use them.", soft_wrap=True
    )
    if contains_sparse:
        err.print(
            "A score of this model is a dot product and a sparse part: both were written, and a "
            "database that searches the vectors alone finds by the dot product alone."
        )


def _write(ranker: Ranker, folder: Path, format: str) -> list[str]:
    data, scorer = ranker.interactions_, ranker.scorer_
    if format == "onnx":
        return export_onnx(scorer, folder) + _write_ids(ranker, folder)
    return (export_parquet if format == "parquet" else export_numpy)(data, scorer, folder)


def _write_ids(ranker: Ranker, folder: Path) -> list[str]:
    """The ids at the indices that the graph takes and gives."""
    for name, ids in (
        ("users.parquet", ranker.interactions_.user_ids),
        ("items.parquet", ranker.interactions_.item_ids),
    ):
        with written_atomically(folder / name) as temporary:
            write_ids(temporary, ids)
    return ["users.parquet", "items.parquet"]
