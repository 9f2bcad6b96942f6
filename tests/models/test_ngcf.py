from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

import densirank
from densirank.linalg.propagation import Propagation
from densirank.models.ngcf import NGCF

DIM = 3


def _owned(seed: int) -> NDArray[np.bool_]:
    """Who had what, (users, items): at least one pair, often users and items without any."""
    random = np.random.default_rng(seed)
    n_users, n_items = random.integers(1, 7, size=2)
    owned: NDArray[np.bool_] = random.random((n_users, n_items)) < random.choice([0.1, 0.3, 0.7])
    owned[random.integers(n_users), random.integers(n_items)] = True
    return owned


def _model(owned: NDArray[np.bool_], layers: int, dropout: float = 0.0) -> NGCF:
    """In double precision, with all parameters of a size that matters."""
    data = densirank.read(sparse.csr_array(owned))
    generator = torch.Generator().manual_seed(0)
    model = NGCF(data, layers, DIM, dropout, generator).double()
    model._graph = Propagation(data, 1, dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def _dense(model: NGCF, owned: NDArray[np.bool_], masks: list[Tensor] | None = None) -> Tensor:
    """Wang et al. 2019 with all matrices written out, (nodes, (layers + 1) · dim).

    A layer is LeakyReLU((L + I) E W₁ + b₁) + LeakyReLU((L E ⊙ E) W₂ + b₂) with L = D^-½ A D^-½;
    of it, what a mask says is dropped. All layers are concatenated, normalised save the first.
    """
    n_users, n_items = owned.shape
    adjacency = np.zeros((n_users + n_items, n_users + n_items))
    adjacency[:n_users, n_users:] = owned
    adjacency[n_users:, :n_users] = owned.T
    degrees = np.maximum(adjacency.sum(axis=1), 1)  # a node without neighbours has no row to scale
    laplacian = torch.from_numpy(np.diag(degrees**-0.5) @ adjacency @ np.diag(degrees**-0.5))
    identity = torch.eye(len(adjacency), dtype=torch.float64)

    nodes = torch.cat([model.user_table, model.item_table])
    layers = [nodes]
    for k in range(len(model.sum_weights)):
        sums = (laplacian + identity) @ nodes @ model.sum_weights[k] + model.sum_biases[k]
        products = (laplacian @ nodes * nodes) @ model.product_weights[k] + model.product_biases[k]
        nodes = torch.where(sums > 0, sums, 0.2 * sums)
        nodes = nodes + torch.where(products > 0, products, 0.2 * products)
        if masks is not None:
            nodes = nodes * masks[k] / (1 - model._dropout)
        layers.append(nodes / nodes.square().sum(dim=1, keepdim=True).sqrt().clamp(min=1e-12))
    return torch.cat(layers, dim=1)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_vectors_are_those_of_the_published_layers(seed: int, layers: int) -> None:
    owned = _owned(seed)
    model = _model(owned, layers)
    actual = torch.cat(model.vectors())
    assert actual.shape == (sum(owned.shape), (layers + 1) * DIM)
    torch.testing.assert_close(actual, _dense(model, owned))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_gradients_are_those_of_the_published_layers(seed: int, layers: int) -> None:
    owned = _owned(seed)
    model = _model(owned, layers)
    gradients = []
    for vectors in (torch.cat(model.vectors()), _dense(model, owned)):
        users, items = vectors[: len(owned)], vectors[len(owned) :]
        loss = (users @ items.T).square().sum()
        gradients.append(torch.autograd.grad(loss, list(model.parameters()), allow_unused=True))
    torch.testing.assert_close(gradients[0], gradients[1])


WORLD = np.random.default_rng(0).random((30, 40)) < 0.2
EVERYBODY, EVERYTHING = torch.arange(30), torch.arange(40)


def test_ranking_drops_nothing() -> None:
    with_dropout, without = _model(WORLD, 2, dropout=0.5), _model(WORLD, 2)
    for one, other in zip(with_dropout.vectors(), without.vectors(), strict=True):
        assert torch.equal(one, other)


def test_without_dropout_a_batch_has_rows_of_the_vectors() -> None:
    model = _model(WORLD, 2)
    users, items = torch.tensor([4, 0]), torch.tensor([8, 1, 3])
    for part, whole, rows in zip(
        model.batch_vectors(users, items, 7), model.vectors(), (users, items), strict=True
    ):
        assert torch.equal(part, whole[rows])


def test_dropout_goes_by_the_seed_of_the_batch() -> None:
    model = _model(WORLD, 2, dropout=0.5)
    first, again, other = (
        torch.cat(model.batch_vectors(EVERYBODY, EVERYTHING, seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("dropout", [0.1, 0.6])
def test_numbers_of_every_layer_are_dropped_and_later_layers_hear_of_it(dropout: float) -> None:
    """With the zeros taken for the masks, the published layers give all the other numbers."""
    model = _model(WORLD, 3, dropout)
    with torch.no_grad():
        actual = torch.cat(model.batch_vectors(EVERYBODY, EVERYTHING, 1))
        _, *layers = torch.split(actual, DIM, dim=1)
        masks = [(layer != 0).double() for layer in layers]
        torch.testing.assert_close(actual, _dense(model, WORLD, masks))
    deviation = (dropout * (1 - dropout) / masks[0].numel()) ** 0.5
    for mask in masks:
        assert abs(1 - float(mask.mean()) - dropout) < 4 * deviation
    assert not torch.equal(masks[0], masks[1])


def test_weights_start_at_the_scale_of_glorot() -> None:
    model = NGCF(densirank.read([(0, 0)]), 4, 64, 0.0, torch.Generator().manual_seed(0))
    for weights in (model.sum_weights, model.product_weights):
        assert float(weights.detach().std()) == pytest.approx((2 / (64 + 64)) ** 0.5, rel=0.03)
