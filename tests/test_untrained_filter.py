"""The item–item filter beside what is made and not trained: popularity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from densirank import Interactions, Ranker, load
from densirank.data.synthetic import planted
from densirank.errors import InputError


@pytest.fixture(scope="module")
def data() -> Interactions:
    return planted(60, 40, items_per_user=8, seed=2).train


def test_popularity_with_a_filter_is_saved_folded_in_and_updated_like_any_model(
    data: Interactions, tmp_path: Path
) -> None:
    ranker = Ranker("popularity", device="cpu", filter_weight=20.0).fit(data)
    plain = Ranker("popularity", device="cpu").fit(data)
    assert not ranker.recommend(k=5).equals(plain.recommend(k=5))
    ranker.save(tmp_path / "m")
    assert load(tmp_path / "m", "cpu").recommend(k=5).equals(ranker.recommend(k=5))
    near = ranker.items_.near
    assert near is not None
    nearest = near[[3]].toarray()[0]
    nearest[3] = 0
    alike = ranker.similar_items(data.item_ids[3], k=1)["item_id"].to_list()
    assert alike == [data.item_ids[int(nearest.argmax())]]
    known = [int(item) for item in data.items_of(7)]
    folded = ranker.fold_in([(7, data.item_ids[item]) for item in known])
    here, there = folded.recommend(7, k=5), ranker.recommend(7, k=5)
    assert here["item_id"].to_list() == there["item_id"].to_list()
    np.testing.assert_allclose(here["score"], there["score"], rtol=1e-4)
    updated = ranker.update([(0, 99_999)])
    assert updated.interactions_.n_items == data.n_items + 1


@pytest.mark.parametrize("method", ["itemknn", "ease"])
def test_a_filter_beside_a_filter_is_refused(data: Interactions, method: str) -> None:
    with pytest.raises(InputError, match=f"unknown setting 'filter_weight' of {method}"):
        Ranker(method, device="cpu", filter_weight=0.2).fit(data)
