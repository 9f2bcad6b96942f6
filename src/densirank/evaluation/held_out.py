"""Held-out interactions in the indices of a model, and the evaluation by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.evaluation.metrics import Evaluation, Tally, tally
from densirank.linalg.csr import Rows
from densirank.ranking.blocks import default_budget, rows_per_block
from densirank.ranking.topk import top_k
from densirank.scores import Scorer
from densirank.world import ONE_PROCESS, World

NONE_KNOWN = "none of the held-out users is known to the model"


@dataclass(frozen=True)
class Draws:
    """Held-out items that are known and unseen: each is a draw from p(i|u)."""

    users: Tensor  # (users,) with such items
    items: Rows  # of every user of the model
    seen: Rows  # of every user of the model


class HeldOut:
    """Test interactions in the indices of a model, to evaluate any scorer of its users.

    A test user that the model does not know is left out. A test item that it does not know counts
    as missed: it stays in the denominators; so does one that the user has in training, unless
    ``filter_seen`` is false.
    """

    def __init__(
        self,
        test: Interactions,
        seen: Interactions,
        device: torch.device,
        item_counts: NDArray[np.int64] | None = None,
        *,
        filter_seen: bool = True,
    ) -> None:
        """``item_counts`` is the popularity of the items, if ``seen`` are not the training data.

        Without ``filter_seen``, the lists of an evaluation also have the items of training.
        """
        users = seen.user_ids.indices(test.user_ids.ids)[test.users]
        items = seen.item_ids.indices(test.item_ids.ids)[test.items]
        if (users < 0).all():
            raise InputError(NONE_KNOWN)
        self.unknown_users = len(np.unique(test.users[users < 0]))
        self.unknown_items = len(np.unique(test.items[items < 0]))
        n_relevant = np.bincount(users[users >= 0], minlength=seen.n_users)
        known = (users >= 0) & (items >= 0)
        order = np.argsort(users[known], kind="stable")
        counts = np.bincount(users[known], minlength=seen.n_users)
        relevant_items = items[known][order]
        self._relevant = Rows(
            torch.from_numpy(np.concatenate(([0], np.cumsum(counts)))).to(device),
            torch.from_numpy(relevant_items).to(device),
        )
        self._n_relevant = torch.from_numpy(n_relevant).to(device)
        self.users = torch.from_numpy(np.flatnonzero(n_relevant)).to(device)
        self._seen = Rows.of(seen, device)
        self._filter_seen = filter_seen
        self._popularity = torch.from_numpy(
            seen.item_counts if item_counts is None else item_counts
        ).to(device)

    def evaluate(
        self,
        scorer: Scorer,
        k: int,
        budget_bytes: int | None = None,
        world: World = ONE_PROCESS,
    ) -> Evaluation:
        """Rank all (unseen) items for every held-out user and compute the metrics.

        Several processes share the users, and the result is that of one process to the last bit:
        users are split at the end of a block of scores, so every block is computed as in one
        process, and sums of integers do not depend on the order. A process without a block ranks
        for no user.
        """
        budget = default_budget(scorer.device) if budget_bytes is None else budget_bytes
        rows = rows_per_block(scorer.n_items, budget)
        blocks = world.own(-(-len(self.users) // rows))
        users = self.users[blocks.start * rows : blocks.stop * rows]
        return self.tally(scorer, users, k, budget).over(world).evaluation(k)

    def tally(
        self, scorer: Scorer, users: Tensor, k: int, budget_bytes: int | None = None
    ) -> Tally:
        """The results of some held-out users (indices), which can be joined with others."""
        seen = self._seen if self._filter_seen else None
        return tally(
            top_k(scorer, users, k, seen=seen, budget_bytes=budget_bytes),
            self._relevant,
            self._n_relevant,
            self._popularity,
            k,
        )

    def summary(self, *evaluations: Evaluation) -> dict[str, Any]:
        """The means of evaluations, with the number of unknown users, items and seen pairs."""
        means = {key: value for found in evaluations for key, value in found.summary().items()}
        users = means.pop("users")
        return means | {
            "users": users,
            "unknown_users": self.unknown_users,
            "unknown_items": self.unknown_items,
            "seen_pairs": self.seen_pairs(),
        }

    def draws(self, max_users: int) -> Draws:
        """Held-out items as draws from p(i|u); of more than ``max_users``, a fixed sample."""
        new = ~self._is_seen()
        counts = torch.bincount(self._relevant.row_of_entry[new], minlength=len(self._relevant))
        users = counts.nonzero().squeeze(1)
        if len(users) == 0:
            raise InputError(
                "no held-out item can be predicted: all are unknown to the model or training pairs"
            )
        if len(users) > max_users:
            sample = np.random.default_rng(0).choice(len(users), max_users, replace=False)
            users = users[torch.from_numpy(np.sort(sample)).to(users.device)]
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return Draws(users, Rows(indptr, self._relevant.columns[new]), self._seen)

    def seen_pairs(self) -> int:
        """Number of held-out pairs that are training pairs; many indicate a wrong split."""
        return int(self._is_seen().sum())

    def _is_seen(self) -> Tensor:
        """Whether each held-out pair is a training pair."""
        n_items = len(self._popularity)
        held = self._relevant.row_of_entry * n_items + self._relevant.columns
        trained = self._seen.row_of_entry * n_items + self._seen.columns
        return torch.isin(held, trained)
