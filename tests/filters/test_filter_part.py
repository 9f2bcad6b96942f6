"""Filter scores made for those who ask, on either kind of device, against their dense formula."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

import densirank
from densirank import scores as scores_module
from densirank.data.interactions import Interactions
from densirank.filters import item_filter as item_filter_module
from densirank.filters.item_filter import FilterPart, FilterPartOnGPU, ItemFilter
from densirank.linalg import products
from densirank.linalg import sparse as sparse_products
from densirank.linalg.csr import PartSource, SparsePart
from densirank.scores import VectorScorer

CPU = torch.device("cpu")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True)
class Case:
    """People's items in order of time, and what the filter of these is asked for."""

    data: Interactions
    recency: float
    span: int
    scale: torch.Tensor
    users: torch.Tensor

    def parts(self) -> list[tuple[PartSource, torch.device]]:
        """As a CPU makes them, and as a GPU does, by whatever device there is."""
        made = ItemFilter.of(self.data, CPU, self.recency, self.span)
        had, near = (SparsePart.of(matrix, DEVICE) for matrix in (made.had, made.near))
        return [
            (FilterPart(made.had, made.near, self.scale), CPU),
            (FilterPartOnGPU(had, near, self.scale.to(DEVICE)), DEVICE),
        ]

    def dense(self) -> NDArray[np.float64]:
        """scale · g / σ(g) of the users asked for, written down in loops."""
        data, n_items = self.data, self.data.n_items
        histories = [data.items_of(user).tolist() for user in range(data.n_users)]
        rows = list(histories)
        for items in histories if self.span else []:
            from_end = items[::-1]
            rows += [from_end[i : i + self.span] for i in range(0, len(items), self.span)]
        popularity = [max(1, sum(item in row for row in histories)) for item in range(n_items)]
        near = np.zeros((n_items, n_items))
        for row in rows:
            for i in row:
                for j in row:
                    near[i, j] += len(row) ** -0.5 * popularity[i] ** -0.5 * popularity[j] ** -0.4
        table = np.zeros((len(self.users), n_items))
        for place, user in enumerate(self.users.tolist()):
            items = histories[user]
            steps = np.arange(len(items)) / max(1, len(items) - 1)
            weights = np.exp(self.recency * steps)
            g = (weights / weights.mean()) @ near[items]
            table[place] = float(self.scale[user]) * g / max(g.std(), 1e-9)
        return table


@st.composite
def cases(draw: st.DrawFn) -> Case:
    n_users, n_items = draw(st.integers(2, 7)), draw(st.integers(6, 10))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    histories = [
        random.choice(n_items, random.integers(1, n_items - 1), replace=False)
        for _ in range(n_users)
    ]
    data = Interactions.from_pairs(
        np.repeat(np.arange(n_users), [len(items) for items in histories]),
        np.concatenate(histories),
        ordered=True,
    )
    users = draw(st.lists(st.integers(0, n_users - 1), min_size=1, max_size=9))
    return Case(
        data,
        draw(st.sampled_from([0.0, 2.0])),
        draw(st.sampled_from([0, 3])),
        torch.from_numpy(random.uniform(0.5, 2, n_users).astype(np.float32)),
        torch.tensor(users),  # in any order, with repeats
    )


def _says_something(case: Case) -> bool:
    """Whether nobody's scores are the same for all items: then σ would be a rounding error."""
    return bool(case.dense().max() < 1e3)


@settings(max_examples=60)
@given(cases().filter(_says_something), st.sampled_from([1, 40, 10**6]))
def test_what_is_made_for_some_users_is_the_dense_formula(case: Case, at_once: int) -> None:
    expected = case.dense()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_products, "BLOCK_PRODUCTS", at_once)
        patch.setattr(products, "BLOCK_TERMS", at_once)
        for part, device in case.parts():
            table, users = torch.full(expected.shape, 9.0, device=device), case.users.to(device)
            part.write(table, users)
            np.testing.assert_allclose(table.cpu().numpy(), expected, rtol=1e-3, atol=1e-5)
            taken = part.take(users).to_scipy(case.data.n_items)
            np.testing.assert_allclose(taken.toarray(), expected, rtol=1e-3, atol=1e-5)


def test_who_had_nothing_has_no_part() -> None:
    owned = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 1]])
    data = densirank.read(sparse.csr_array(owned))
    wanted = torch.tensor([0, 2])
    for part, device in Case(data, 0.0, 0, torch.ones(3), wanted).parts():
        table, users = torch.full((2, 3), 9.0, device=device), wanted.to(device)
        part.write(table, users)
        assert (table > 0).tolist() == [[False, False, False], [True, True, True]]
        assert part.take(users).rows.counts.tolist() == [0, 3]


def test_a_table_of_it_keeps_each_users_highest_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    pairs = np.argwhere(random.random((20, 30)) < 0.2)
    data = Interactions.from_pairs(pairs[:, 0], pairs[:, 1])
    items = torch.rand(data.n_items, 1, generator=torch.Generator().manual_seed(0))
    vectors = torch.ones(data.n_users, 1), items
    scorer = VectorScorer(*vectors, ItemFilter.of(data, CPU).added_to(*vectors, weight=3.0))
    everything = (scorer.scores(torch.arange(data.n_users)) - vectors[0] @ vectors[1].T).numpy()
    monkeypatch.setattr(item_filter_module, "KEPT", 5)
    monkeypatch.setattr(scores_module, "USERS_AT_ONCE", 7)
    kept = scorer.kept_part()
    assert kept is not None
    for user, (row, own) in enumerate(
        zip(everything, kept.to_scipy(data.n_items).toarray(), strict=True)
    ):
        had = data.items_of(user)
        np.testing.assert_allclose(own[had], row[had], atol=1e-5)
        row[had] = own[had] = 0
        assert (own > 0).sum() <= 5
        highest = np.sort(row)[::-1][:5]
        np.testing.assert_allclose(np.sort(own)[::-1][:5], highest, atol=1e-5)
