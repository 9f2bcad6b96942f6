"""The best k unseen of some users by an index, with the scores and the filters of the exact path.

The index names candidates by the dot product alone; the sparse part of a score, where a method has
one, names its own. Both are scored again exactly and filtered. Where filters leave fewer than k,
the search is widened, and where that would come near to reading everything, the exact path reads
everything. So a list is short only if there are no more items, and it is approximate in nothing
but which items were looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from densirank.csr import KEPT, RowSource
from densirank.ranking.blocks import barred_items
from densirank.ranking.candidates import Filters, beside, rank_candidates
from densirank.ranking.index import Index
from densirank.ranking.scores import USERS_AT_ONCE, VectorScorer
from densirank.ranking.topk import Lists, top_k

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
    named = None if part is None else part.highest(KEPT, scorer.n_items).rows
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
