"""Ranking metrics over the whole catalogue, in one pass over the users.

Libraries differ in their definitions; these are ours. With n_u test items and the list cut at k:
recall = hits / n_u; precision = hits / k; nDCG has binary gains, discount 1/log2(rank + 1) and the
ideal of min(k, n_u) hits; MAP sums the precision at each hit and divides by n_u; MRR is
1 / (rank of the first hit); the hit rate is the share of users with a hit. Each is a mean over
the users with test items. Coverage is the share of the catalogue in at least one list, and the
mean popularity that of the listed items in the training data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.linalg.csr import Rows
from densirank.ranking.topk import Lists
from densirank.world import World

Floats = NDArray[np.float64]
METRICS = ("recall", "precision", "ndcg", "map", "mrr", "hit_rate")


@dataclass(frozen=True)
class Evaluation:
    """The metrics of every user, and of the lists as a whole."""

    k: int
    users: NDArray[np.int64]
    per_user: dict[str, Floats]
    coverage: float
    mean_popularity: float

    def summary(self) -> dict[str, Any]:
        """The means by name: ``recall@20``, ``ndcg@20``, …, ``users``."""
        means = {f"{name}@{self.k}": float(values.mean()) for name, values in self.per_user.items()}
        return means | {
            f"coverage@{self.k}": self.coverage,
            f"popularity@{self.k}": self.mean_popularity,
            "users": len(self.users),
        }


@dataclass(frozen=True)
class Tally:
    """The results of some users, which can be joined with those of others."""

    users: Tensor  # (users,)
    per_user: Tensor  # (users, metrics) in the order of METRICS
    listed: Tensor  # (items,) whether an item is in any list
    popularity: Tensor  # (2,) the sum over the listed items, and their number

    def over(self, world: World) -> Tally:
        """The tallies of all processes together."""
        return Tally(
            world.gathered(self.users),
            world.gathered(self.per_user),
            world.sum_(self.listed.to(torch.int32)) > 0,
            world.sum_(self.popularity),
        )

    def evaluation(self, k: int) -> Evaluation:
        """The metrics of these lists of length ``k``."""
        total, count = self.popularity.tolist()
        columns = self.per_user.T.contiguous().cpu().numpy()
        return Evaluation(
            k=k,
            users=self.users.cpu().numpy(),
            per_user=dict(zip(METRICS, columns, strict=True)),
            coverage=float(self.listed.double().mean()),
            mean_popularity=total / max(1.0, count),
        )


def tally(
    lists: Iterable[Lists],
    relevant: Rows,
    n_relevant: Tensor,
    popularity: Tensor,
    k: int,
) -> Tally:
    """Compare lists with the test items of their users.

    ``relevant`` has the known test items of each user and ``n_relevant`` the number of all: an
    unknown test item counts as missed.
    """
    device = popularity.device
    users = [torch.empty(0, dtype=torch.int64, device=device)]
    blocks = [torch.empty(0, len(METRICS), dtype=torch.float64, device=device)]
    listed = torch.zeros_like(popularity, dtype=torch.bool)
    popularity_sum, n_listed = 0.0, 0
    for block in lists:
        hits = _hits(block, relevant, len(popularity))
        blocks.append(_per_user(hits, n_relevant[block.users], k))
        users.append(block.users)
        shown = block.items[block.items >= 0]
        listed[shown] = True
        popularity_sum += float(popularity[shown].sum(dtype=torch.float64))
        n_listed += len(shown)
    sums = torch.tensor([popularity_sum, n_listed], dtype=torch.float64, device=device)
    return Tally(torch.cat(users), torch.cat(blocks), listed, sums)


def _hits(lists: Lists, relevant: Rows, n_items: int) -> Tensor:
    """Whether each listed item is a test item of its user, (users, k)."""
    own = relevant.take(lists.users)
    keys = (own.row_of_entry * n_items + own.columns).sort().values
    rows = torch.arange(len(lists.users), device=lists.items.device).unsqueeze(1)
    wanted = rows * n_items + lists.items
    if len(keys) == 0:
        return torch.zeros_like(wanted, dtype=torch.bool)
    found = keys[torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)] == wanted
    return found & (lists.items >= 0)


def _per_user(hits: Tensor, n_relevant: Tensor, k: int) -> Tensor:
    """Every metric of every user from the hits of the lists, (users, metrics)."""
    gains = hits.double()
    n_relevant = n_relevant.double()
    ranks = torch.arange(1, hits.shape[1] + 1, device=hits.device, dtype=torch.float64)
    discounts = 1 / torch.log2(ranks + 1)
    ideal_ranks = torch.arange(1, k + 1, device=hits.device, dtype=torch.float64)
    ideal = (1 / torch.log2(ideal_ranks + 1)).cumsum(0)
    ideal_hits = n_relevant.clamp(min=1, max=k).long()
    n_hits = gains.sum(dim=1)
    precision_at_hits = (gains.cumsum(dim=1) / ranks * gains).sum(dim=1)
    found = {
        "recall": n_hits / n_relevant,
        "precision": n_hits / k,
        "ndcg": (gains * discounts).sum(dim=1) / ideal[ideal_hits - 1],
        "map": precision_at_hits / n_relevant,
        "mrr": (gains / ranks).amax(dim=1),
        "hit_rate": (n_hits > 0).double(),
    }
    return torch.stack([found[name] for name in METRICS], dim=1)
