"""What every risk promises: a function of vectors and positives, and of nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

import densirank
from densirank.linalg.csr import Rows
from densirank.risks import RISKS, Positives, Risk

DIM = 4
DRAWS = {name for name in RISKS if name.startswith("pairwise")}
"""Risks that draw negatives: what they draw depends on the seed and on the place in the batch."""
DETACHED = {"ratio", "irgan", "irwgan"}
"""Risks that hold weights fixed on purpose, as their papers say, so no gradient of the value."""
every_risk = pytest.mark.parametrize("name", RISKS)


def _risk(name: str) -> Risk:
    return RISKS[name].make(RISKS[name].settings())


def _batch(seed: int = 0, n_users: int = 5, n_items: int = 9) -> tuple[Tensor, Tensor, Positives]:
    """Vectors in double precision, the critic's and the generator's side by side where needed."""
    random = np.random.default_rng(seed)
    users, items = (
        torch.from_numpy(random.standard_normal((n, 2 * DIM))) for n in (n_users, n_items)
    )
    owned = random.random((n_users, n_items)) < 0.4
    owned[np.arange(n_users), random.integers(n_items, size=n_users)] = True
    rows = Rows.of(densirank.read(sparse.csr_array(owned)), torch.device("cpu"))
    return users, items, Positives(rows.indptr, rows.columns, n_items, seed=seed)


def _gradients(name: str, users: Tensor, items: Tensor, positives: Positives) -> list[Tensor]:
    users, items = users.clone().requires_grad_(), items.clone().requires_grad_()
    loss = _risk(name)(users, items, positives)
    return [loss.detach(), *torch.autograd.grad(loss, (users, items))]


@every_risk
@pytest.mark.parametrize("seed", range(3))
def test_it_is_one_finite_number_with_finite_gradients(name: str, seed: int) -> None:
    users, items, positives = _batch(seed)
    loss, by_users, by_items = _gradients(name, users, items, positives)
    assert loss.shape == ()
    assert by_users.shape == users.shape
    assert by_items.shape == items.shape
    assert all(bool(part.isfinite().all()) for part in (loss, by_users, by_items))
    assert by_users.any()
    assert by_items.any()


@every_risk
def test_the_seed_of_the_batch_alone_decides(name: str) -> None:
    batch = _batch()
    torch.manual_seed(1)
    first = _gradients(name, *batch)
    torch.manual_seed(2)
    for one, other in zip(first, _gradients(name, *batch), strict=True):
        assert torch.equal(one, other)


@every_risk
def test_nothing_that_it_is_given_is_changed(name: str) -> None:
    users, items, positives = _batch()
    before = [users.clone(), items.clone(), positives.columns.clone(), positives.indptr.clone()]
    _gradients(name, users, items, positives)
    for one, other in zip(before, [users, items, positives.columns, positives.indptr], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", [n for n in RISKS if n not in DRAWS | DETACHED])
def test_its_gradients_are_those_of_its_value(name: str) -> None:
    users, items, positives = _batch(n_users=3, n_items=5)
    risk = _risk(name)
    assert torch.autograd.gradcheck(
        lambda u, i: risk(u, i, positives),
        (users.requires_grad_(), items.requires_grad_()),
        atol=1e-6,
    )


@pytest.mark.parametrize("name", [n for n in RISKS if n not in DRAWS])
def test_the_order_of_the_users_changes_nothing(name: str) -> None:
    users, items, positives = _batch()
    loss, by_users, by_items = _gradients(name, users, items, positives)
    order = torch.tensor([3, 0, 4, 2, 1])
    moved = Positives(*_rows_in(positives, order), positives.n_candidates, seed=positives.seed)
    other = _gradients(name, users[order], items, moved)
    torch.testing.assert_close(other[0], loss)
    torch.testing.assert_close(other[1], by_users[order])
    torch.testing.assert_close(other[2], by_items)


@pytest.mark.parametrize("name", [n for n in RISKS if n not in DRAWS])
def test_the_order_of_the_candidates_changes_nothing(name: str) -> None:
    users, items, positives = _batch()
    loss, by_users, by_items = _gradients(name, users, items, positives)
    order = torch.randperm(len(items), generator=torch.Generator().manual_seed(0))
    moved = replace(positives, columns=order.argsort()[positives.columns])
    other = _gradients(name, users, items[order], moved)
    torch.testing.assert_close(other[0], loss)
    torch.testing.assert_close(other[1], by_users)
    torch.testing.assert_close(other[2], by_items[order])


@pytest.mark.parametrize("name", [n for n in RISKS if n not in DRAWS | {"ratio"}])
def test_it_is_the_mean_over_the_users(name: str) -> None:
    """Of the users alone, with the same candidates (DREGN-CF weighs users by their counts)."""
    users, items, positives = _batch()
    risk = _risk(name)
    alone = [risk(users[u : u + 1], items, positives.some(u, u + 1)) for u in range(len(users))]
    torch.testing.assert_close(torch.stack(alone).mean(), risk(users, items, positives))


@pytest.mark.parametrize("name", [n for n in RISKS if RISKS[n].is_density])
def test_a_density_risk_takes_weights_of_positives_users_and_items(name: str) -> None:
    """Weights that are all alike are no weights, and others change the gradients."""
    users, items, positives = _batch()
    _, by_users, _ = _gradients(name, users, items, positives)
    alike = replace(
        positives,
        weights=positives.shares(torch.float64),
        user_weights=torch.ones(len(users)),
        log_base=torch.full((len(items),), -3.0),
    )
    torch.testing.assert_close(_gradients(name, users, items, alike)[1], by_users)
    towards_first = torch.linspace(1, 2, len(users), dtype=torch.float64)
    for changed in (
        replace(positives, user_weights=towards_first / towards_first.mean()),
        replace(positives, log_base=torch.linspace(-1, 1, len(items), dtype=torch.float64)),
    ):
        assert not torch.allclose(_gradients(name, users, items, changed)[1], by_users)


def _rows_in(positives: Positives, order: Tensor) -> tuple[Tensor, Tensor]:
    parts = [positives.columns[positives.indptr[u] : positives.indptr[u + 1]] for u in order]
    lengths = torch.tensor([0, *map(len, parts)])
    return lengths.cumsum(0), torch.cat(parts)
