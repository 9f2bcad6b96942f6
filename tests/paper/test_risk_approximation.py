"""Section 3.3: the second term estimated from a few candidate items."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax

import densirank
from densirank.risks import fused
from densirank.settings import Candidates
from densirank.training.batches import BatchSampler

N_ITEMS = 10_000


@pytest.fixture(scope="module")
def scores() -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal(N_ITEMS)


@pytest.fixture(scope="module")
def errors(scores: NDArray[np.float64]) -> Callable[[Candidates, int], NDArray[np.float64]]:
    """How far R̂ is from R for one user, over many draws of I_B."""
    owned = [5, 77, 4321]
    exact = float(softmax(scores) @ scores - scores[owned].mean())
    data = densirank.read(sparse.csr_array(([1] * 3, ([0] * 3, owned)), shape=(1, N_ITEMS)))
    user = torch.ones(1, 1, dtype=torch.float64)
    items = torch.from_numpy(scores).unsqueeze(1)

    def measured(candidates: Candidates, draws: int) -> NDArray[np.float64]:
        sampler = BatchSampler(data, 1, candidates, seed=0, device=torch.device("cpu"))
        batches = map(sampler, range(draws))
        risks = [fused.pde_risk(user, items[batch.items], batch.positives) for batch in batches]
        return np.array([float(risk) for risk in risks]) - exact

    return measured


def test_all_items_as_candidates_give_the_exact_risk(
    errors: Callable[[Candidates, int], NDArray[np.float64]],
) -> None:
    """Section 3.3: E_p0[exp(f) f] / E_p0[exp(f)] over all of I is E_{p_f}[f]."""
    np.testing.assert_allclose(errors("all", 1), 0, atol=1e-12)
    np.testing.assert_allclose(errors(N_ITEMS, 1), 0, atol=1e-12)


def test_error_of_uniform_candidates_falls_like_one_over_the_root_of_their_number(
    errors: Callable[[Candidates, int], NDArray[np.float64]],
) -> None:
    """Section 3.3, Eq. (risk-estimator): self-normalised importance sampling is consistent."""
    root_mean_square = [np.sqrt(np.mean(errors(n, 150) ** 2)) for n in (64, 256, 1024)]
    first, second = (
        root_mean_square[0] / root_mean_square[1],
        root_mean_square[1] / root_mean_square[2],
    )
    assert root_mean_square[-1] < 0.08
    assert 1.6 < first < 2.5  # four times the candidates: half the error
    assert 1.6 < second < 2.5


def test_candidates_drawn_otherwise_estimate_the_density_over_another_base(
    scores: NDArray[np.float64], risk_of_scores: Callable[..., float]
) -> None:
    """Section 3.3: R̂ is biased for other sampling distributions; theirs takes the place of p0."""
    random = np.random.default_rng(1)
    popularity = softmax(0.7 * random.permutation(scores) + 0.7 * scores)
    drawn = random.choice(N_ITEMS, size=40_000, p=popularity)
    positive = np.zeros((1, len(drawn)), dtype=bool)
    positive[0, 0] = True
    risk = risk_of_scores(fused.pde_risk, scores[drawn][None], positive)
    second_term = risk + scores[drawn[0]]
    tilted = popularity * np.exp(scores)
    assert abs(second_term - tilted @ scores / tilted.sum()) < 0.05
    assert abs(second_term - softmax(scores) @ scores) > 0.4
