"""Section 4.1: the density is the best generator, so that none needs to be trained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, rel_entr, softmax

from densirank.risks import density

Floats = NDArray[np.float64]
N_ITEMS = 6
BASES = [np.full(N_ITEMS, 1 / N_ITEMS), np.array([0.4, 0.05, 0.2, 0.05, 0.1, 0.2])]


@pytest.mark.parametrize("base", BASES, ids=["uniform", "skewed"])
def test_the_best_generator_is_the_density_itself(base: Floats) -> None:
    """Section 4.1: q* = p_f maximises E_q[f] − KLD(q ‖ p0), and the maximum is A(f)."""
    random = np.random.default_rng(0)
    scores = 2 * random.standard_normal(N_ITEMS)
    log_partition = logsumexp(scores, b=base)
    p_f = base * np.exp(scores - log_partition)

    def loss(logits: Floats) -> float:
        q = softmax(logits)
        return float(rel_entr(q, base).sum() - q @ scores)

    for _ in range(5):
        found = minimize(loss, 2 * random.standard_normal(N_ITEMS), method="BFGS")
        np.testing.assert_allclose(-found.fun, log_partition, atol=1e-8)
        np.testing.assert_allclose(softmax(found.x), p_f, atol=1e-4)


@pytest.mark.parametrize("base", BASES, ids=["uniform", "skewed"])
@pytest.mark.parametrize("positive_items", [[0], [1, 3], [0, 2, 4, 5]])
def test_generator_against_ranker_has_no_duality_gap(
    base: Floats, positive_items: list[int]
) -> None:
    """Theorem 1: min_q KLD(q ‖ p0) + WD(P ‖ q) = max_f Ê₊[f] − A(f) over 1-Lipschitz f."""
    observed = np.zeros(N_ITEMS)
    observed[positive_items] = 1 / len(positive_items)

    # On a discrete metric space the Wasserstein distance is Σ (P − q)₊: variables q and t ≥ P − q.
    generator = minimize(
        lambda x: float(rel_entr(x[:N_ITEMS], base).sum() + x[N_ITEMS:].sum()),
        np.concatenate((base, observed)),
        method="SLSQP",
        bounds=[(1e-9, 1)] * N_ITEMS + [(0, 1)] * N_ITEMS,
        constraints=[
            {"type": "eq", "fun": lambda x: x[:N_ITEMS].sum() - 1},
            {"type": "ineq", "fun": lambda x: x[N_ITEMS:] - observed + x[:N_ITEMS]},
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    # Neither side changes when a constant is added to f, so 1-Lipschitz f are those in [0, 1]ⁿ.
    ranker = minimize(
        lambda f: float(logsumexp(f, b=base) - observed @ f),
        np.full(N_ITEMS, 0.5),
        bounds=[(0, 1)] * N_ITEMS,
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    assert generator.success
    assert ranker.success
    np.testing.assert_allclose(generator.fun, -ranker.fun, atol=1e-6)
    best = base * np.exp(ranker.x)
    np.testing.assert_allclose(generator.x[:N_ITEMS], best / best.sum(), atol=1e-3)


def test_the_max_min_objective_is_the_likelihood(risk_of_scores: Callable[..., float]) -> None:
    """Eq. (max-min-irwgan) with q* put in: Ê₊[f] − A(f); R(f) differs from it by KLD(p_f ‖ p0)."""
    random = np.random.default_rng(1)
    scores = random.standard_normal((1, N_ITEMS))
    positive = np.array([[True, False, True, False, False, False]])
    p_f = softmax(scores[0])
    divergence = rel_entr(p_f, 1 / N_ITEMS).sum()
    inner_minimum = divergence - p_f @ scores[0]
    objective = scores[positive].mean() + inner_minimum
    likelihood_risk = risk_of_scores(density.mle_risk, scores, positive)
    penalised_risk = risk_of_scores(density.pde_risk, scores, positive)
    np.testing.assert_allclose(-objective, likelihood_risk - np.log(N_ITEMS))
    np.testing.assert_allclose(-objective, penalised_risk - divergence)
