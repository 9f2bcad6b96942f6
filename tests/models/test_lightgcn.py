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
from densirank.linalg import propagation
from densirank.linalg.propagation import Propagation
from densirank.models import MODELS, lightgcn
from densirank.models.lightgcn import LightGCN
from densirank.models.mf import MatrixFactorisation


@st.composite
def graphs(draw: st.DrawFn) -> NDArray[np.bool_]:
    """Who had what, (users, items): at least one pair, often users and items without any."""
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    owned = random.random((n_users, n_items)) < draw(st.sampled_from([0.1, 0.3, 0.7]))
    owned[random.integers(n_users), random.integers(n_items)] = True
    return owned


def _normalised(owned: NDArray[np.bool_], loops: bool = False) -> NDArray[np.float64]:
    """D^-½ A D^-½ from its definition; with loops of A + I, and D the degrees of that."""
    n_users, n_items = owned.shape
    adjacency = np.block(
        [[np.zeros((n_users, n_users)), owned], [owned.T, np.zeros((n_items, n_items))]]
    )
    adjacency += loops * np.eye(n_users + n_items)
    roots = np.sqrt(adjacency.sum(axis=1))
    normalised: NDArray[np.float64] = adjacency / np.maximum(np.outer(roots, roots), 1)
    return normalised  # an isolated row is zero anyway


def _dense(owned: NDArray[np.bool_], layers: int, loops: bool = False) -> Tensor:
    """P = mean of the powers of the normalised graph."""
    normalised = _normalised(owned, loops)
    powers = [np.linalg.matrix_power(normalised, k) for k in range(layers + 1)]
    return torch.from_numpy(np.mean(powers, axis=0))


def _propagation(owned: NDArray[np.bool_], layers: int, loops: bool = False) -> Propagation:
    data = densirank.read(sparse.csr_array(owned))
    return Propagation(data, layers, dtype=torch.float64, self_loops=loops)


