"""Section 3.2: the penalised likelihood and the risk it becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, logsumexp, rel_entr, softmax

from densirank.risks import Positives, Risk, density, fused


@pytest.mark.parametrize("risk", [density.pde_risk, fused.pde_risk])
def test_risk_is_negative_log_likelihood_plus_divergence_up_to_one_constant(
    risk: Risk, risk_of_scores: Callable[..., float]
) -> None:
    """Section 3.2, Eq. (nll-risk): R(f) = E_u[Ê₊[−log p_f] + KLD(p_f ‖ p0)] − C, C = −log p0."""
    random = np.random.default_rng(0)
    n_users, n_items = 7, 23
    positive = random.random((n_users, n_items)) < 0.3
    positive[:, 4] = True
    differences = []
    for scale in (0.01, 0.3, 1.0, 4.0, 15.0):
        scores = scale * random.standard_normal((n_users, n_items))
        log_density = log_softmax(scores, axis=1)
        likelihood = [-row[mine].mean() for row, mine in zip(log_density, positive, strict=True)]
        divergence = rel_entr(np.exp(log_density), 1 / n_items).sum(axis=1)
        penalised = np.mean(likelihood + divergence)
        differences.append(penalised - risk_of_scores(risk, scores, positive))
    np.testing.assert_allclose(differences, np.log(n_items), rtol=0, atol=1e-12)


def test_divergence_is_expected_score_minus_log_partition() -> None:
    """Section 3.2, the four lines of KLD(p_f ‖ p0) = E_{p_f}[f] − A(f), for any base density."""
    random = np.random.default_rng(1)
    base = random.dirichlet(np.ones(9))
    scores = 3 * random.standard_normal(9)
    log_partition = logsumexp(scores, b=base)
    p = base * np.exp(scores - log_partition)
    np.testing.assert_allclose(p.sum(), 1)
    np.testing.assert_allclose(rel_entr(p, base).sum(), p @ scores - log_partition)


def test_likelihood_alone_is_the_risk_without_the_divergence(
    risk_of_scores: Callable[..., float],
) -> None:
    """Eq. (naive-likelihood) without its last term: mle_risk = Ê₊[−log p_f] exactly."""
    random = np.random.default_rng(2)
    scores = 2 * random.standard_normal((5, 11))
    positive = random.random((5, 11)) < 0.4
    positive[:, 0] = True
    log_density = log_softmax(scores, axis=1)
    expected = np.mean([-row[mine].mean() for row, mine in zip(log_density, positive, strict=True)])
    np.testing.assert_allclose(risk_of_scores(fused.mle_risk, scores, positive), expected)


def _expected_score(scores: NDArray[np.float64]) -> float:
    return float(softmax(scores) @ scores)


def _log_partition(scores: NDArray[np.float64]) -> float:
    return float(logsumexp(scores))


@pytest.mark.parametrize(
    ("risk", "term", "by_hand"),
    [
        (fused.pde_risk, _expected_score, lambda p, f: p * (1 + f - p @ f)),
        (fused.wd_risk, _expected_score, lambda p, f: p * (1 + f - p @ f)),
        (fused.mle_risk, _log_partition, lambda p, f: p),
    ],
)
def test_gradient_of_the_second_term_is_closed_form(
    risk: Risk, term: Callable[..., float], by_hand: Callable[..., Any]
) -> None:
    """∂E_p[f]/∂f_i = p_i (1 + f_i − E_p[f]), the second term of Eq. (risk-estimator)."""
    random = np.random.default_rng(3)
    scores = 2 * random.standard_normal(8)
    formula = by_hand(softmax(scores), scores)
    finite = approx_fprime(scores, term, 1e-7)
    np.testing.assert_allclose(formula, finite, atol=1e-5)

    # The one positive is no candidate, so the candidates' gradient is that of the second term.
    items = torch.from_numpy(np.append(scores, 0.7)).unsqueeze(1).requires_grad_()
    one_user = torch.ones(1, 1, dtype=torch.float64)
    positives = Positives(torch.tensor([0, 1]), torch.tensor([8]), n_candidates=8)
    (gradient,) = torch.autograd.grad(risk(one_user, items, positives), items)
    np.testing.assert_allclose(gradient[:8, 0].numpy(), formula, atol=1e-12)
