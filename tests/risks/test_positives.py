from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

import densirank
from densirank.csr import Rows
from densirank.risks import Positives

N_CANDIDATES = 6


@pytest.fixture
def owned() -> NDArray[np.bool_]:
    """(users, items); the items from N_CANDIDATES on are no candidates."""
    owned = np.random.default_rng(0).random((5, 9)) < 0.4
    owned[:, 7] = True
    owned[2, :N_CANDIDATES] = False  # one whose positives are all outside
    return owned


@pytest.fixture
def positives(owned: NDArray[np.bool_]) -> Positives:
    rows = Rows.of(densirank.read(sparse.csr_array(owned)), torch.device("cpu"))
    return Positives(rows.indptr, rows.columns, N_CANDIDATES)


def test_among_candidates_are_the_positives_that_are_candidates_in_order_of_rows(
    owned: NDArray[np.bool_], positives: Positives
) -> None:
    rows, columns = np.nonzero(owned[:, :N_CANDIDATES])
    actual_rows, actual_columns = positives.among_candidates()
    assert actual_rows.tolist() == rows.tolist()
    assert actual_columns.tolist() == columns.tolist()


def test_promise_that_all_are_candidates_changes_nothing_where_it_holds(
    positives: Positives,
) -> None:
    asked = Positives(positives.indptr, positives.columns, 9)
    promised = Positives(positives.indptr, positives.columns, 9, all_are_candidates=True)
    for one, other in zip(asked.among_candidates(), promised.among_candidates(), strict=True):
        assert torch.equal(one, other)


def test_averaging_takes_the_mean_over_each_users_positives(
    owned: NDArray[np.bool_], positives: Positives
) -> None:
    values = np.random.default_rng(1).standard_normal((9, 4))
    expected = np.array([values[mine].mean(axis=0) for mine in owned])
    averaging = positives.averaging(9, torch.float64)
    np.testing.assert_allclose((averaging @ torch.from_numpy(values)).numpy(), expected)
