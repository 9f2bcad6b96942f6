"""Items told by their nearest ones, beside regressions that NumPy makes one at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

import densirank
from densirank.data.synthetic import planted
from densirank.filters import ridge as neighbour_ridge
from densirank.filters.ridge import PENALTY, SHRINKAGE, ridge_weights
from densirank.filters.similarity import nearness
from densirank.linalg import products
from densirank.models.ease import item_weights

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
Floats = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


def _rows(seed: int) -> sparse.csr_array:
    """Entries with weights of their own; the first row is empty, and so is the last column."""
    random = np.random.default_rng(seed)
    n_rows, n_items = random.integers(2, 30), random.integers(2, 15)
    there = random.random((n_rows, n_items)) < 0.4
    there[0], there[:, -1] = False, False
    there[1, 0] = True
    weights = random.uniform(0.5, 2.0, there.shape)  # no two items are equally near
    return sparse.csr_array((there * weights).astype(np.float32))


def _counts(rows: sparse.csr_array) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.maximum((rows.toarray() > 0).sum(axis=0), 1)
    return counts


def _regressions(rows: sparse.csr_array, told_by: int) -> Floats:
    """B, column by column: least squares with the penalty as rows of their own, of the nearest."""
    weighed = rows.toarray().astype(np.float64)
    weighed /= np.sqrt(np.mean(weighed[weighed > 0] ** 2))
    n_items = weighed.shape[1]
    length = np.sqrt(_counts(rows) + SHRINKAGE)
    similar = weighed.T @ weighed / length / length[:, None]
    found = np.zeros((n_items, n_items))
    for item in range(n_items):
        nearest = np.argsort(-similar[item], kind="stable")[:told_by]
        nearest = nearest[(nearest != item) & (similar[item][nearest] > 0)]
        penalised = np.vstack([weighed[:, nearest], np.sqrt(PENALTY) * np.eye(len(nearest))])
        target = np.concatenate([weighed[:, item], np.zeros(len(nearest))])
        found[nearest, item] = np.linalg.lstsq(penalised, target, rcond=None)[0]
    return found


@settings(max_examples=40)
@given(seeds, st.sampled_from([1, 4, 25]), st.sampled_from([1, 100, 1 << 20]))
def test_an_item_is_regressed_on_its_nearest_ones(
    seed: int, told_by: int, block_bytes: int
) -> None:
    rows = _rows(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_ridge, "TOLD_BY", told_by)
        patch.setattr(neighbour_ridge, "SYSTEMS_AT_ONCE", 3)
        patch.setattr(products, "BLOCK_BYTES", block_bytes)
        made = ridge_weights(rows, _counts(rows), DEVICE)
    np.testing.assert_allclose(made.toarray(), _regressions(rows, told_by), rtol=1e-3, atol=1e-5)


def test_told_by_all_others_it_is_ease(monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted(40, 12, items_per_user=6, test_items_per_user=2, seed=1).train
    monkeypatch.setattr(neighbour_ridge, "TOLD_BY", data.n_items)
    made = ridge_weights(data.matrix(), data.item_counts, DEVICE).toarray()
    gram = (data.matrix().T @ data.matrix()).toarray()
    assert (gram > 0).all()  # so that all are near enough to be told by
    expected = item_weights(data, PENALTY, DEVICE).cpu().numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-3, atol=1e-5)


def test_of_two_that_say_the_same_each_counts_half() -> None:
    """Where sums over rows would count a copy twice, a regression shares the weight out."""
    random = np.random.default_rng(5)
    first = random.random(400) < 0.5
    target = first & (random.random(400) < 0.8)
    once = sparse.csr_array(np.stack([first, target], axis=1).astype(np.float32))
    twice = sparse.csr_array(np.stack([first, target, first], axis=1).astype(np.float32))
    alone = ridge_weights(once, _counts(once), DEVICE).toarray()[0, 1]
    shared = ridge_weights(twice, _counts(twice), DEVICE).toarray()[[0, 2], 1]
    assert shared[0] == pytest.approx(shared[1], rel=1e-4)
    assert alone < shared.sum() < 1.3 * alone


def test_nearness_by_ridge_holds_popular_items_back() -> None:
    owned = np.random.default_rng(2).random((30, 10)) < 0.4
    owned[:, 0], owned[0] = True, True
    data = densirank.read(sparse.csr_array(owned))
    lengths = owned.sum(axis=1, keepdims=True)
    weights = _regressions(sparse.csr_array((owned * lengths**-0.25).astype(np.float32)), 25)
    made = nearness(data, DEVICE, kind="ridge").toarray()
    np.testing.assert_allclose(made, weights * owned.sum(axis=0) ** -0.2, rtol=1e-3, atol=1e-5)


def test_a_rare_item_does_not_tell_more_than_a_popular_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One shared user of an item's only one is a cosine of 1/√n, which shrinkage holds back."""
    monkeypatch.setattr(neighbour_ridge, "TOLD_BY", 2)  # the item itself, and one other
    owned = np.zeros((60, 3), dtype=np.float32)
    owned[:30, 0] = 1  # the item that is told
    owned[26:56, 1] = 1  # a popular one, with four users in common
    owned[0, 2] = 1  # a rare one
    made = ridge_weights(sparse.csr_array(owned), _counts(sparse.csr_array(owned)), DEVICE)
    assert made.toarray()[1, 0] > 0
    assert made.toarray()[2, 0] == 0
