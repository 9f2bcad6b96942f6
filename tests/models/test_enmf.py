from __future__ import annotations

import numpy as np
import torch

from densirank.models.enmf import ENMF

USERS, ITEMS = torch.tensor([4, 0]), torch.tensor([8, 1, 3])


def _model(dropout: float = 0.0, dim: int = 5) -> ENMF:
    generator = torch.Generator().manual_seed(0)
    model = ENMF(6, 9, dim, dropout, generator).double()
    with torch.no_grad():
        model.dimension_weights.copy_(torch.randn(dim, generator=generator))
    return model


def test_scores_are_products_weighted_by_dimension() -> None:
    """Chen et al. 2020: hᵀ(p_u ⊙ q_i)."""
    model = _model()
    users, items = (vectors.detach() for vectors in model.vectors())
    h, p, q = (
        parameter.detach().numpy()
        for parameter in (model.dimension_weights, model.user_table, model.item_table)
    )
    expected = [
        [sum(h[d] * p[u, d] * q[i, d] for d in range(5)) for i in range(9)] for u in range(6)
    ]
    np.testing.assert_allclose((users @ items.T).numpy(), expected, rtol=1e-12)


def test_at_the_start_all_dimensions_weigh_the_same() -> None:
    model = ENMF(6, 9, 5, 0.0, torch.Generator().manual_seed(0))
    assert torch.equal(model.vectors()[0], model.user_table)


def test_the_weights_of_the_dimensions_are_trained() -> None:
    model = _model()
    users, items = model.vectors()
    (users @ items.T).sum().backward()  # type: ignore[no-untyped-call]
    expected = model.user_table.sum(dim=0) * model.item_table.sum(dim=0)
    assert model.dimension_weights.grad is not None
    torch.testing.assert_close(model.dimension_weights.grad, expected.detach())


def test_without_dropout_a_batch_has_rows_of_the_vectors() -> None:
    model = _model()
    for part, whole, rows in zip(
        model.batch_vectors(USERS, ITEMS, 7), model.vectors(), (USERS, ITEMS), strict=True
    ):
        assert torch.equal(part, whole[rows])


def test_dropout_is_for_users_in_a_batch_and_goes_by_its_seed() -> None:
    model, without = _model(dropout=0.5), _model()
    for one, other in zip(model.vectors(), without.vectors(), strict=True):
        assert torch.equal(one, other)
    (first, items), (again, _), (second, _) = (
        model.batch_vectors(USERS, ITEMS, seed) for seed in (1, 1, 2)
    )
    assert torch.equal(items, model.item_table[ITEMS])
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_dropout_leaves_the_expected_score_as_it_is() -> None:
    model = _model(dropout=0.3, dim=40)
    everybody, all_items = torch.arange(6), torch.arange(9)
    with torch.no_grad():
        users, items = model.vectors()
        draws = torch.stack(
            [
                torch.mm(u, i.T)
                for u, i in (model.batch_vectors(everybody, all_items, s) for s in range(400))
            ]
        )
    error = draws.std(dim=0) / 400**0.5
    assert ((draws.mean(dim=0) - users @ items.T).abs() < 4 * error).all()
    assert (error > 0).all()
