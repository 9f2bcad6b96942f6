"""The ranking path against a plain NumPy sort."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from densirank import scores
from densirank.linalg.csr import Rows, SparsePart
from densirank.ranking.blocks import COPIES, rows_per_block
from densirank.ranking.topk import Lists, top_k
from densirank.scores import VectorScorer

Floats = NDArray[np.float64]


def integer_scorer(seed: int, users: int, items: int, levels: int = 3) -> VectorScorer:
    """Vectors of small whole numbers: every score is exact, and many of them tie."""
    random = torch.Generator().manual_seed(seed)
    low, high = -levels, levels + 1
    return VectorScorer(
        torch.randint(low, high, (users, 3), generator=random).float(),
        torch.randint(low, high, (items, 3), generator=random).float(),
    )


def random_rows(seed: int, users: int, items: int) -> Rows:
    random = np.random.default_rng(seed)
    rows = [
        random.choice(items, random.integers(0, items + 1), replace=False) for _ in range(users)
    ]
    indptr = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    columns = np.concatenate(rows).astype(np.int64)
    return Rows(torch.from_numpy(indptr), torch.from_numpy(columns))


def expected_list(scores: Floats, barred: set[int], k: int) -> list[int]:
    """Best first, ties to the lower item, by sorting everything."""
    order = np.lexsort((np.arange(len(scores)), -scores))
    return [int(item) for item in order if int(item) not in barred][:k]


def joined(blocks: list[Lists]) -> list[list[int]]:
    return [[i for i in row if i >= 0] for block in blocks for row in block.items.tolist()]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    users=st.integers(1, 9),
    items=st.integers(1, 12),
    k=st.integers(1, 14),
    rows_a_block=st.integers(1, 9),
)
def test_lists_equal_a_full_sort_whatever_the_budget(
    seed: int, users: int, items: int, k: int, rows_a_block: int
) -> None:
    scorer = integer_scorer(seed, users, items)
    seen = random_rows(seed, users, items)
    random = np.random.default_rng(seed)
    allowed = random.choice(items, random.integers(1, items + 1), replace=False)
    excluded = random.choice(items, random.integers(0, items), replace=False)
    blocks = list(
        top_k(
            scorer,
            torch.arange(users),
            k,
            seen=seen,
            allowed=torch.from_numpy(allowed),
            excluded=torch.from_numpy(excluded),
            budget_bytes=rows_a_block * COPIES * 4 * items,
        )
    )
    assert len(blocks) == -(-users // rows_a_block)
    scores = scorer.scores(torch.arange(users)).double().numpy()
    common = (set(range(items)) - set(allowed.tolist())) | set(excluded.tolist())
    for user, listed in enumerate(joined(blocks)):
        own = seen.columns[seen.indptr[user] : seen.indptr[user + 1]].tolist()
        assert listed == expected_list(scores[user], common | set(own), k)


def test_users_may_come_in_any_order_and_twice() -> None:
    scorer = integer_scorer(1, 5, 8)
    (once,) = top_k(scorer, torch.arange(5), 3)
    (mixed,) = top_k(scorer, torch.tensor([4, 0, 4]), 3)
    assert mixed.items.tolist() == once.items[[4, 0, 4]].tolist()


def test_padding_stands_only_where_nothing_is_left() -> None:
    scorer = integer_scorer(2, 2, 4)
    seen = Rows(torch.tensor([0, 4, 7]), torch.tensor([0, 1, 2, 3, 0, 1, 2]))
    (lists,) = top_k(scorer, torch.arange(2), 3, seen=seen)
    assert lists.items.tolist() == [[-1, -1, -1], [3, -1, -1]]
    assert torch.isneginf(lists.scores[lists.items < 0]).all()
    assert torch.isfinite(lists.scores[lists.items >= 0]).all()


def test_the_normaliser_is_over_what_could_be_listed() -> None:
    scorer = integer_scorer(3, 4, 9, levels=1)
    seen = random_rows(3, 4, 9)
    (lists,) = top_k(scorer, torch.arange(4), 2, seen=seen, logits=lambda scores: scores / 2)
    scores = scorer.scores(torch.arange(4)).double().numpy()
    scores[seen.row_of_entry.numpy(), seen.columns.numpy()] = -np.inf
    assert lists.log_normaliser is not None
    np.testing.assert_allclose(
        lists.log_normaliser.numpy(), special.logsumexp(scores / 2, axis=1), rtol=1e-6
    )


def test_a_sparse_part_is_added_to_the_dot_product() -> None:
    dense = integer_scorer(4, 6, 7)
    rows = random_rows(4, 6, 7)
    values = torch.arange(len(rows.columns)).float()
    both = VectorScorer(dense.user_vectors, dense.item_vectors, SparsePart(rows, values))
    users = torch.tensor([5, 0, 3])
    expected = dense.user_vectors @ dense.item_vectors.T
    expected[rows.row_of_entry, rows.columns] += values
    assert torch.equal(both.scores(users), expected[users])


def test_products_in_tiles_equal_one_product_also_into_memory_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scores, "TILE", 3 * 40)
    scorer = integer_scorer(7, 5, 2 * 40 + 3)
    users = torch.tensor([4, 0, 2])
    expected = scorer.user_vectors[users] @ scorer.item_vectors.T
    memory = torch.full((3, scorer.n_items), torch.nan)
    assert scorer.scores(users, out=memory) is memory
    assert torch.equal(memory, expected)
    assert torch.equal(scorer.scores(users), expected)


def test_memory_follows_the_budget_and_not_the_number_of_users() -> None:
    scorer = integer_scorer(5, 1000, 50)
    sizes = []

    class Watching(VectorScorer):
        def scores(self, users: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
            sizes.append(len(users))
            return super().scores(users, out)

    budget = 20 * COPIES * 4 * 50
    watching = Watching(scorer.user_vectors, scorer.item_vectors)
    list(top_k(watching, torch.arange(1000), 5, budget_bytes=budget))
    assert max(sizes) == rows_per_block(50, budget) == 20
    assert sum(sizes) == 1000


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_lists_on_a_gpu_equal_those_on_a_cpu() -> None:
    cpu = integer_scorer(6, 50, 200)
    gpu = VectorScorer(cpu.user_vectors.cuda(), cpu.item_vectors.cuda())
    (on_cpu,) = top_k(cpu, torch.arange(50), 20)
    (on_gpu,) = top_k(gpu, torch.arange(50).cuda(), 20)
    assert on_gpu.items.tolist() == on_cpu.items.tolist()
