"""The best k unseen of some users by an index, with the scores and the filters of the exact path.

The index names candidates by the dot product alone; the sparse part of a score, where a method has
one, names its own. Both are scored again exactly and filtered. Where filters leave fewer than k,
the search is widened, and where that would come near to reading everything, the exact path reads
everything. So a list is short only if there are no more items, and it is approximate in nothing
but which items were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor

from densirank.linalg.csr import Rows, RowSource, SparsePart
from densirank.ranking.blocks import barred_items
from densirank.ranking.topk import Lists, best_columns, top_k
from densirank.scores import USERS_AT_ONCE, VectorScorer


class Index(Protocol):
    """Finds, for vectors of users, items whose inner products with them are among the largest."""

    kind: ClassVar[str]
    suffix: ClassVar[str]
    efforts: ClassVar[tuple[int, ...]]
    """What ``effort`` may be set to, in ascending order: more finds more and takes longer."""

    effort: int

    @classmethod
    def build(cls, item_vectors: Tensor, seed: int = 0) -> Self:
        """The index of some item vectors, (items, dim) on a CPU."""
        ...

    @classmethod
    def load(cls, path: Path, item_vectors: Tensor) -> Self:
        """The index of these item vectors as :meth:`save` left it."""
        ...

    def save(self, path: Path) -> None:
        """Write what :meth:`load` reads; never a pickle."""
        ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_bytes(self) -> int:
        """Memory it takes beside the model's own vectors."""
        ...

    def nearest(self, queries: Tensor, n: int) -> Tensor:
        """(queries, n) items of large inner products, in no order; -1 where it found no more."""
        ...


FEW = 10_000
"""Rankable items that are simply all scored."""

MARGIN = 128
"""Seen items of a user that are fetched beside the k; those who have more may need a second try."""

WIDER = 4
"""How many times as many items the next try fetches."""

EXACT_FROM = 8
"""A search that would fetch more than one item in so many is left to the exact path."""

BLOCK_BYTES = 64 << 20
"""Memory for the vectors of the candidates of some users."""


def search_top_k(
    index: Index,
    scorer: VectorScorer,
    users: Tensor,
    k: int,
    *,
    seen: RowSource | None = None,
    allowed: Tensor | None = None,
    excluded: Tensor | None = None,
) -> Iterator[Lists]:
    """What :func:`~densirank.ranking.topk.top_k` gives, by the index: no normaliser comes with it.

    The normaliser is a sum over the whole catalogue, which is what an index avoids reading.
    """
    everything = allowed is None and excluded is None
    barred = None if everything else barred_items(scorer, allowed, excluded)
    filters = Filters(seen, barred)
    k = min(k, scorer.n_items)
    if barred is not None and int((~barred).sum()) <= FEW:
        yield from _all_of_few(scorer, users, k, filters, (~barred).nonzero().squeeze(1))
        return
    share = 1.0 if barred is None else float((~barred).float().mean())
    fetched = int((k + (0 if seen is None else MARGIN)) / share)
    if fetched * EXACT_FROM > scorer.n_items:
        yield from top_k(scorer, users, k, seen=seen, allowed=allowed, excluded=excluded)
        return
    for block in torch.split(users, _users_at_once(scorer, fetched)):
        yield _widening(index, scorer, block, k, fetched, filters)


def _all_of_few(
    scorer: VectorScorer, users: Tensor, k: int, filters: Filters, few: Tensor
) -> Iterator[Lists]:
    """The best of a few items, all of which are scored."""
    for block in torch.split(users, _users_at_once(scorer, len(few))):
        candidates = few.expand(len(block), -1)
        yield Lists(block, *rank_candidates(scorer, block, candidates, k, filters), None)


def _widening(
    index: Index, scorer: VectorScorer, users: Tensor, k: int, fetched: int, filters: Filters
) -> Lists:
    """The lists of some users, who may need different numbers of tries."""
    items = torch.full((len(users), k), -1, device=scorer.device)
    scores = torch.full((len(users), k), -torch.inf, device=scorer.device)
    still = torch.arange(len(users), device=scorer.device)
    part = None if scorer.sparse_part is None else scorer.sparse_part.take(users)
    named = None if scorer.sparse_part is None else scorer.sparse_part.kept(users).rows
    while len(still) and fetched * EXACT_FROM <= scorer.n_items:
        asking = users[still]
        candidates = index.nearest(scorer.user_vectors[asking].cpu(), fetched).to(scorer.device)
        enough = filters.count_rankable(asking, candidates, scorer.n_items) >= k
        if named is not None:
            candidates = beside(candidates, named.take(still))
        done = still[enough]
        own = None if part is None else part.take(done)
        items[done], scores[done] = rank_candidates(
            scorer, users[done], candidates[enough], k, filters, own
        )
        still = still[~enough]
        fetched *= WIDER
    if len(still):
        excluded = None if filters.barred is None else filters.barred.nonzero().squeeze(1)
        exact = list(top_k(scorer, users[still], k, seen=filters.seen, excluded=excluded))
        items[still] = torch.cat([lists.items for lists in exact])
        scores[still] = torch.cat([lists.scores for lists in exact])
    return Lists(users, items, scores, None)


def _users_at_once(scorer: VectorScorer, n_candidates: int) -> int:
    """How many users' candidates fit the budget."""
    most = BLOCK_BYTES // (4 * max(1, scorer.item_vectors.shape[1]) * max(1, n_candidates))
    return max(1, most if scorer.sparse_part is None else min(most, USERS_AT_ONCE))


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
