"""Sections 4.2 and 4.3: the density on unobserved items and its pairwise relatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from densirank.risks import Positives, Risk, density, fused


@pytest.mark.parametrize(
    ("wd_risk", "pde_risk"),
    [(density.wd_risk, density.pde_risk), (fused.wd_risk, fused.pde_risk)],
    ids=["dense", "fused"],
)
def test_wd_risk_is_pde_risk_on_the_catalogue_without_the_positives(
    wd_risk: Risk, pde_risk: Risk, risk_of_scores: Callable[..., float]
) -> None:
    """Section 4.2, Eq. (risk-estimator-ds): I_B is replaced by I_B ∖ I_u⁺, user by user."""
    random = np.random.default_rng(0)
    scores = 2 * random.standard_normal((6, 15))
    positive = random.random((6, 15)) < 0.3
    positive[:, 7] = True
    user = torch.ones(1, 1, dtype=torch.float64)
    by_user = []
    for row, mine in zip(scores, positive, strict=True):
        items = torch.from_numpy(np.concatenate((row[~mine], row[mine]))).unsqueeze(1)
        n_candidates, n_positives = int((~mine).sum()), int(mine.sum())
        columns = torch.arange(n_candidates, len(row))
        only_unobserved = Positives(torch.tensor([0, n_positives]), columns, n_candidates)
        by_user.append(float(pde_risk(user, items, only_unobserved)))
    np.testing.assert_allclose(risk_of_scores(wd_risk, scores, positive), np.mean(by_user))


numbers = st.floats(-12, 12)
some_scores = st.lists(numbers, min_size=1, max_size=6)


@given(some_scores, some_scores)
def test_wd_risk_bounds_the_pairwise_risk_from_below_within_the_lipschitz_constant(
    risk_of_scores: Callable[..., float], of_positives: list[float], of_others: list[float]
) -> None:
    """Section 4.3, Eqs. (bpr-ub-proposed) to (jgap-upper-bound), for Q_u = p_f on I ∖ I_u⁺."""
    positives, others = np.array(of_positives), np.array(of_others)
    margins = others[:, None] - positives  # (unobserved, positives)
    weights = softmax(others)[:, None] / len(positives)
    pairwise = (weights * np.logaddexp(0, margins)).sum()

    scores = np.concatenate((positives, others))
    positive = np.arange(len(scores)) < len(positives)
    mu = risk_of_scores(fused.wd_risk, scores[None], positive[None])
    gap = pairwise - np.logaddexp(0, mu)
    assert gap >= -1e-9
    assert gap <= (weights * abs(np.logaddexp(0, margins) - np.logaddexp(0, mu))).sum() + 1e-9
    assert gap <= (weights * abs(margins - mu)).sum() + 1e-9
    assert (weights * abs(margins - mu)).sum() <= np.ptp(scores) + 1e-9


@given(numbers, numbers, st.integers(1, 4), st.integers(1, 4))
def test_the_lower_bound_is_reached_where_all_margins_are_equal(
    risk_of_scores: Callable[..., float], of_positives: float, of_others: float, n: int, m: int
) -> None:
    """Section 4.3: Jensen's inequality leaves no gap for a constant."""
    scores = np.repeat([of_positives, of_others], [n, m])[None]
    positive = np.repeat([True, False], [n, m])[None]
    wd = risk_of_scores(fused.wd_risk, scores, positive)
    assert wd == pytest.approx(of_others - of_positives, abs=1e-12)


def test_pde_risk_is_no_lower_bound_of_the_pairwise_risk(
    risk_of_scores: Callable[..., float],
) -> None:
    """Section 4.3 speaks of WD alone: over all of I the positives compete as well."""
    scores, positive = np.array([[3.0, 0.0, 0.0]]), np.array([[True, False, False]])
    pairwise = np.logaddexp(0, -3.0)
    assert np.logaddexp(0, risk_of_scores(fused.wd_risk, scores, positive)) <= pairwise + 1e-12
    assert np.logaddexp(0, risk_of_scores(fused.pde_risk, scores, positive)) > 2 * pairwise
