from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

import densirank
from densirank.filters.item_filter import ItemFilter
from densirank.filters.similarity import FilterKind
from densirank.linalg.csr import PartSource, Rows, SparsePart
from densirank.scores import VectorScorer

N_USERS, N_ITEMS, DIM = 60, 4000, 8


@pytest.fixture(scope="session")
def scorer() -> VectorScorer:
    """Vectors of some tastes each, as training leaves them, with lengths that differ."""
    random = torch.Generator().manual_seed(3)
    tastes = torch.randn(12, DIM, generator=random)

    def vectors(count: int, spread: float) -> torch.Tensor:
        taste = torch.randint(0, len(tastes), (count,), generator=random)
        noise = spread * torch.randn(count, DIM, generator=random)
        length = 0.5 + torch.rand(count, 1, generator=random)
        return length * (tastes[taste] + noise)

    return VectorScorer(vectors(N_USERS, 0.3), vectors(N_ITEMS, 0.6))


@pytest.fixture(scope="session")
def best_are_seen(scorer: VectorScorer) -> Rows:
    """A log as a good model has it: user u has had its best 9·u items."""
    order = scorer.scores(torch.arange(N_USERS)).argsort(dim=1, descending=True)
    counts = 9 * torch.arange(N_USERS)
    rows = [row[:count] for row, count in zip(order, counts.tolist(), strict=True)]
    return Rows(torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]), torch.cat(rows))


@pytest.fixture(scope="session", params=["stored", "mild", "ridge"])
def with_sparse_part(scorer: VectorScorer, request: pytest.FixtureRequest) -> VectorScorer:
    """The same vectors, and some items of each user that are raised besides."""
    part = _by_a_filter(scorer, request.param) if request.param != "stored" else _up_to_30_raised()
    return VectorScorer(scorer.user_vectors, scorer.item_vectors, part)


def _up_to_30_raised() -> SparsePart:
    random = np.random.default_rng(4)
    rows = [
        np.sort(random.choice(N_ITEMS, random.integers(0, 31), replace=False))
        for _ in range(N_USERS)
    ]
    indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    columns = torch.from_numpy(np.concatenate(rows))
    values = torch.from_numpy(random.uniform(0, 20, len(columns)).astype(np.float32))
    return SparsePart(Rows(torch.from_numpy(indptr), columns), values)


def _by_a_filter(scorer: VectorScorer, kind: FilterKind) -> PartSource:
    """By what people had, about twelve items each: many items have no part in anybody's."""
    random = np.random.default_rng(5)
    had = random.random((N_USERS, N_ITEMS)) < 0.003
    had[0] = False
    made = ItemFilter.of(densirank.read(sparse.csr_array(had)), torch.device("cpu"), kind=kind)
    return made.added_to(scorer.user_vectors, scorer.item_vectors, weight=0.3)
