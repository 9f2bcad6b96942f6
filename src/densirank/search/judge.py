"""Evaluation of trials on the held-out items of as many users as the budget allows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.evaluation.held_out import HeldOut
from densirank.fit import VALIDATION_K
from densirank.models.popularity import log_popularity
from densirank.scores import Scorer, VectorScorer

FEWEST = 512
"""Minimum number of users to evaluate, if there are as many."""


@dataclass(frozen=True)
class Judge:
    """The training part of a search, and the users whose held-out items are evaluated."""

    train: Interactions
    held_out: HeldOut
    users: Tensor  # (users,) indices, in order
    seconds: float = 0.0  # of an evaluation, lower bound

    @classmethod
    def of(
        cls, train: Interactions, held_out: Interactions, device: torch.device, seconds: float
    ) -> Self:
        """A judge whose evaluation takes at most about ``seconds``, estimated on a few users.

        The number of users is doubled while time allows, in an order with a fixed seed, so that
        small differences in measured time give the same users.
        """
        measured = HeldOut(held_out, train, device)
        shuffled = torch.randperm(
            len(measured.users), generator=torch.Generator().manual_seed(0)
        ).to(device)
        everybody = measured.users[shuffled]
        count = min(FEWEST, len(everybody))
        by_popularity = popularity_scorer(train, device)
        first = cls(train, measured, everybody[:count])
        first(by_popularity)
        started = time.perf_counter()
        first(by_popularity)
        for_each = (time.perf_counter() - started) / count
        while count < len(everybody) and 2 * count * for_each <= seconds:
            count = min(2 * count, len(everybody))
        return cls(train, measured, everybody[:count].sort().values, count * for_each)

    def __call__(self, scorer: Scorer) -> float:
        """Mean nDCG@20 over the users."""
        tally = self.held_out.tally(scorer, self.users, VALIDATION_K)
        return float(tally.evaluation(VALIDATION_K).per_user["ndcg"].mean())


def popularity_scorer(data: Interactions, device: torch.device) -> VectorScorer:
    """Scorer of the method ``popularity``, with vectors of one dimension."""
    popularity = log_popularity(data.item_counts).to(device)
    return VectorScorer(popularity.new_ones(data.n_users, 1), popularity)
