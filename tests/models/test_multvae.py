from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.distributions import Normal, kl_divergence

import densirank
from densirank.models.multvae import MultVAE

N_USERS, N_ITEMS, DIM = 12, 9, 4
OWNED = np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.4
OWNED[[2, N_USERS - 1]] = False  # nobody's history must begin or end where another's does
EVERYBODY, EVERYTHING = torch.arange(N_USERS), torch.arange(N_ITEMS)


def _model(
    owned: NDArray[np.bool_] = OWNED, dropout: float = 0.0, annealing: int = 10, dim: int = DIM
) -> MultVAE:
    """In double precision, with all parameters of a size that matters."""
    data = densirank.read(sparse.csr_array(owned))
    generator = torch.Generator().manual_seed(0)
    model = MultVAE(data, dim, dropout, annealing, generator).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    return model


def _without_variance(model: MultVAE) -> MultVAE:
    """What it draws for a code is as good as the mean."""
    with torch.no_grad():
        _, of_variance = model.code_weights.chunk(2, dim=1)
        of_variance.zero_()
        model.code_bias[model.hidden_weights.shape[0] :] = -200.0
    return model


def _encoded(model: MultVAE, owned: NDArray[np.bool_]) -> tuple[Tensor, Tensor]:
    """(mean, log variance), Liang et al. 2018, from histories x / ‖x‖ written out."""
    lengths = np.maximum(np.linalg.norm(owned, axis=1, keepdims=True), 1)
    histories = torch.from_numpy(owned / lengths)
    hidden = torch.tanh(histories @ model.input_table + model.input_bias)
    code = hidden @ model.code_weights + model.code_bias
    return code[:, : code.shape[1] // 2], code[:, code.shape[1] // 2 :]


def _decoded(model: MultVAE, code: Tensor) -> Tensor:
    """The logits of all items."""
    hidden = torch.tanh(code @ model.hidden_weights + model.hidden_bias)
    return hidden @ model.item_table.T + model.item_bias.T


def test_scores_are_the_logits_of_the_auto_encoder() -> None:
    model = _model()
    users, items = model.vectors()
    expected = _decoded(model, _encoded(model, OWNED)[0])
    torch.testing.assert_close(users @ items.T, expected, rtol=1e-10, atol=1e-10)


def test_the_layers_are_as_wide_as_published() -> None:
    model = MultVAE(densirank.read([(0, 0), (0, 1)]), 200, 0.5, 1, torch.Generator())
    sizes = [
        tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if not name.endswith("bias")
    ]
    assert sizes == [(2, 600), (600, 2 * 200), (200, 600), (2, 600)]


def test_a_vector_is_made_of_the_own_history_alone() -> None:
    model = _model()
    changed = OWNED.copy()
    changed[4] = ~changed[4]
    changed[7] = changed[1]
    before, after = (
        _model(owned).vectors()[0].detach() for owned in (OWNED, changed)
    )  # the same parameters
    assert torch.equal(model.vectors()[0].detach(), before)
    others = [user for user in range(N_USERS) if user not in (4, 7)]
    torch.testing.assert_close(after[others], before[others])
    assert not torch.allclose(after[4], before[4])
    torch.testing.assert_close(after[7], after[1])


def test_a_user_without_history_has_the_code_of_nothing() -> None:
    model = _model()
    nothing = torch.zeros(1, N_ITEMS, dtype=torch.float64)
    hidden = torch.tanh(nothing @ model.input_table + model.input_bias)
    code = (hidden @ model.code_weights + model.code_bias)[:, :DIM]
    users, items = model.vectors()
    expected = _decoded(model, code).squeeze(0)
    for user in (2, N_USERS - 1):
        torch.testing.assert_close(items @ users[user], expected)


def test_a_batch_without_chance_has_rows_of_the_vectors() -> None:
    model = _without_variance(_model())
    users, items = torch.tensor([11, 4, 0]), torch.tensor([8, 1, 3])
    for part, whole, rows in zip(
        model.batch_vectors(users, items, 7), model.vectors(), (users, items), strict=True
    ):
        torch.testing.assert_close(part, whole[rows])


@pytest.mark.parametrize("kind", ["dropout", "code"])
def test_chance_goes_by_the_seed_of_the_batch(kind: str) -> None:
    model = _model() if kind == "code" else _without_variance(_model(dropout=0.5))
    first, again, other = (
        model.batch_vectors(EVERYBODY, EVERYTHING, seed)[0].detach() for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def _laid_bare(owned: NDArray[np.bool_], dropout: float) -> MultVAE:
    """One whose first hidden numbers are tanh tanh of the input's, so that it can be read off."""
    n_items = owned.shape[1]
    model = _without_variance(_model(owned, dropout, dim=n_items))
    with torch.no_grad():
        for parameter in (model.input_table, model.hidden_weights):
            parameter.copy_(torch.eye(*parameter.shape))
        model.code_weights[:, :n_items] = torch.eye(3 * n_items, n_items)
        for bias in (model.input_bias, model.hidden_bias, model.code_bias[:n_items]):
            bias.zero_()
    return model


def test_a_share_of_each_history_is_dropped_and_the_rest_makes_up_for_it() -> None:
    owned = np.zeros((3000, 5), dtype=bool)
    owned[:, [0, 2, 3, 4]] = True
    model = _laid_bare(owned, dropout=0.4)
    with torch.no_grad():
        users, _ = model.batch_vectors(torch.arange(3000), torch.arange(5), 0)
    inputs = torch.atanh(torch.atanh(users[:, :5]))
    kept = inputs > 1e-9
    full = 1 / 4**0.5 / (1 - 0.4)  # of four items, enlarged
    torch.testing.assert_close(inputs, kept * full, rtol=1e-6, atol=1e-9, check_dtype=False)
    expected = torch.tensor([0.6, 0, 0.6, 0.6, 0.6])
    deviation = (0.4 * 0.6 / 3000) ** 0.5
    assert ((kept.float().mean(dim=0) - expected).abs() < 4 * deviation).all()
    together = torch.corrcoef(kept[:, [0, 2, 3, 4]].T.float())
    assert (together - torch.eye(4)).abs().max() < 4 / 3000**0.5


def test_codes_are_drawn_from_the_normal_distribution_they_are_said_to() -> None:
    owned = np.repeat(OWNED[:1], 4000, axis=0)
    model = _model(owned)
    with torch.no_grad():
        model.hidden_weights.copy_(torch.eye(DIM, 3 * DIM) / 4)  # tanh far from its ends
        model.hidden_bias.zero_()
        users, _ = model.batch_vectors(torch.arange(4000), EVERYTHING, 0)
        mean, log_variance = (numbers[0] for numbers in _encoded(model, owned[:1]))
    codes = 4 * torch.atanh(users[:, :DIM])
    standard = (codes - mean) / torch.exp(log_variance / 2)
    assert (standard.mean(dim=0).abs() < 4 / 4000**0.5).all()
    assert ((standard.var(dim=0) - 1).abs() < 4 * (2 / 4000) ** 0.5).all()
    assert (torch.corrcoef(standard.T) - torch.eye(DIM)).abs().max() < 4 / 4000**0.5


def _divergence(model: MultVAE, users: list[int]) -> Tensor:
    mean, log_variance = _encoded(model, OWNED[users])
    drawn_from = Normal(mean, torch.exp(log_variance / 2))
    return kl_divergence(drawn_from, Normal(0.0, 1.0)).sum(dim=1).mean()


def test_the_penalty_is_the_divergence_from_the_standard_normal() -> None:
    model = _model(annealing=1)
    users = [5, 0, 2]
    model.batch_vectors(torch.tensor(users), EVERYTHING, 0)
    actual, expected = model.regularised(torch.tensor(users), EVERYTHING), _divergence(model, users)
    torch.testing.assert_close(actual, expected)
    parameters = [model.input_table, model.input_bias, model.code_weights, model.code_bias]
    torch.testing.assert_close(
        torch.autograd.grad(actual, parameters), torch.autograd.grad(expected, parameters)
    )


def test_its_weight_rises_linearly_and_stops_at_one() -> None:
    model = _model(annealing=4)
    weights = []
    for seed in range(7):
        model.batch_vectors(EVERYBODY, EVERYTHING, seed)
        penalty = model.regularised(EVERYBODY, EVERYTHING)
        weights.append((penalty / _divergence(model, list(range(N_USERS)))).item())
    assert weights == pytest.approx([0.25, 0.5, 0.75, 1, 1, 1, 1])


def test_ranking_does_not_move_the_weight() -> None:
    model = _model(annealing=4)
    model.batch_vectors(EVERYBODY, EVERYTHING, 0)
    before = model.regularised(EVERYBODY, EVERYTHING).item()
    model.vectors()
    assert model.regularised(EVERYBODY, EVERYTHING).item() == before


def test_how_far_the_weight_has_risen_is_part_of_the_state() -> None:
    model, restored = _model(annealing=10), _model(annealing=10)
    for seed in range(3):
        model.batch_vectors(EVERYBODY, EVERYTHING, seed)
    restored.load_state_dict(model.state_dict())
    for one in (model, restored):
        one.batch_vectors(EVERYBODY, EVERYTHING, 3)
    expected = 0.4 * _divergence(model, list(range(N_USERS)))
    for one in (model, restored):
        torch.testing.assert_close(one.regularised(EVERYBODY, EVERYTHING), expected)
