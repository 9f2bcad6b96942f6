"""A few candidates, ranked as the exact path would rank them if it had no others."""

from __future__ import annotations

from itertools import chain

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from densirank.linalg.csr import Rows, SparsePart
from densirank.ranking.approximate import Filters, rank_candidates, with_entries
from densirank.ranking.topk import top_k
from densirank.scores import VectorScorer


def rows_of(lists: list[list[int]]) -> Rows:
    counts = torch.tensor([0] + [len(row) for row in lists])
    return Rows(counts.cumsum(0), torch.tensor(list(chain(*lists)), dtype=torch.int64))


some_items = st.lists(st.integers(0, 11), unique=True, max_size=12)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1000),
    k=st.integers(1, 14),
    candidates=st.lists(some_items, min_size=3, max_size=3),
    seen=st.lists(some_items, min_size=3, max_size=3),
    raised=st.lists(some_items, min_size=3, max_size=3),
    barred=some_items,
)
def test_the_best_candidates_are_those_of_the_exact_path_when_it_is_allowed_no_others(
    seed: int,
    k: int,
    candidates: list[list[int]],
    seen: list[list[int]],
    raised: list[list[int]],
    barred: list[int],
) -> None:
    random = torch.Generator().manual_seed(seed)
    user_vectors = torch.randint(-2, 3, (3, 2), generator=random).float()  # scores have many ties
    item_vectors = torch.randint(-2, 3, (12, 2), generator=random).float()
    rows = rows_of(raised)
    values = torch.randint(-2, 3, (len(rows.columns),), generator=random).float()
    scorer = VectorScorer(user_vectors, item_vectors, SparsePart(rows, values))
    width = max(map(len, candidates)) + 2
    padded = torch.tensor([2 * row + [-1] * (2 * width - 2 * len(row)) for row in candidates])
    flags = torch.zeros(12, dtype=torch.bool)
    flags[barred] = True
    users = torch.tensor([2, 0, 1])
    filters = Filters(rows_of(seen), flags)
    items, scores = rank_candidates(scorer, users, padded[users], k, filters)
    assert items.shape == scores.shape == (3, k)
    for row, user in enumerate(users.tolist()):
        (exact,) = top_k(
            scorer,
            users[row : row + 1],
            12,
            seen=rows_of(seen),
            allowed=torch.tensor(candidates[user], dtype=torch.int64),
            excluded=torch.tensor(barred, dtype=torch.int64),
        )
        there = exact.items[0] >= 0
        expected = exact.items[0][there].tolist()
        assert [item for item in items[row].tolist() if item >= 0] == expected[:k]
        assert scores[row][items[row] >= 0].tolist() == exact.scores[0][there].tolist()[:k]
        assert torch.isneginf(scores[row][items[row] < 0]).all()
        (count,) = filters.count_rankable(users[row : row + 1], padded[user].unsqueeze(0), 12)
        assert count == len(expected)


def test_entries_stand_beside_the_candidates_of_their_row() -> None:
    both = with_entries(torch.tensor([[5], [6], [7]]), rows_of([[1, 2], [], [3]]))
    assert both.tolist() == [[5, 1, 2], [6, -1, -1], [7, 3, -1]]
