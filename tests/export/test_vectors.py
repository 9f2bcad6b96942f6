"""Exported vectors, read back by nothing but polars and NumPy, give the model's scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from densirank import Ranker
from densirank.export.vectors import export_numpy, export_parquet


def expected_scores(ranker: Ranker) -> Any:
    return ranker.scorer_.scores(torch.arange(ranker.scorer_.n_users)).numpy()


def test_parquet_vectors_and_ids_give_the_scores(ranker: Ranker, tmp_path: Path) -> None:
    written = export_parquet(ranker.interactions_, ranker.scorer_, tmp_path)
    assert sorted(written) == sorted(path.name for path in tmp_path.iterdir())
    users, items = (pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("users", "items"))
    assert users["id"].to_list() == ranker.interactions_.user_ids.ids.tolist()
    assert items["id"].to_list() == ranker.interactions_.item_ids.ids.tolist()
    scores = users["vector"].to_numpy() @ items["vector"].to_numpy().T
    assert ("sparse.parquet" in written) == (ranker.scorer_.sparse_part is not None)
    if "sparse.parquet" in written:
        user_row = {id: row for row, id in enumerate(users["id"])}
        item_row = {id: row for row, id in enumerate(items["id"])}
        for user, item, value in pl.read_parquet(tmp_path / "sparse.parquet").iter_rows():
            scores[user_row[user], item_row[item]] += value
    np.testing.assert_allclose(scores, expected_scores(ranker), rtol=1e-5)


def test_numpy_vectors_and_ids_give_the_scores(ranker: Ranker, tmp_path: Path) -> None:
    written = export_numpy(ranker.interactions_, ranker.scorer_, tmp_path)
    assert sorted(written) == sorted(path.name for path in tmp_path.iterdir())

    def array(name: str) -> Any:
        return np.load(tmp_path / f"{name}.npy", allow_pickle=False)

    scores = array("user_vectors") @ array("item_vectors").T
    for side, ids in (
        ("user", ranker.interactions_.user_ids),
        ("item", ranker.interactions_.item_ids),
    ):
        stored = (
            json.loads((tmp_path / f"{side}_ids.json").read_text())
            if ids.is_text
            else array(f"{side}_ids").tolist()
        )
        assert stored == ids.ids.tolist()
    if ranker.scorer_.sparse_part is not None:
        indptr, items = array("sparse_indptr"), array("sparse_items")
        for user in range(len(scores)):
            own = slice(indptr[user], indptr[user + 1])
            scores[user, items[own]] += array("sparse_values")[own]
    np.testing.assert_allclose(scores, expected_scores(ranker), rtol=1e-5)
