"""Builds an index with the least sufficient effort and measures its recall."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from densirank.errors import InputError
from densirank.linalg.csr import RowSource
from densirank.ranking.approximate import Index, search_top_k
from densirank.ranking.clusters import Clusters
from densirank.ranking.hnsw import Hnsw
from densirank.ranking.topk import Lists, top_k
from densirank.ranking.untrained import without_items
from densirank.scores import VectorScorer

KINDS: dict[str, type[Index]] = {kind.kind: kind for kind in (Hnsw, Clusters)}
K = 20
"""Length of the lists by which recall is measured."""

SAMPLE = 500
"""Users by which the effort is chosen; the recall is measured on as many others."""


@dataclass(frozen=True)
class Measured:
    """The cost of an index, and the share of the exact lists that its searches find."""

    kind: str
    effort: int
    recall: float  # @20, of unseen items, on users by which the effort was not chosen
    users: int  # of the measurement
    seconds: float  # of building it
    mib: float  # of memory, without the vectors of the model


@dataclass(frozen=True)
class MeasuredIndex:
    """An index and its measurements."""

    index: Index
    measured: Measured


def build_index(
    scorer: VectorScorer,
    seen: RowSource,
    kind: str = "hnsw",
    *,
    recall: float = 0.99,
    seed: int = 0,
) -> MeasuredIndex:
    """An index with the least effort whose searches reach a recall of the exact top 20.

    If no effort reaches it, the index has the largest effort. The recall is measured either way.
    """
    if kind not in KINDS:
        raise InputError(f"there is no index of kind {kind!r}; choose {' or '.join(KINDS)}")
    if isinstance(recall, bool | str) or not 0 < recall <= 1:
        raise InputError(f"recall must be above 0 and at most 1, not {recall!r}")
    if scorer.item_vectors.shape[1] == 0:
        raise InputError("the method has no vectors to index: its scores are sparse")
    started = time.perf_counter()
    index = KINDS[kind].build(scorer.item_vectors.cpu().float(), seed)
    seconds = time.perf_counter() - started
    chance = torch.Generator().manual_seed(seed)
    order, without = torch.randperm(scorer.n_users, generator=chance), without_items(scorer)
    if without is not None:  # they get what is popular, without a search
        order = order[~without[order].cpu()]
    users = order[: 2 * SAMPLE].to(scorer.device)
    to_choose, to_measure = users[: (len(users) + 1) // 2], users[len(users) // 2 :]
    wanted = _items(top_k(scorer, to_choose, K, seen=seen))
    for effort in index.efforts:
        index.effort = effort
        if _share(_items(search_top_k(index, scorer, to_choose, K, seen=seen)), wanted) >= recall:
            break
    found = _items(search_top_k(index, scorer, to_measure, K, seen=seen))
    reached = _share(found, _items(top_k(scorer, to_measure, K, seen=seen)))
    mib = index.n_bytes / 2**20
    measured = Measured(kind, index.effort, reached, len(to_measure), seconds, mib)
    return MeasuredIndex(index, measured)


def _items(blocks: Iterable[Lists]) -> Tensor:
    return torch.cat([lists.items for lists in blocks])


def _share(found: Tensor, exact: Tensor) -> float:
    """The mean share of the exact lists that was found."""
    hits = ((exact.unsqueeze(2) == found.unsqueeze(1)) & (exact >= 0).unsqueeze(2)).any(dim=2)
    return float((hits.sum(dim=1) / (exact >= 0).sum(dim=1).clamp(min=1)).mean())
