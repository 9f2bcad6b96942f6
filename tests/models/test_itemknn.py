"""ItemKNN against its dense formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from densirank import Interactions, Ranker
from densirank.data.synthetic import planted
from densirank.linalg import sparse as sparse_products
from densirank.models import itemknn
from densirank.models.itemknn import nearest_items
from densirank.scores import VectorScorer

Floats = NDArray[np.floating]
seeds = st.integers(0, 2**32 - 1)
shrinkages = st.sampled_from([0.0, 1.0, 30.0])


def _log(seed: int) -> Interactions:
    """Some users' items; the first user has none, and nobody has the fourth item."""
    train = planted(15, 12, items_per_user=4, test_items_per_user=2, seed=seed).train
    return train.select((train.users > 0) & (train.items != 3))


def _similarities(data: Interactions, shrinkage: float) -> Floats:
    """s_ij, written down."""
    owned = data.matrix().toarray().astype(np.float64)
    shared = owned.T @ owned
    lengths = np.sqrt(np.outer(shared.diagonal(), shared.diagonal())) + shrinkage
    similarities = np.where(shared > 0, shared / np.where(shared > 0, lengths, 1), 0)
    np.fill_diagonal(similarities, 0)
    return similarities


def _scores(ranker: Ranker) -> Floats:
    """Without the fallback for who and what has no interactions."""
    everybody = torch.arange(ranker.interactions_.n_users)
    return VectorScorer.scores(ranker.scorer_, everybody).numpy()


@settings(max_examples=30)
@given(seeds, shrinkages, st.sampled_from([1, 50, 10**6]))
def test_with_all_neighbours_it_is_the_dense_formula(
    seed: int, shrinkage: float, block_products: int
) -> None:
    data = _log(seed)
    owned = data.matrix().toarray()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_products, "BLOCK_PRODUCTS", block_products)
        ranker = Ranker("itemknn", neighbours=12, l2=shrinkage, device="cpu").fit(data)
    expected = owned @ _similarities(data, shrinkage)
    np.testing.assert_allclose(_scores(ranker), expected, rtol=1e-5, atol=1e-7)


@settings(max_examples=30)
@given(seeds, shrinkages)
def test_an_item_keeps_its_most_similar_others(seed: int, shrinkage: float) -> None:
    data = _log(seed)
    similarities = _similarities(data, shrinkage)
    near = nearest_items(data, 3, shrinkage).toarray()
    kept = near > 0
    np.testing.assert_allclose(near[kept], similarities[kept], rtol=1e-5)
    best = np.sort(similarities, axis=1)[:, -3:]
    np.testing.assert_allclose(np.sort(near, axis=1)[:, -3:], best, rtol=1e-5)


def test_an_item_is_scored_by_its_own_neighbours() -> None:
    data = _log(seed=2)
    owned = data.matrix().toarray()
    near = nearest_items(data, 2, 1.0).toarray()
    assert not np.array_equal(near, near.T)  # or the test could not tell whose they are
    ranker = Ranker("itemknn", neighbours=2, l2=1.0, device="cpu").fit(data)
    expected = owned @ near.T
    np.testing.assert_allclose(_scores(ranker), expected, rtol=1e-5)


def test_a_user_keeps_the_highest_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _log(seed=2)
    everything = _scores(Ranker("itemknn", device="cpu").fit(data))
    monkeypatch.setattr(itemknn, "KEPT", 3)
    kept = _scores(Ranker("itemknn", device="cpu").fit(data))
    owned = data.matrix().toarray() > 0
    np.testing.assert_array_equal(kept[owned], everything[owned])
    kept[owned] = everything[owned] = 0
    np.testing.assert_array_equal(np.sort(kept)[:, -3:], np.sort(everything)[:, -3:])
    assert ((kept > 0).sum(axis=1) <= 3).all()
    np.testing.assert_array_equal(kept[kept > 0], everything[kept > 0])


def test_similar_items_are_the_nearest_and_no_others() -> None:
    data = _log(seed=2)
    ranker = Ranker("itemknn", neighbours=4, l2=0.5, device="cpu").fit(data)
    similarities = _similarities(data, 0.5)
    for item in range(12):
        found = ranker.similar_items(item, k=10)
        expected = np.sort(similarities[item])[::-1][:4]
        np.testing.assert_allclose(found["score"].to_numpy(), expected[expected > 0], rtol=1e-5)
        listed = similarities[item, found["item_id"].to_numpy()]
        np.testing.assert_allclose(found["score"].to_numpy(), listed, rtol=1e-5)
