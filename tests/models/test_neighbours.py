"""Propagation by kernels beside the sparse matrices; where there is no GPU, interpreted.

bfloat16 has steps of 0.4 %; the interpreter cuts off where a GPU rounds.
"""

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
from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.linalg.propagation import Propagation
from densirank.models.lightgcn import LightGCN
from densirank.models.neighbours import CHUNK, NeighbourSums

HALF = Hardware(torch.device("cuda" if torch.cuda.is_available() else "cpu"), half=True)


def _graph(
    n_users: int = 5, n_items: int = 6, share: float = 0.4, seed: int = 0
) -> NDArray[np.bool_]:
    """Who had what; the last user and the last item have nothing to do with anybody."""
    owned = np.random.default_rng(seed).random((n_users, n_items)) < share
    owned[0, 0] = True
    owned[-1, :] = owned[:, -1] = False
    return owned


def _data(owned: NDArray[np.bool_]) -> Interactions:
    return densirank.read(sparse.csr_array(owned))


def _vectors(owned: NDArray[np.bool_], dim: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    users, items = (torch.randn(count, dim, generator=random) for count in owned.shape)
    return users, items


def _by_kernels(
    owned: NDArray[np.bool_], layers: int, vectors: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    graph = Propagation(_data(owned), layers)
    graph.to(HALF.device)
    users, items = NeighbourSums(*graph.edges(), layers)(*(x.to(HALF.device) for x in vectors))
    assert users.dtype == items.dtype == torch.float32
    return users.cpu().double(), items.cpu().double()


def _by_matrices(
    owned: NDArray[np.bool_], layers: int, vectors: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    users, items = vectors
    return Propagation(_data(owned), layers, torch.float64)(users.double(), items.double())


def _gradient(model: LightGCN) -> Tensor:
    assert model.user_table.grad is not None
    assert model.item_table.grad is not None
    return torch.cat([model.user_table.grad, model.item_table.grad]).cpu().double()


def _relative_error(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


@settings(max_examples=10)
@given(
    st.builds(
        _graph,
        st.integers(2, 5),
        st.integers(2, 5),
        st.sampled_from([0.1, 0.4, 1.0]),
        st.integers(0, 2**32 - 1),
    ),
    st.integers(0, 3),
    st.integers(1, 9),
)
def test_neighbour_sums_are_the_propagation(
    owned: NDArray[np.bool_], layers: int, dim: int
) -> None:
    vectors = _vectors(owned, dim)
    actual, expected = (torch.cat(by(owned, layers, vectors)) for by in (_by_kernels, _by_matrices))
    assert float((actual - expected).norm()) < 5e-3 * float(torch.cat(vectors).norm())


@pytest.mark.parametrize(("layers", "dim"), [(1, 48), (2, 1), (3, 6)])
def test_nodes_with_more_neighbours_than_are_read_at_a_time(layers: int, dim: int) -> None:
    owned = np.zeros((3, 2 * CHUNK + 2), dtype=bool)
    owned[0, :CHUNK] = owned[1, : CHUNK + 1] = owned[2, 1:] = True
    vectors = _vectors(owned, dim)
    actual, expected = (torch.cat(by(owned, layers, vectors)) for by in (_by_kernels, _by_matrices))
    assert _relative_error(actual, expected) < 5e-3


def test_neighbour_sums_are_nearly_self_adjoint() -> None:
    owned = _graph(6, 7)
    x, y = _vectors(owned, dim=5, seed=0), _vectors(owned, dim=5, seed=1)
    forward = (torch.cat(_by_kernels(owned, 3, x)) * torch.cat(y)).sum()
    backward = (torch.cat(x) * torch.cat(_by_kernels(owned, 3, y))).sum()
    size = float(torch.cat(x).norm() * torch.cat(y).norm())
    assert float((forward - backward).abs()) < 2e-3 * size


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_isolated_users_and_items_keep_a_share_of_their_own_vector(layers: int) -> None:
    owned = _graph()
    users, items = _vectors(owned)
    final_users, final_items = _by_kernels(owned, layers, (users, items))
    torch.testing.assert_close(final_users[-1], users[-1].double() / (layers + 1))
    torch.testing.assert_close(final_items[-1], items[-1].double() / (layers + 1))


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_lightgcn_has_the_same_vectors_and_gradients_with_kernels(layers: int) -> None:
    data = _data(_graph())
    models = [LightGCN(data, layers, 5, torch.Generator().manual_seed(1)) for _ in range(2)]
    fast, exact = models[0].prepare(HALF), models[1].double()
    exact.propagation = Propagation(data, layers, torch.float64)
    assert isinstance(fast.propagation, NeighbourSums)
    vectors, gradients = [], []
    for model in (fast, exact):
        users, items = model.vectors()
        (users @ items.T).square().sum().backward()  # type: ignore[no-untyped-call]
        vectors.append(torch.cat([users, items]).detach().cpu().double())
        gradients.append(_gradient(model))
    assert _relative_error(*vectors) < 1e-2
    assert _relative_error(*gradients) < 3e-2  # of third order in the vectors


def test_gradient_comes_even_if_only_the_users_are_looked_at() -> None:
    owned = _graph()
    model = LightGCN(_data(owned), 2, 3, torch.Generator()).prepare(HALF)
    users, _ = model.vectors()
    users.sum().backward()  # type: ignore[no-untyped-call]
    ones, zeros = torch.ones(len(owned), 3), torch.zeros(owned.shape[1], 3)
    expected = torch.cat(_by_matrices(owned, 2, (ones, zeros)))
    assert _relative_error(_gradient(model), expected) < 1e-2
