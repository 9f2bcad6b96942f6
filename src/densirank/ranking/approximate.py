"""The best k unseen items of some users by an index, with exact scores and filters.

The index finds candidates by the dot product alone; the sparse part of a score, where a method has
one, adds its own. All candidates are scored again exactly and filtered. If the filters leave fewer
than k, the search is widened, and if that would read almost everything, the exact path is taken. So
a list is short only if no items are left; only the choice of candidates is approximate.
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
from densirank.ranking.untrained import untrained_items
from densirank.scores import USERS_AT_ONCE, VectorScorer


class Index(Protocol):
    """Finds items with large inner products with user vectors."""

    kind: ClassVar[str]
    suffix: ClassVar[str]
    efforts: ClassVar[tuple[int, ...]]
    """The values of ``effort``, ascending: a higher one finds more and takes longer."""

    effort: int

    @classmethod
    def build(cls, item_vectors: Tensor, seed: int = 0) -> Self:
        """Build the index of item vectors, (items, dim) on a CPU."""
        ...

    @classmethod
    def load(cls, path: Path, item_vectors: Tensor) -> Self:
        """Read the index of these item vectors that :meth:`save` wrote."""
        ...

    def save(self, path: Path) -> None:
        """Write the file that :meth:`load` reads; never a pickle."""
        ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_bytes(self) -> int:
        """Memory of the index, without the vectors of the model."""
        ...

    def nearest(self, queries: Tensor, n: int) -> Tensor:
        """(queries, n) items with large inner products, unordered and padded with -1."""
        ...


MAX_SCORED = 10_000
"""Up to this many rankable items are all scored exactly."""

MARGIN = 128
"""Items fetched in addition to k, for seen ones; a user with more may need a second search."""

WIDER = 4
"""Factor by which the next search fetches more items."""

EXACT_FROM = 8
"""A search that would fetch more than one item in this many takes the exact path."""

BLOCK_BYTES = 64 << 20
"""Memory for the vectors of the candidates of a block of users."""


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
    """Like :func:`~densirank.ranking.topk.top_k`, by the index and without a normaliser.

    The normaliser is a sum over the whole catalogue, which an index avoids to read.
    """
    barred, untrained = None, untrained_items(scorer)
    if allowed is not None or excluded is not None:
        barred = barred_items(scorer, allowed, excluded)
    hidden = barred
    if untrained is not None:
        hidden = barred_items(scorer, allowed, excluded).index_fill(0, untrained, True)
    filters = Filters(seen, hidden)  # of a search: untrained items come last in any case
    k = min(k, scorer.n_items)
    share = 1.0
    if barred is not None:
        left = (~barred).nonzero().squeeze(1)
        if len(left) <= MAX_SCORED and untrained is not None and not bool(barred[untrained].all()):
            yield from top_k(scorer, users, k, seen=seen, allowed=allowed, excluded=excluded)
            return
        if len(left) <= MAX_SCORED:
            for block in torch.split(users, _users_at_once(scorer, len(left))):
                candidates = left.expand(len(block), -1)
                yield Lists(block, *rank_candidates(scorer, block, candidates, k, filters))
            return
    if hidden is not None:
        share = max(float((~hidden).float().mean()), 1 / scorer.n_items)
    fetched = int((k + (0 if seen is None else MARGIN)) / share)
    if fetched * EXACT_FROM > scorer.n_items:
        yield from top_k(scorer, users, k, seen=seen, allowed=allowed, excluded=excluded)
        return
    for block in torch.split(users, _users_at_once(scorer, fetched)):
        yield _widening(index, scorer, block, k, fetched, filters, barred)


def _widening(
    index: Index,
    scorer: VectorScorer,
    users: Tensor,
    k: int,
    fetched: int,
    filters: Filters,
    barred: Tensor | None,
) -> Lists:
    """The lists of some users, who may need different numbers of searches.

    Only those without enough items to find get what the filters leave out and is not ``barred``.
    """
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
            candidates = with_entries(candidates, named.take(still))
        done = still[enough]
        own = None if part is None else part.take(done)
        items[done], scores[done] = rank_candidates(
            scorer, users[done], candidates[enough], k, filters, own
        )
        still = still[~enough]
        fetched *= WIDER
    if len(still):
        excluded = None if barred is None else barred.nonzero().squeeze(1)
        exact = list(top_k(scorer, users[still], k, seen=filters.seen, excluded=excluded))
        items[still] = torch.cat([lists.items for lists in exact])
        scores[still] = torch.cat([lists.scores for lists in exact])
    return Lists(users, items, scores)


def _users_at_once(scorer: VectorScorer, n_candidates: int) -> int:
    """Users of a block whose candidates fit the budget."""
    most = BLOCK_BYTES // (4 * max(1, scorer.item_vectors.shape[1]) * max(1, n_candidates))
    return max(1, most if scorer.sparse_part is None else min(most, USERS_AT_ONCE))


@dataclass(frozen=True)
class Filters:
    """Items that cannot be listed: ``seen`` by a user, or ``barred`` for all users."""

    seen: RowSource | None = None
    barred: Tensor | None = None  # (items,) of flags

    def rankable(self, users: Tensor, items: Tensor, n_items: int) -> Tensor:
        """Which items, (users, n) ascending and padded with ``n_items``, can be listed."""
        rankable = items < n_items
        if self.barred is not None:
            rankable &= ~self.barred[items.clamp(max=n_items - 1)]
        if self.seen is not None:
            places, _ = _places(items, self.seen.take(users), n_items)
            rankable.view(-1)[places] = False
        return rankable

    def count_rankable(self, users: Tensor, candidates: Tensor, n_items: int) -> Tensor:
        """How many candidates of each user can be listed."""
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
    """(items, scores) of the best k of the candidates, (users, n) padded with -1.

    ``part`` is the sparse part of these users, if it is already known. Candidates may repeat. Ties
    are ordered by item; a short list is padded with item -1 and score -inf.
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


def with_entries(candidates: Tensor, rows: Rows) -> Tensor:
    """The candidates of each row followed by the entries of the same row; padded with -1."""
    n_rows, width = candidates.shape
    longest = int(rows.counts.max()) if n_rows else 0
    both = candidates.new_full((n_rows, width + longest), -1)
    both[:, :width] = candidates
    place = torch.arange(len(rows.columns), device=candidates.device)
    place -= rows.indptr[:-1].repeat_interleave(rows.counts)
    both[rows.row_of_entry, width + place] = rows.columns
    return both


def _distinct_ascending(candidates: Tensor, n_items: int) -> Tensor:
    """The distinct items of each row, ascending and padded with ``n_items``."""
    items = candidates.masked_fill(candidates < 0, n_items).sort(dim=1).values
    repeated = items[:, 1:] == items[:, :-1]
    if bool((repeated & (items[:, 1:] < n_items)).any()):
        items[:, 1:].masked_fill_(repeated, n_items)
        items = items.sort(dim=1).values
    return items


def _places(items: Tensor, rows: Rows, n_items: int) -> tuple[Tensor, Tensor]:
    """(positions in the flattened items, the entries of the same rows found there)."""
    offsets = torch.arange(len(items), device=items.device).unsqueeze(1) * (n_items + 1)
    keys = (items + offsets).flatten()  # ascending across rows
    sought = rows.columns + rows.row_of_entry * (n_items + 1)
    places = torch.searchsorted(keys, sought).clamp(max=len(keys) - 1)
    found = (keys[places] == sought).nonzero().squeeze(1)
    return places[found], found
