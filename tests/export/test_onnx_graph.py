"""The ONNX graph, run by onnxruntime, lists what the ranker recommends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densirank import Ranker
from densirank.export.onnx_graph import export_onnx

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")


def session(ranker: Ranker, folder: Path) -> Any:
    export_onnx(ranker.interactions_, ranker.scorer_, folder)
    return onnxruntime.InferenceSession(
        str(folder / "scorer.onnx"), providers=["CPUExecutionProvider"]
    )


def histories(ranker: Ranker, users: list[int]) -> Any:
    """Each user's items, padded with -1."""
    data = ranker.interactions_
    excluded = np.full((len(users), int(data.user_counts.max()) + 1), -1, dtype=np.int64)
    for row, user in enumerate(users):
        excluded[row, : data.user_counts[user]] = data.items_of(user)
    return excluded


def test_the_graph_is_valid(ranker: Ranker, tmp_path: Path) -> None:
    export_onnx(ranker.interactions_, ranker.scorer_, tmp_path)
    onnx.checker.check_model(str(tmp_path / "scorer.onnx"), full_check=True)


def test_lists_and_scores_are_the_rankers(ranker: Ranker, tmp_path: Path) -> None:
    users, k = [5, 0, 2], 3
    items, scores = session(ranker, tmp_path).run(
        ["items", "scores"],
        {
            "users": np.array(users, dtype=np.int64),
            "k": np.array([k], dtype=np.int64),
            "excluded": histories(ranker, users),
        },
    )
    data = ranker.interactions_
    expected = ranker.recommend(data.user_ids.ids[users], k)
    left = np.isfinite(scores)
    assert data.item_ids.ids[items[left]].tolist() == expected["item_id"].to_list()
    np.testing.assert_allclose(scores[left], expected["score"].to_numpy(), rtol=1e-5)


def test_without_exclusions_everything_is_listed_and_what_is_not_there_has_no_score(
    ranker: Ranker, tmp_path: Path
) -> None:
    run = session(ranker, tmp_path).run
    one = {"users": np.array([1]), "k": np.array([9])}
    items, scores = run(["items", "scores"], one | {"excluded": np.empty((1, 0), dtype=np.int64)})
    expected = ranker.recommend(ranker.interactions_.user_ids[1], 9, filter_seen=False)
    assert expected.height == 8
    np.testing.assert_allclose(scores[0, :8], expected["score"].to_numpy(), rtol=1e-5)
    assert sorted(items[0, :8].tolist()) == list(range(8))
    assert scores[0, 8] == -np.inf


def test_exporting_again_replaces_the_weights(ranker: Ranker, tmp_path: Path) -> None:
    export_onnx(ranker.interactions_, ranker.scorer_, tmp_path)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    export_onnx(ranker.interactions_, ranker.scorer_, tmp_path)
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == sizes
