"""Selecting the best columns in two steps equals sorting everything, ties included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from densirank.ranking import topk as selection
from densirank.ranking.topk import best_columns


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 6),
    columns=st.integers(1, 90),
    k=st.integers(1, 12),
    levels=st.integers(1, 30),
    barred=st.floats(0, 1),
)
def test_groups_of_columns_equal_a_stable_sort(
    seed: int, rows: int, columns: int, k: int, levels: int, barred: float
) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(0, levels, (rows, columns)).astype(np.float32)
    scores[random.random(scores.shape) < barred] = -np.inf
    k = min(k, columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "GROUP", 2)  # so that small blocks take the way of large ones
        best, chosen = best_columns(torch.from_numpy(scores), k)
    order = np.lexsort((np.broadcast_to(np.arange(columns), scores.shape), -scores), axis=1)[:, :k]
    expected = np.take_along_axis(scores, order, axis=1)
    np.testing.assert_array_equal(best.numpy(), expected)
    there = np.isfinite(expected)
    np.testing.assert_array_equal(chosen.numpy()[there], order[there])


def test_a_wide_block_is_not_sorted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = []
    look_at_all = selection._best

    def watched(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        widths.append(scores.shape[1])
        return look_at_all(scores, k)

    monkeypatch.setattr(selection, "_best", watched)
    scores = torch.randn(3, 40_961, generator=torch.Generator().manual_seed(0))
    best, columns = best_columns(scores, 20)
    assert widths == [641, 20 * 64]
    assert torch.equal(best, scores.topk(20).values)
    assert torch.equal(scores.gather(1, columns), best)
