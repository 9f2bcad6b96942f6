"""Vectors with their ids as Parquet or NumPy files, for a vector database.

A score is ``user_vector · item_vector`` plus, where a method has a sparse part, its value for the
user and the item; the highest values of each user are written to a file of their own. Histories are
not written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.files import written_atomically
from densirank.frames import id_series
from densirank.linalg.csr import SparsePart
from densirank.scores import VectorScorer

ROWS = 1 << 17
"""Vectors converted to a table at a time."""


def export_parquet(data: Interactions, scorer: VectorScorer, folder: Path) -> list[str]:
    """Write ``users.parquet`` and ``items.parquet`` (id, vector), and a ``sparse.parquet``."""
    _write_table(folder / "users.parquet", data.user_ids, scorer.user_vectors)
    _write_table(folder / "items.parquet", data.item_ids, scorer.item_vectors)
    written = ["users.parquet", "items.parquet"]
    if (part := scorer.kept_part()) is not None:
        _write_sparse(folder / "sparse.parquet", data, part)
        written.append("sparse.parquet")
    return written


def export_numpy(data: Interactions, scorer: VectorScorer, folder: Path) -> list[str]:
    """Write ``user_vectors.npy``, ``item_vectors.npy`` and the ids of their rows.

    Integer ids are ``.npy`` files, text ids a list in a ``.json`` file. A sparse part is
    ``sparse_indptr.npy``, ``sparse_items.npy`` and ``sparse_values.npy``, by user.
    """
    arrays = {
        "user_vectors": scorer.user_vectors.cpu().numpy(),
        "item_vectors": scorer.item_vectors.cpu().numpy(),
    }
    part = scorer.kept_part()
    if part is not None:
        arrays |= {
            "sparse_indptr": part.rows.indptr.cpu().numpy(),
            "sparse_items": part.rows.columns.cpu().numpy(),
            "sparse_values": part.values.cpu().numpy(),
        }
    written = [_write_array(folder / f"{name}.npy", array) for name, array in arrays.items()]
    for name, ids in (("user_ids", data.user_ids), ("item_ids", data.item_ids)):
        if ids.is_text:
            with written_atomically(folder / f"{name}.json") as temporary:
                temporary.write_text(json.dumps(ids.ids.tolist()), encoding="utf-8")
            written.append(f"{name}.json")
        else:
            written.append(_write_array(folder / f"{name}.npy", ids.ids))
    return written


def _write_array(path: Path, array: Any) -> str:
    with written_atomically(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    return path.name


def _write_table(path: Path, ids: Vocabulary, vectors: Any) -> None:
    """Write ids and vectors as two columns."""
    import polars as pl
    import torch

    dim = vectors.shape[1]

    def table(start: int) -> pl.DataFrame:
        rows = torch.arange(start, min(start + ROWS, len(vectors)))
        some = vectors[start : start + ROWS].cpu().numpy()
        return pl.DataFrame(
            {"id": id_series(ids, rows), "vector": pl.Series(some, dtype=pl.Array(pl.Float32, dim))}
        )

    whole = pl.concat([table(start) for start in range(0, len(vectors), ROWS)])
    with written_atomically(path) as temporary:
        whole.write_parquet(temporary)


def _write_sparse(path: Path, data: Interactions, part: SparsePart) -> None:
    """Write the entries of a sparse part as ``user_id, item_id, value``."""
    import polars as pl

    frame = pl.DataFrame(
        {
            "user_id": id_series(data.user_ids, part.rows.row_of_entry),
            "item_id": id_series(data.item_ids, part.rows.columns),
            "value": part.values.cpu().numpy(),
        }
    )
    with written_atomically(path) as temporary:
        frame.write_parquet(temporary)
