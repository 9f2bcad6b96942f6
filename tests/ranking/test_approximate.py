"""Searching by an index against the exact path, with every filter."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from densirank.linalg.csr import Rows, RowSource
from densirank.ranking import approximate as search
from densirank.ranking.approximate import search_top_k
from densirank.ranking.clusters import Clusters
from densirank.ranking.topk import Lists, top_k
from densirank.scores import VectorScorer


class Exact(Clusters):
    """An index that reads everything, and so misses nothing, but counts what it is asked for."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.asked: list[tuple[int, int]] = []
        self.effort = 1000

    def nearest(self, queries: torch.Tensor, n: int) -> torch.Tensor:
        self.asked.append((len(queries), n))
        return super().nearest(queries, n)


@pytest.fixture
def index(scorer: VectorScorer) -> Exact:
    built = Exact.build(scorer.item_vectors)
    built.effort = 1000
    return built


def everyone(scorer: VectorScorer) -> torch.Tensor:
    return torch.arange(scorer.n_users)


def joined(blocks: Any) -> Lists:
    parts = list(blocks)
    return Lists(
        torch.cat([part.users for part in parts]),
        torch.cat([part.items for part in parts]),
        torch.cat([part.scores for part in parts]),
        None,
    )


def assert_same(found: Lists, exact: Lists) -> None:
    assert torch.equal(found.users, exact.users)
    assert found.items.tolist() == exact.items.tolist()
    torch.testing.assert_close(found.scores, exact.scores)


def some_items(scorer: VectorScorer, count: int) -> torch.Tensor:
    return torch.randperm(scorer.n_items, generator=torch.Generator().manual_seed(1))[:count]


@pytest.mark.parametrize("k", [1, 20])
@pytest.mark.parametrize("n_allowed", [None, 5, 200, 3500])
@pytest.mark.parametrize("filtered", [False, True])
def test_lists_are_those_of_the_exact_path_when_the_index_misses_nothing(
    index: Exact,
    with_sparse_part: VectorScorer,
    best_are_seen: Rows,
    k: int,
    n_allowed: int | None,
    filtered: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MAX_SCORED", 100)
    filters: dict[str, Any] = {
        "seen": best_are_seen if filtered else None,
        "allowed": None if n_allowed is None else some_items(with_sparse_part, n_allowed),
        "excluded": torch.arange(0, 4000, 50) if filtered else None,
    }
    users = everyone(with_sparse_part)
    found = joined(search_top_k(index, with_sparse_part, users, k, **filters))
    assert_same(found, joined(top_k(with_sparse_part, users, k, **filters)))
    if n_allowed != 200:  # there it depends on how much more has to be fetched
        assert bool(index.asked) == (n_allowed != 5)


def test_who_has_had_the_best_items_gets_k_others_by_widening(
    index: Exact, scorer: VectorScorer, best_are_seen: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "EXACT_FROM", 2)
    users = everyone(scorer)
    found = joined(search_top_k(index, scorer, users, 20, seen=best_are_seen))
    assert (found.items >= 0).all()
    tries = [queries for queries, _ in index.asked]
    assert tries[0] == len(users)
    assert 0 < sum(tries[1:]) < len(users)  # only those who need it are searched for again


def test_the_exact_path_takes_over_where_a_search_would_read_nearly_everything(
    index: Exact, scorer: VectorScorer
) -> None:
    best = scorer.scores(torch.tensor([7])).argsort(descending=True)[0]
    all_but_three = Rows(torch.tensor([0] * 8 + [3997] * (60 - 7)), best[:3997])
    (lists,) = search_top_k(index, scorer, torch.tensor([7]), 5, seen=all_but_three)
    assert lists.items.tolist() == [[*best[3997:].tolist(), -1, -1]]
    assert all(n * search.EXACT_FROM <= scorer.n_items for _, n in index.asked)


def test_a_small_catalogue_needs_no_index(index: Exact, scorer: VectorScorer) -> None:
    small = VectorScorer(scorer.user_vectors, scorer.item_vectors[:50])
    users = everyone(small)
    assert_same(joined(search_top_k(index, small, users, 70)), joined(top_k(small, users, 70)))
    assert index.asked == []


def test_raised_items_do_not_hide_that_the_index_found_too_few(
    index: Exact, with_sparse_part: VectorScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the first try fetches is seen, but the sparse part has k other items to offer."""
    monkeypatch.setattr(search, "MARGIN", 0)
    users = everyone(with_sparse_part)
    plain = VectorScorer(with_sparse_part.user_vectors, with_sparse_part.item_vectors)
    seen: RowSource
    best = plain.scores(users).topk(5, dim=1).indices
    seen = Rows(torch.arange(0, 301, 5), best.flatten())
    found = joined(search_top_k(index, with_sparse_part, users, 5, seen=seen))
    assert_same(found, joined(top_k(with_sparse_part, users, 5, seen=seen)))


def test_users_are_searched_for_in_blocks_of_bounded_memory(
    index: Exact, scorer: VectorScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BLOCK_BYTES", 4 * 8 * 20 * 7)  # seven users' twenty candidates
    users = everyone(scorer)
    whole = joined(search_top_k(index, scorer, users, 20))
    assert max(queries for queries, _ in index.asked) == 7
    assert_same(whole, joined(top_k(scorer, users, 20)))
