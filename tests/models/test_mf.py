from __future__ import annotations

import numpy as np
import torch

from densirank.models.base import INITIAL_SCALE
from densirank.models.mf import MatrixFactorisation


def _model(seed: int = 0, n_users: int = 6, n_items: int = 9, dim: int = 4) -> MatrixFactorisation:
    return MatrixFactorisation(n_users, n_items, dim, torch.Generator().manual_seed(seed))


def test_vectors_are_the_trainable_tables() -> None:
    model = _model()
    users, items = model.vectors()
    assert users is model.user_table
    assert items is model.item_table
    assert users.shape == (6, 4)
    assert items.shape == (9, 4)


def test_start_depends_on_the_generator_alone() -> None:
    torch.manual_seed(1)
    first = _model(seed=7)
    torch.manual_seed(2)
    second, other = _model(seed=7), _model(seed=8)
    assert torch.equal(first.user_table, second.user_table)
    assert torch.equal(first.item_table, second.item_table)
    assert not torch.equal(first.user_table, other.user_table)


def test_start_has_the_scale_it_says() -> None:
    model = _model(n_users=200, n_items=300, dim=50)
    for table in model.vectors():
        np.testing.assert_allclose(float(table.detach().std()), INITIAL_SCALE, rtol=0.03)
        assert abs(float(table.detach().mean())) < 0.05 * INITIAL_SCALE


def test_regularisation_is_half_the_mean_squared_norm_of_the_batch() -> None:
    model = _model()
    users, items = [4, 0], [8, 1, 3]
    u, v = (table.detach().double().numpy() for table in model.vectors())
    expected = 0.5 * (np.mean([u[i] @ u[i] for i in users]) + np.mean([v[i] @ v[i] for i in items]))
    actual = model.regularised(torch.tensor(users), torch.tensor(items))
    np.testing.assert_allclose(float(actual.detach()), expected, rtol=1e-6)


def test_regularisation_pulls_only_at_the_vectors_of_the_batch() -> None:
    model = _model()
    model.regularised(torch.tensor([4, 0]), torch.tensor([8, 1, 3])).backward()  # type: ignore[no-untyped-call]
    assert model.user_table.grad is not None
    assert model.item_table.grad is not None
    assert model.user_table.grad.any(dim=1).nonzero().squeeze(1).tolist() == [0, 4]
    assert model.item_table.grad.any(dim=1).nonzero().squeeze(1).tolist() == [1, 3, 8]
    torch.testing.assert_close(model.user_table.grad[4], model.user_table.detach()[4] / 2)


def test_clipping_is_idempotent_and_reaches_both_tables() -> None:
    model = _model()
    with torch.no_grad():
        model.user_table.mul_(100)
        model.item_table.mul_(100)
    model.clip_(2.5)
    once = [table.detach().clone() for table in model.vectors()]
    for table in once:
        torch.testing.assert_close(table.norm(dim=1), torch.full((len(table),), 2.5))
    model.clip_(2.5)
    for table, before in zip(model.vectors(), once, strict=True):
        torch.testing.assert_close(table.detach(), before)