def _random_vectors(owned: NDArray[np.bool_], seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    users, items = (
        torch.randn(count, 3, dtype=torch.float64, generator=generator) for count in owned.shape
    )
    return users, items


layer_counts = st.integers(0, 4)
with_and_without_loops = pytest.mark.parametrize("loops", [False, True])


@with_and_without_loops
@given(graphs(), layer_counts)
def test_propagation_is_the_mean_of_the_powers_of_the_normalised_graph(
    loops: bool, owned: NDArray[np.bool_], layers: int
) -> None:
    vectors = _random_vectors(owned, seed=0)
    actual = torch.cat(_propagation(owned, layers, loops)(*vectors))
    torch.testing.assert_close(actual, _dense(owned, layers, loops) @ torch.cat(vectors))


@settings(max_examples=50)
@given(graphs())
def test_a_hop_brings_what_the_neighbours_have(owned: NDArray[np.bool_]) -> None:
    vectors = _random_vectors(owned, seed=0)
    actual = torch.cat(_propagation(owned, 1).hop(*vectors))
    torch.testing.assert_close(actual, torch.from_numpy(_normalised(owned)) @ torch.cat(vectors))


@with_and_without_loops
@given(graphs(), layer_counts)
def test_propagation_is_self_adjoint(loops: bool, owned: NDArray[np.bool_], layers: int) -> None:
    propagation = _propagation(owned, layers, loops)
    x, y = _random_vectors(owned, seed=0), _random_vectors(owned, seed=1)
    torch.testing.assert_close(
        (torch.cat(propagation(*x)) * torch.cat(y)).sum(),
        (torch.cat(x) * torch.cat(propagation(*y))).sum(),
    )


@with_and_without_loops
@settings(max_examples=50)
@given(graphs(), layer_counts)
def test_gradient_is_that_of_the_dense_propagation(
    loops: bool, owned: NDArray[np.bool_], layers: int
) -> None:
    model = LightGCN(densirank.read(sparse.csr_array(owned)), layers, 3, torch.Generator())
    model.double()
    model.propagation = _propagation(owned, layers, loops)
    users, items = model.vectors()
    (users @ items.T).square().sum().backward()  # type: ignore[no-untyped-call]

    table = torch.cat([model.user_table, model.item_table]).detach().requires_grad_()
    final = _dense(owned, layers, loops) @ table
    users, items = final[: len(owned)], final[len(owned) :]
    (users @ items.T).square().sum().backward()  # type: ignore[no-untyped-call]

    assert model.user_table.grad is not None
    assert model.item_table.grad is not None
    torch.testing.assert_close(
        torch.cat([model.user_table.grad, model.item_table.grad]), table.grad
    )


def test_gradient_comes_even_if_only_the_users_are_looked_at() -> None:
    owned = np.array([[True, False], [True, True]])
    model = LightGCN(densirank.read(sparse.csr_array(owned)), 2, 1, torch.Generator())
    users, _ = model.vectors()
    users.sum().backward()  # type: ignore[no-untyped-call]
    expected = _dense(owned, 2)[:2].sum(dim=0).float()
    assert model.user_table.grad is not None
    assert model.item_table.grad is not None
    actual = torch.cat([model.user_table.grad, model.item_table.grad]).squeeze(1)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_isolated_users_and_items_keep_a_share_of_their_own_vector(layers: int) -> None:
    owned = np.zeros((3, 4), dtype=bool)
    owned[0, 0] = owned[2, 3] = True
    users, items = _random_vectors(owned, seed=0)
    final_users, final_items = _propagation(owned, layers)(users, items)
    torch.testing.assert_close(final_users[1], users[1] / (layers + 1))
    torch.testing.assert_close(final_items[[1, 2]], items[[1, 2]] / (layers + 1))


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_with_self_loops_an_isolated_user_keeps_all_of_their_vector(layers: int) -> None:
    owned = np.array([[True, True], [False, False]])
    users, items = _random_vectors(owned, seed=0)
    final_users, _ = _propagation(owned, layers, loops=True)(users, items)
    torch.testing.assert_close(final_users[1], users[1])


def test_the_graph_is_the_same_however_many_rows_are_scaled_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owned = np.random.default_rng(0).random((7, 9)) < 0.4
    whole = _propagation(owned, 1)
    monkeypatch.setattr(propagation, "_ROWS", 2)
    parts = _propagation(owned, 1)
    for one, other in ((whole.to_users, parts.to_users), (whole.to_items, parts.to_items)):
        assert torch.equal(one.to_dense(), other.to_dense())


def test_without_layers_it_is_matrix_factorisation() -> None:
    data = densirank.read([(0, 1), (1, 0), (1, 1)])
    plain = MatrixFactorisation(2, 2, 5, torch.Generator().manual_seed(3))
    graph = LightGCN(data, 0, 5, torch.Generator().manual_seed(3))
    for one, other in zip(plain.vectors(), graph.vectors(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("name", "loops"), [("lightgcn", False), ("lightgcn-loops", True)])
def test_vectors_come_from_the_graph_in_single_precision_too(name: str, loops: bool) -> None:
    owned = np.array([[True, True, False], [False, True, False]])
    data = densirank.read(sparse.csr_array(owned))
    model = MODELS[name].of(data, lightgcn.LightGCNSettings(dim=4, layers=3), torch.Generator())
    first_layer = torch.cat(list(model.parameters())).detach()
    expected = _dense(owned, 3, loops).float() @ first_layer
    torch.testing.assert_close(torch.cat(model.vectors()).detach(), expected)


def test_a_graph_of_a_million_by_a_million_fits_in_memory() -> None:
    """Anything of size users × items would take four terabytes."""
    million = 1_000_000
    ends = np.random.default_rng(0).integers(million, size=(2, 1000))
    data = densirank.read(sparse.csr_array((np.ones(1000), ends), shape=(million, million)))
    model = LightGCN(data, 2, 1, torch.Generator())
    users, items = model.vectors()
    (users.sum() + items.sum()).backward()  # type: ignore[no-untyped-call]
    assert len(users) == len(items) == million
