from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from torch import Tensor

from densirank.risks import Positives
from densirank.risks.ratio import ratio_risk

Floats = NDArray[np.float64]
Owned = NDArray[np.bool_]
RandomBatch = Callable[..., tuple[Tensor, Tensor, Owned, Positives]]


def _mean(values: Floats, weights: Floats) -> float:
    return float((weights * values).sum() / weights.sum())


def _by_users(
    ratios: Floats, frozen: Floats, owned: Owned, n_candidates: int, bound: float
) -> list[tuple[float, float]]:
    """(the loss without its last part, ½ M_B(r²) − corr) of every user, as Togashi et al. say it.

    The weights are made of ``frozen``, which are the same ratios where nothing is differentiated.
    """
    parts = []
    for r, w, mine in zip(ratios, frozen, owned, strict=True):
        own, weights = r[mine], w[mine]
        correction = _mean(own**2, 1 / weights) / (2 * bound)
        prior = mine.sum() / owned.sum()
        variance = _mean(own**2, 1 / weights) - _mean(own**2, weights)
        square = _mean(r[:n_candidates] ** 2, w[:n_candidates])
        without = -_mean(own, 1 / weights) + prior * variance + correction
        parts.append((without, square / 2 - correction))
    return parts


def _risk(ratios: Floats, frozen: Floats, owned: Owned, n_candidates: int, bound: float) -> float:
    parts = _by_users(ratios, frozen, owned, n_candidates, bound)
    return float(np.mean([without + max(0.0, rest) for without, rest in parts]))


def _ratios(users: Floats, items: Floats) -> Floats:
    ratios: Floats = np.logaddexp(0, users @ items.T)
    return ratios


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 3),
    st.sampled_from([0.2, 1.0, 70.0]),
    st.sampled_from([0.1, 1.0, 3.0]),
)
def test_it_is_the_ranking_ulsif_of_every_user(
    random_batch: RandomBatch, seed: int, n_outside: int, bound: float, scale: float
) -> None:
    users, items, owned, positives = random_batch(seed, n_outside=n_outside, scale=scale)
    ratios = _ratios(users.detach().numpy(), items.detach().numpy())
    expected = _risk(ratios, ratios, owned, 8, bound)
    actual = ratio_risk(users, items, positives, bound).item()
    np.testing.assert_allclose(actual, expected, rtol=1e-8)


@pytest.mark.parametrize("bound", [0.2, 1.0, 70.0])
def test_the_gradient_is_that_of_the_loss_with_weights_left_alone(
    random_batch: RandomBatch, bound: float
) -> None:
    users, items, owned, positives = random_batch(n_outside=2)
    start = torch.cat([users, items]).detach().numpy()
    now = _ratios(start[:5], start[5:])

    def loss(numbers: Floats, frozen: Floats | None) -> float:
        table = numbers.reshape(start.shape)
        ratios = _ratios(table[:5], table[5:])
        return _risk(ratios, ratios if frozen is None else frozen, owned, 8, bound)

    risk = ratio_risk(users, items, positives, bound)
    actual = torch.cat(torch.autograd.grad(risk, (users, items))).numpy().ravel()
    expected = approx_fprime(start.ravel(), loss, 1e-7, now)
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    with_moving_weights = approx_fprime(start.ravel(), loss, 1e-7, None)
    assert abs(with_moving_weights - expected).max() > 1e-2  # which is not the same


def test_an_estimate_that_falls_below_what_positives_contribute_is_cut_off(
    random_batch: RandomBatch,
) -> None:
    """A square is not negative; candidates are not pushed below it, and above it they are."""
    users, items, owned, positives = random_batch(n_users=2, n_candidates=12, scale=0.3)
    nobodys = torch.from_numpy(~owned.any(axis=0))
    assert nobodys.any()
    ratios = _ratios(users.detach().numpy(), items.detach().numpy())
    for bound, is_cut_off in ((0.01, True), (70.0, False)):
        rests = [rest for _, rest in _by_users(ratios, ratios, owned, 8, bound)]
        assert all((rest < 0) == is_cut_off for rest in rests)
        risk = ratio_risk(users, items, positives, bound)
        (gradient,) = torch.autograd.grad(risk, items)
        assert gradient[nobodys].any() != is_cut_off


def test_a_positive_that_scores_very_low_makes_nothing_infinite(
    positives_of: Callable[..., Positives],
) -> None:
    users = torch.tensor([[10.0]], requires_grad=True)
    items = torch.tensor([[-20.0], [1.0], [0.5]], requires_grad=True)
    risk = ratio_risk(users, items, positives_of(np.array([[True, True, False]])), 70.0)
    risk.backward()  # type: ignore[no-untyped-call]
    assert risk.isfinite()
    assert users.grad is not None
    assert users.grad.isfinite().all()
