"""EASE against what defines it: ridge regressions of every item on all others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from densirank import Interactions, Ranker
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.models import ease
from densirank.models.ease import item_weights
from densirank.scores import VectorScorer

CPU = torch.device("cpu")
Floats = NDArray[np.floating]
seeds = st.integers(0, 2**32 - 1)
penalties = st.sampled_from([0.5, 10.0, 500.0])


def _log(seed: int) -> Interactions:
    """Some users' items; the first user has none, and nobody has the fourth item."""
    train = planted(25, 12, items_per_user=4, test_items_per_user=2, seed=seed).train
    return train.select((train.users > 0) & (train.items != 3))


def _regressions(data: Interactions, l2: float) -> Floats:
    """B column by column, each item regressed on the others: no inverse, no constraint."""
    owned = data.matrix().toarray().astype(np.float64)
    n_items = data.n_items
    weights = np.zeros((n_items, n_items))
    for item in range(n_items):
        others = np.arange(n_items) != item
        rest = owned[:, others]
        weights[others, item] = np.linalg.solve(
            rest.T @ rest + l2 * np.eye(n_items - 1), rest.T @ owned[:, item]
        )
    return weights


def _scores(ranker: Ranker) -> Floats:
    """Without the fallback for users and items without interactions."""
    users = torch.arange(ranker.interactions_.n_users)
    return VectorScorer.scores(ranker.scorer_, users).numpy()


def _kept(data: Interactions, l2: float) -> Floats:
    """Of items not had the positive scores; of items had all."""
    owned = data.matrix().toarray()
    scores = owned @ _regressions(data, l2)
    kept: Floats = np.where(owned > 0, scores, np.maximum(scores, 0))
    return kept


@settings(max_examples=30)
@given(seeds, penalties)
def test_the_weights_are_ridge_regressions_of_each_item_on_the_others(seed: int, l2: float) -> None:
    data = _log(seed)
    weights = item_weights(data, l2, CPU).numpy()
    np.testing.assert_allclose(weights, _regressions(data, l2), rtol=1e-3, atol=2e-6)


@settings(max_examples=30)
@given(seeds, penalties)
def test_the_objective_cannot_fall_while_the_diagonal_is_zero(seed: int, l2: float) -> None:
    data = _log(seed)
    weights = item_weights(data, l2, CPU).numpy().astype(np.float64)
    owned = data.matrix().toarray().astype(np.float64)
    gradient = owned.T @ (owned @ weights - owned) + l2 * weights
    assert (weights.diagonal() == 0).all()
    off_diagonal = gradient[~np.eye(len(weights), dtype=bool)]
    np.testing.assert_allclose(off_diagonal, 0, atol=1e-5 * (l2 + len(owned)))


@pytest.mark.parametrize("block_bytes", [1, 200, 1 << 20])
def test_scores_are_those_of_the_dense_formula(
    block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ease, "BLOCK_BYTES", block_bytes)
    data = _log(seed=5)
    ranker = Ranker("ease", l2=2.0, device="cpu").fit(data)
    expected = _kept(data, 2.0)
    assert (expected > 0).sum() > 100
    np.testing.assert_allclose(_scores(ranker), expected, rtol=1e-4, atol=1e-6)


def test_a_user_keeps_the_highest_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    data = _log(seed=5)
    everything = _scores(Ranker("ease", l2=2.0, device="cpu").fit(data))
    monkeypatch.setattr(ease, "KEPT", 3)
    kept = _scores(Ranker("ease", l2=2.0, device="cpu").fit(data))
    owned = data.matrix().toarray() > 0
    np.testing.assert_array_equal(kept[owned], everything[owned])
    kept[owned] = everything[owned] = 0
    np.testing.assert_array_equal(np.sort(kept)[:, -3:], np.sort(everything)[:, -3:])
    assert ((kept > 0).sum(axis=1) <= 3).all()
    np.testing.assert_array_equal(kept[kept > 0], everything[kept > 0])


def test_single_precision_is_enough_for_the_order_of_the_items() -> None:
    world = planted(400, 150, items_per_user=15, test_items_per_user=5, seed=1)
    lists = Ranker("ease", l2=5.0, device="cpu").fit(world.train).recommend(k=10)
    exact = np.where(world.train.matrix().toarray() > 0, 0, _kept(world.train, 5.0))
    best = np.sort(exact, axis=1)[:, :-11:-1]
    listed = exact[lists["user_id"].to_numpy(), lists["item_id"].to_numpy()].reshape(best.shape)
    np.testing.assert_allclose(listed, best, rtol=1e-4)


def test_similar_items_are_those_an_item_speaks_for_most() -> None:
    data = _log(seed=5)
    ranker = Ranker("ease", l2=2.0, neighbours=4, device="cpu").fit(data)
    weights = _regressions(data, 2.0)
    for item in range(12):
        found = ranker.similar_items(item, k=10)
        expected = np.sort(weights[item])[::-1][:4]
        np.testing.assert_allclose(found["score"].to_numpy(), expected[expected > 0], rtol=1e-3)
        listed = weights[item, found["item_id"].to_numpy()]
        np.testing.assert_allclose(found["score"].to_numpy(), listed, rtol=1e-3)


def test_two_items_of_the_same_users_need_a_penalty() -> None:
    twins = [(user, item) for user in range(5) for item in (0, 1)]
    with pytest.raises(InputError, match="has no inverse with l2 = 0; choose a larger l2"):
        Ranker("ease", l2=0.0, device="cpu").fit(twins)


def test_a_catalogue_beyond_memory_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ease, "memory_bytes", lambda device: 575)
    with pytest.raises(
        InputError,
        match="EASE needs 576 bytes of memory on cpu for 12 items, and there are 575; choose",
    ):
        Ranker("ease", device="cpu").fit(_log(seed=0))
    monkeypatch.setattr(ease, "memory_bytes", lambda device: 576)
    Ranker("ease", device="cpu").fit(_log(seed=0))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_same_weights() -> None:
    data = planted(400, 150, items_per_user=15, test_items_per_user=5, seed=1).train
    weights = item_weights(data, 5.0, torch.device("cuda")).cpu()
    torch.testing.assert_close(weights, item_weights(data, 5.0, CPU), rtol=1e-3, atol=1e-5)
