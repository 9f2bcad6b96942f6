"""A vector of one's own: the least of one's own risk, whoever else is in the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from densirank.linalg.csr import Rows
from densirank.risks import Positives, density
from densirank.solvers import own_risk as alone
from densirank.solvers.least_squares import least_squares
from densirank.solvers.own_risk import clipped, least_own_risk

DENSE = {"pde": density.pde_risk, "wd": density.wd_risk, "mle": density.mle_risk}
L2, SHARE = 0.05, 0.5
HISTORIES = [[0, 3], [1], [2, 4, 7, 9], [5, 11], [0, 1, 2, 3, 4, 5]]


def _rows(histories: list[list[int]]) -> Rows:
    lengths = torch.tensor([len(history) for history in histories])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    return Rows(indptr, torch.tensor([item for history in histories for item in history]))


@pytest.fixture
def items() -> Tensor:
    return torch.randn(12, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.fixture
def given() -> Tensor:
    size = (len(HISTORIES), 3)
    return torch.randn(size, generator=torch.Generator().manual_seed(2), dtype=torch.float64) / 2


def _objective(risk: str, x: Tensor, given: Tensor, items: Tensor, history: list[int]) -> Tensor:
    """One user's part of Eq. (pde-obj), written with the dense risks."""
    rows = _rows([history])
    positives = Positives(rows.indptr, rows.columns, len(items))
    own = DENSE[risk]((given + SHARE * x).unsqueeze(0), items, positives)
    return own + L2 / 2 * x.square().sum()


def _found(
    risk: str, items: Tensor, given: Tensor, max_norm: float | None = None, steps: int = 80
) -> Tensor:
    return least_own_risk(
        risk,
        items,
        _rows(HISTORIES),
        given=given,
        share=SHARE,
        l2=L2,
        max_norm=max_norm,
        steps=steps,
    )


@pytest.mark.parametrize("risk", DENSE)
def test_without_clipping_the_gradient_of_the_objective_is_zero(
    risk: str, items: Tensor, given: Tensor
) -> None:
    found = _found(risk, items, given).requires_grad_()
    for user, history in enumerate(HISTORIES):
        value = _objective(risk, found[user], given[user], items, history)
        (gradient,) = torch.autograd.grad(value, found)
        assert gradient[user].norm() < 1e-5


def test_likelihood_which_is_convex_has_the_minimum_that_scipy_finds(
    items: Tensor, given: Tensor
) -> None:
    found = _found("mle", items, given)
    for user, history in enumerate(HISTORIES):

        def value(x: np.ndarray, user: int = user, history: list[int] = history) -> float:
            return float(_objective("mle", torch.from_numpy(x), given[user], items, history))

        expected = minimize(value, np.zeros(3), tol=1e-10).x
        np.testing.assert_allclose(found[user], expected, atol=1e-4)


@pytest.mark.parametrize("risk", DENSE)
def test_a_clipped_vector_would_only_leave_the_ball(
    risk: str, items: Tensor, given: Tensor
) -> None:
    found = _found(risk, items, given, max_norm=0.3).requires_grad_()
    norms = torch.linalg.vector_norm(found, dim=1)
    assert norms.max() <= 0.3 + 1e-9
    assert (norms > 0.3 - 1e-9).any()
    for user, history in enumerate(HISTORIES):
        value = _objective(risk, found[user], given[user], items, history)
        gradient = torch.autograd.grad(value, found)[0][user]
        projected = clipped((found[user] - gradient).unsqueeze(0), 0.3)
        assert torch.linalg.vector_norm(projected - found[user]) < 1e-4


@pytest.mark.parametrize("risk", DENSE)
def test_nobody_elses_presence_changes_a_vector(risk: str, items: Tensor, given: Tensor) -> None:
    together = _found(risk, items, given, steps=12)
    for user, history in enumerate(HISTORIES):
        single = least_own_risk(
            risk,
            items,
            _rows([history]),
            given=given[[user]],
            share=SHARE,
            l2=L2,
            max_norm=None,
            steps=12,
        )
        torch.testing.assert_close(single[0], together[user])


@pytest.mark.parametrize("risk", DENSE)
def test_a_large_catalogue_is_seen_through_evenly_spaced_candidates(
    risk: str, items: Tensor, given: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "CANDIDATES", 6)
    found = _found(risk, items, given).requires_grad_()
    order = [*range(0, 12, 2), *range(1, 12, 2)]  # the candidates first
    for user, history in enumerate(HISTORIES):
        rows = _rows([[order.index(item) for item in history]])
        positives = Positives(rows.indptr, rows.columns, 6)
        vector = (given[user] + SHARE * found[user]).unsqueeze(0)
        value = DENSE[risk](vector, items[order], positives) + L2 / 2 * found[user].square().sum()
        (gradient,) = torch.autograd.grad(value, found)
        assert gradient[user].norm() < 1e-5


def test_least_squares_leave_no_gradient(items: Tensor) -> None:
    rows = _rows(HISTORIES)
    solved = least_squares(items, rows, observed=7.0, unobserved=0.5, l2=2.0).requires_grad_()
    had = torch.zeros(len(HISTORIES), len(items), dtype=torch.float64)
    had[rows.row_of_entry, rows.columns] = 1
    squares = torch.where(had > 0, 7.0, 0.5) * (had - solved @ items.T).square()
    objective = squares.sum() + 2.0 * solved.square().sum()
    (gradient,) = torch.autograd.grad(objective, solved)
    assert gradient.abs().max() < 1e-9
