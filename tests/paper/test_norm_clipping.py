"""Section 3.4: short vectors make a smooth density."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

import densirank
from densirank.data.interactions import Interactions
from densirank.linalg.propagation import Propagation
from densirank.models.base import Factorisation
from densirank.models.lightgcn import LightGCN
from densirank.models.mf import MatrixFactorisation

Floats = NDArray[np.float64]
max_norms = st.floats(0.05, 1.5)


def _fill(model: Factorisation, users: Floats, items: Floats) -> None:
    model.double()
    model.user_table.data = torch.from_numpy(users.copy())
    model.item_table.data = torch.from_numpy(items.copy())


def _clipped_scores(users: Floats, items: Floats, max_norm: float) -> Floats:
    model = MatrixFactorisation(len(users), len(items), users.shape[1], torch.Generator())
    _fill(model, users, items)
    model.clip_(max_norm)
    user_vectors, item_vectors = (vectors.detach().numpy() for vectors in model.vectors())
    scores: Floats = user_vectors @ item_vectors.T
    return scores


def _smoothness(score_gap: float, n_items: int) -> float:
    """The L of Eq. (smoothness-condition) that a gap L̃ between scores leaves room for."""
    return float(np.expm1(score_gap) / (np.expm1(score_gap) + n_items))


@settings(max_examples=50)
@given(max_norms, st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_clipped_vectors_bound_the_gap_between_scores_and_between_probabilities(
    max_norm: float, length: float, seed: int
) -> None:
    """Eqs. (smoothness-condition), (lipschitz-condition-critic): ‖e‖ ≤ n̄ ⇒ L̃ = 2 n̄²."""
    random = np.random.default_rng(seed)
    users = length * random.standard_normal((4, 3))
    items = length * random.standard_normal((9, 3))
    scores = _clipped_scores(users, items, max_norm)
    score_gap = 2 * max_norm**2
    assert np.ptp(scores, axis=1).max() <= score_gap + 1e-12
    assert np.ptp(softmax(scores, axis=1), axis=1).max() <= _smoothness(score_gap, 9) + 1e-12


def test_the_bounds_are_reached_by_one_item_against_all_others() -> None:
    """Section 3.4: neither L̃ = 2 n̄² nor its L could be smaller."""
    users, items = np.array([[5.0, 0.0]]), np.array([[9.0, 0.0]] + 6 * [[-9.0, 0.0]])
    scores = _clipped_scores(users, items, max_norm=0.8)
    np.testing.assert_allclose(np.ptp(scores), 2 * 0.8**2)
    np.testing.assert_allclose(np.ptp(softmax(scores)), _smoothness(2 * 0.8**2, 7))


def test_clipping_shortens_long_vectors_and_leaves_the_others_alone() -> None:
    """Section 3.4, the operator clip(e, n̄), row by row in both tables."""
    random = np.random.default_rng(0)
    users = random.standard_normal((20, 4)) * np.geomspace(0.01, 100, 20)[:, None]
    items = users[::-1].copy()
    items[3] = 0
    model = MatrixFactorisation(20, 20, 4, torch.Generator())
    _fill(model, users, items)
    model.clip_(1.5)
    n_untouched = 0
    for before, table in ((users, model.user_table), (items, model.item_table)):
        for e, clipped in zip(before, table.detach().numpy(), strict=True):
            norm = np.linalg.norm(e)
            if norm <= 1.5:
                n_untouched += 1
                np.testing.assert_array_equal(clipped, e)
            else:
                np.testing.assert_allclose(clipped, 1.5 / norm * e)
    assert 10 < n_untouched < 30


def _light_gcn(data: Interactions, layers: int, users: Floats, items: Floats) -> LightGCN:
    model = LightGCN(data, layers, users.shape[1], torch.Generator())
    _fill(model, users, items)
    model.propagation = Propagation(data, layers, dtype=torch.float64)
    return model


def _coefficients(neighbours: list[list[int]], layers: int) -> Floats:
    """β of LightGCN as its authors define it: e⁽ᵏ⁺¹⁾ = Σ e⁽ᵏ⁾ / √(|N_v| |N_w|), then the mean."""
    layer = np.eye(len(neighbours))
    total = layer.copy()
    for _ in range(layers):
        layer = np.array(
            [
                sum(
                    (layer[w] / np.sqrt(len(mine) * len(neighbours[w])) for w in mine),
                    np.zeros(len(neighbours)),
                )
                for mine in neighbours
            ]
        )
        total += layer
    return total / (layers + 1)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_clipping_the_first_layer_bounds_the_final_vectors_of_light_gcn(layers: int) -> None:
    """Section 3.4: e_v = Σ_w β_{w,v} e_w⁽¹⁾ with β ≥ 0, so ‖e_v‖ ≤ n̄ Σ_w β_{w,v}; it is tight."""
    random = np.random.default_rng(layers)
    owned = random.random((6, 5)) < 0.4
    owned[2], owned[0, 0] = False, True  # a user without items among them
    graph = np.block([[np.zeros((6, 6)), owned], [owned.T, np.zeros((5, 5))]])
    beta = _coefficients([np.flatnonzero(row).tolist() for row in graph], layers)
    assert beta.min() >= 0
    bound = 2.0 * beta.sum(axis=1)
    data = densirank.read(sparse.csr_array(owned))

    def final_norms(users: Floats, items: Floats) -> Floats:
        model = _light_gcn(data, layers, users, items)
        model.clip_(2.0)
        return np.array(torch.cat(model.vectors()).norm(dim=1).tolist())

    for length in (0.5, 3.0, 30.0):
        users = length * random.standard_normal((6, 3))
        items = length * random.standard_normal((5, 3))
        assert (final_norms(users, items) <= bound + 1e-12).all()
    alike = np.full((6, 3), 4.0)
    np.testing.assert_allclose(final_norms(alike, alike[:5]), bound)


def test_final_vectors_of_light_gcn_may_be_longer_than_the_clipped_ones() -> None:
    """Section 3.4 bounds the final vectors, but not by n̄: a hub adds up its neighbours."""
    fans = 25
    data = densirank.read(sparse.csr_array(np.ones((fans, 1))))
    model = _light_gcn(data, 1, np.ones((fans, 1)), np.ones((1, 1)))
    model.clip_(1.0)
    assert float(model.vectors()[1].detach()) == pytest.approx((1 + np.sqrt(fans)) / 2)
