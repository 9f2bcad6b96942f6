"""The item–item filter against its dense formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

import densirank
from densirank import Ranker
from densirank.data.interactions import Interactions
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.filters import similarity as nearness
from densirank.filters.item_filter import FilterPart, ItemFilter
from densirank.filters.similarity import FILTER_KINDS, FilterKind
from densirank.linalg import sparse as sparse_products
from densirank.models.itemknn import nearest_items
from densirank.scores import VectorScorer

CPU = torch.device("cpu")


def _owned(n_users: int, n_items: int, seed: int) -> NDArray[np.bool_]:
    random = np.random.default_rng(seed)
    owned = random.random((n_users, n_items)) < 0.3
    owned[np.arange(n_users), random.integers(n_items, size=n_users)] = True
    owned[random.integers(n_users, size=n_items), np.arange(n_items)] = True
    owned[0] = False  # a user without items
    return owned


def _dense(owned: NDArray[np.bool_], rows: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """g / σ_u(g), written down; the rows are those in which items stand together."""
    together = owned if rows is None else rows
    popularity = np.maximum(owned.sum(0), 1.0)
    by_row = np.maximum(together.sum(1, keepdims=True), 1) ** -0.25
    near = (by_row * together).T @ (by_row * together)
    scores = owned @ (near * popularity[:, None] ** -0.5 * popularity**-0.4)
    spread = scores.std(axis=1, keepdims=True)
    flat = spread <= 1e-6 * scores.max(axis=1, keepdims=True)  # the same for all items
    standardised: NDArray[np.float64] = np.where(flat, 0, scores / np.where(flat, 1, spread))
    return standardised


def _table(made: ItemFilter) -> NDArray[np.float32]:
    """g / σ_u(g) of everybody, as the filter makes it."""
    n_users, n_items = made.had.shape
    table = torch.empty(n_users, n_items)
    FilterPart(made.had, made.near, torch.ones(n_users)).write(table, torch.arange(n_users))
    scores: NDArray[np.float32] = table.numpy()
    return scores


@settings(max_examples=30)
@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 2**32 - 1), st.sampled_from([1, 50]))
def test_unpruned_it_is_the_dense_formula(
    n_users: int, n_items: int, seed: int, block_products: int
) -> None:
    owned = _owned(n_users, n_items, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_products, "BLOCK_PRODUCTS", block_products)
        made = ItemFilter.of(densirank.read(sparse.csr_array(owned)), CPU)
    np.testing.assert_allclose(_table(made), _dense(owned), rtol=2e-4, atol=1e-5)


def test_with_the_graphs_powers_it_is_the_linear_filter_of_the_graph() -> None:
    owned = _owned(9, 7, seed=3)
    degrees = np.maximum(owned.sum(1, keepdims=True), 1.0), np.maximum(owned.sum(0), 1.0)
    graph = owned / np.sqrt(degrees[0]) / np.sqrt(degrees[1])
    scores = graph @ graph.T @ graph
    made = ItemFilter.of(densirank.read(sparse.csr_array(owned)), CPU, kind="graph")
    expected = scores / np.maximum(scores.std(1, keepdims=True), 1e-12)
    np.testing.assert_allclose(_table(made), expected, rtol=2e-4, atol=1e-5)


def test_items_near_in_time_stand_together_once_more() -> None:
    users, items = [0] * 5 + [1] * 3, [4, 1, 3, 0, 2, 2, 5, 4]
    data = Interactions.from_pairs(users, items, ordered=True)
    stretches = [[4], [1, 3], [0, 2], [2], [5, 4]]
    rows = [[4, 1, 3, 0, 2], [2, 5, 4], *stretches]
    names = data.item_ids.ids.tolist()
    together = np.array([[name in row for name in names] for row in rows])
    made = ItemFilter.of(data, CPU, span=2)
    expected = _dense(together[:2], together)
    np.testing.assert_allclose(_table(made), expected, rtol=2e-4, atol=1e-5)


def test_nearness_in_time_asks_for_an_order() -> None:
    with pytest.raises(InputError, match="order of time"):
        ItemFilter.of(Interactions.from_pairs([0, 0], [1, 2]), CPU, span=2)


def test_an_item_keeps_its_nearest_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    owned = _owned(12, 30, seed=4)
    data = densirank.read(sparse.csr_array(owned))
    monkeypatch.setattr(nearness, "NEIGHBOURS", 1)  # the item itself
    np.testing.assert_array_equal(_table(ItemFilter.of(data, CPU)) > 0, owned)


def test_beside_vectors_both_count_in_standard_deviations() -> None:
    owned = _owned(8, 20, seed=1)
    made = ItemFilter.of(densirank.read(sparse.csr_array(owned)), CPU)
    generator = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, 3, generator=generator) for n in owned.shape)
    scorer = VectorScorer(users, items, made.added_to(users, items, weight=0.7))
    dots = (users @ items.T).numpy()
    expected = dots + 0.7 * dots.std(axis=1, keepdims=True) * _dense(owned)
    actual = scorer.scores(torch.arange(len(users))).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", FILTER_KINDS)
def test_a_ranker_ranks_validates_and_saves_with_it(tmp_path: Path, kind: FilterKind) -> None:
    world = planted(150, 80, items_per_user=12, test_items_per_user=4, seed=3)

    def fitted(weight: float) -> Ranker:
        ranker = Ranker(
            "wd-lgcn", dim=8, iterations=10, filter_weight=weight, filter_kind=kind, device="cpu"
        )
        return ranker.fit(world.train, 0.2)

    plain, filtered = fitted(0.0), fitted(0.5)
    assert plain.scorer_.sparse_part is None
    record = filtered.training_["best_validation_ndcg@20"]
    assert record != plain.training_["best_validation_ndcg@20"]
    filtered.save(tmp_path / "model")
    loaded = densirank.load(tmp_path / "model", device="cpu")
    assert loaded.evaluate(world.test) == filtered.evaluate(world.test)
    assert loaded.evaluate(world.test) != plain.evaluate(world.test)


@pytest.mark.parametrize("settings_", [{"filter_weight": 1.0}, {"low_pass_weight": 1.0}])
def test_a_filter_that_says_the_same_of_all_items_adds_nothing(settings_: dict[str, Any]) -> None:
    """All users had all items, so that nothing tells items apart."""
    pairs = [(user, item) for user in range(12) for item in range(6)]
    plain = Ranker("wd-mf", device="cpu", dim=2, iterations=3).fit(pairs)
    both = Ranker("wd-mf", device="cpu", dim=2, iterations=3, **settings_).fit(pairs)
    everybody = torch.arange(12)
    torch.testing.assert_close(both.scorer_.scores(everybody), plain.scorer_.scores(everybody))


def _operations(monkeypatch: pytest.MonkeyPatch, make: Callable[[], object]) -> int:
    """Multiplications in all sparse products that are made."""
    made: list[int] = []
    blocks = sparse_products._row_blocks

    def counted(left: Any, right: Any) -> Any:
        made.append(int(np.diff(right.indptr)[left.indices].sum()))
        return blocks(left, right)

    with monkeypatch.context() as patch:
        patch.setattr(sparse_products, "_row_blocks", counted)
        make()
    return sum(made)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("kind", ["mild", "ridge", "itemknn"])
def test_the_work_of_one_long_history_does_not_grow_with_its_square(
    monkeypatch: pytest.MonkeyPatch, kind: Any, ordered: bool
) -> None:
    monkeypatch.setattr(nearness, "TOGETHER", 32, raising=False)

    def make(length: int) -> None:
        users, items = np.repeat([0, 1, 2], [length, 2, 2]), [*range(length), 0, 1, 1, 2]
        data = Interactions.from_pairs(users, items, ordered=ordered)
        if kind == "itemknn":
            nearest_items(data, 20, 1.0)
            return
        for span in (0, 8) if ordered else (0,):
            ItemFilter.of(data, CPU, 0.0, span, kind)

    work = [_operations(monkeypatch, partial(make, length)) for length in (100, 200, 400)]
    assert work[2] < 2.5 * work[1] < 6 * work[0]


@pytest.mark.parametrize("ordered", [True, False])
def test_of_a_long_history_the_recent_items_stand_together_or_evenly_spaced_ones(
    monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    monkeypatch.setattr(nearness, "TOGETHER", 4)
    users, items = np.repeat([0, 1], [10, 3]), [*range(10), 7, 8, 9]
    data = Interactions.from_pairs(users, items, ordered=ordered)
    kept = nearness.standing_together(data)
    assert data.items[kept][data.users[kept] == 1].tolist() == [7, 8, 9]
    assert data.items[kept][data.users[kept] == 0].tolist() == (
        [6, 7, 8, 9] if ordered else [2, 4, 7, 9]
    )
