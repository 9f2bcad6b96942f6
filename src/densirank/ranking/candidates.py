"""The best k of a few candidates of each user, by the same scores and order as the whole path's."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densirank.csr import Rows, RowSource, SparsePart
from densirank.ranking.scores import VectorScorer
from densirank.ranking.selection import best_columns


@dataclass(frozen=True)
class Filters:
    """What is not to be listed: items ``seen`` by each user, and those ``barred`` for everybody."""

    seen: RowSource | None = None
    barred: Tensor | None = None  # (items,) one flag an item

    def rankable(self, users: Tensor, items: Tensor, n_items: int) -> Tensor:
        """Which of the items, (users, n) in ascending order with ``n_items`` for none, remain."""
        rankable = items < n_items
        if self.barred is not None:
            rankable &= ~self.barred[items.clamp(max=n_items - 1)]
        if self.seen is not None:
            places, _ = _places(items, self.seen.take(users), n_items)
            rankable.view(-1)[places] = False
        return rankable

    def count_rankable(self, users: Tensor, candidates: Tensor, n_items: int) -> Tensor:
        """How many of the candidates of each user remain."""
        items = _distinct_ascending(candidates, n_items)
        return self.rankable(users, items, n_items).sum(dim=1)


def rank_candidates(
    scorer: VectorScorer,
    users: Tensor,
    candidates: Tensor,
    k: int,
    filters: Filters,
    part: SparsePart | None = None,
) -> tuple[Tensor, Tensor]:
    """(items, scores) of the best k of the candidates, (users, n) with -1 for none.

    The users' sparse ``part`` is taken anew unless it is at hand and given.
    Candidates may repeat themselves. Equal scores are ordered by item, as everywhere; a list that
    is too short is padded with item -1 and score -inf.
    """
    items = _distinct_ascending(candidates, scorer.n_items)
    some_item = items.clamp(max=scorer.n_items - 1)
    vectors = scorer.user_vectors[users].unsqueeze(2)
    scores = torch.bmm(scorer.item_vectors[some_item], vectors).squeeze(2)
    if part is None and scorer.sparse_part is not None:
        part = scorer.sparse_part.take(users)
    if part is not None:
        places, found = _places(items, part.rows, scorer.n_items)
        scores.view(-1)[places] += part.values[found]
    scores.masked_fill_(~filters.rankable(users, items, scorer.n_items), -torch.inf)
    width = items.shape[1]
    best, columns = best_columns(scores, min(k, width))
    listed = items.gather(1, columns).masked_fill(best == -torch.inf, -1)
    missing = (0, max(0, k - width))
    pad = torch.nn.functional.pad
    return pad(listed, missing, value=-1), pad(best, missing, value=-torch.inf)


def beside(candidates: Tensor, rows: Rows) -> Tensor:
    """The candidates with the entries of the same rows next to them; -1 fills what is shorter."""
    n_rows, width = candidates.shape
    longest = int(rows.counts.max()) if n_rows else 0
    both = candidates.new_full((n_rows, width + longest), -1)
    both[:, :width] = candidates
    place = torch.arange(len(rows.columns), device=candidates.device)
    place -= rows.indptr[:-1].repeat_interleave(rows.counts)
    both[rows.row_of_entry, width + place] = rows.columns
    return both


def _distinct_ascending(candidates: Tensor, n_items: int) -> Tensor:
    """Each row's items in ascending order and once; ``n_items`` stands for none, at the end."""
    items = candidates.masked_fill(candidates < 0, n_items).sort(dim=1).values
    repeated = items[:, 1:] == items[:, :-1]
    if bool((repeated & (items[:, 1:] < n_items)).any()):
        items[:, 1:].masked_fill_(repeated, n_items)
        items = items.sort(dim=1).values
    return items


def _places(items: Tensor, rows: Rows, n_items: int) -> tuple[Tensor, Tensor]:
    """(places among the flattened items, entries of the same rows that stand there)."""
    offsets = torch.arange(len(items), device=items.device).unsqueeze(1) * (n_items + 1)
    keys = (items + offsets).flatten()  # ascending, for each row is and rows follow each other
    sought = rows.columns + rows.row_of_entry * (n_items + 1)
    places = torch.searchsorted(keys, sought).clamp(max=len(keys) - 1)
    found = (keys[places] == sought).nonzero().squeeze(1)
    return places[found], found
