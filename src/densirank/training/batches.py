"""User-based mini-batches: some users, all their positives, and the candidate items I_B."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from densirank.csr import Rows
from densirank.data.interactions import Interactions
from densirank.risks.positives import Positives
from densirank.settings import Candidates


@dataclass(frozen=True)
class Batch:
    """Which vectors a step needs (``users``, ``items``) and how they belong together."""

    users: Tensor  # (users,) indices of U_B
    items: Tensor  # (items,) indices: the candidates I_B first, then positives outside of them
    positives: Positives

    @property
    def candidates(self) -> Tensor:
        """The indices of I_B."""
        return self.items[: self.positives.n_candidates]


class BatchSampler:
    """Draws the batch of any iteration from the seed alone, so a resumed run needs no state.

    Users come in shuffled epochs, each user once an epoch (save for a remainder smaller than a
    batch), and only users with positives come at all.
    """

    def __init__(
        self,
        data: Interactions,
        users_per_batch: int,
        candidates: Candidates,
        seed: int,
        device: torch.device,
    ) -> None:
        self._rows = Rows.of(data, device)
        self._active = (self._rows.counts > 0).nonzero().squeeze(1)
        self._size = min(users_per_batch, len(self._active))
        self._batches_per_epoch = len(self._active) // self._size
        self._n_items = data.n_items
        self._candidates = candidates
        self._seed = seed
        self._epoch, self._shuffled = -1, self._active

    def __call__(self, iteration: int) -> Batch:
        """The batch of this iteration (counted from 0)."""
        epoch, turn = divmod(iteration, self._batches_per_epoch)
        if epoch != self._epoch:
            order = torch.randperm(len(self._active), generator=self._generator(0, epoch))
            self._epoch, self._shuffled = epoch, self._active[order.to(self._active.device)]
        users = self._shuffled[turn * self._size : (turn + 1) * self._size]
        rows = self._rows.take(users)
        candidates = self._draw_candidates(rows, iteration)
        return _arrange(users, rows, candidates, self._n_items)

    def _draw_candidates(self, rows: Rows, iteration: int) -> Tensor | None:
        """The indices of I_B, or None for the unique positives of the batch."""
        if self._candidates == "batch":
            return None
        if self._candidates == "all" or self._candidates >= self._n_items:
            return torch.arange(self._n_items, device=rows.columns.device)
        generator = self._generator(1, iteration)
        sample = torch.randperm(self._n_items, generator=generator)[: self._candidates]
        return sample.to(rows.columns.device)

    def _generator(self, stream: int, number: int) -> torch.Generator:
        """Randomness that depends on nothing but the seed, what it is for, and which one it is."""
        mixed = np.random.SeedSequence((self._seed, stream, number)).generate_state(1, np.uint64)
        return torch.Generator().manual_seed(int(mixed[0] >> 1))


def _arrange(users: Tensor, rows: Rows, candidates: Tensor | None, n_items: int) -> Batch:
    """Number the batch's items, candidates first, and say which of them are whose positives."""
    place = torch.full((n_items,), -1, device=users.device)
    if candidates is None:
        place[rows.columns] = 0
        candidates = (place == 0).nonzero().squeeze(1)
    n_candidates = len(candidates)
    items = candidates
    place[candidates] = torch.arange(n_candidates, device=users.device)
    all_are_candidates = n_candidates == n_items or bool((place[rows.columns] >= 0).all())
    if not all_are_candidates:
        outside = torch.unique(rows.columns[place[rows.columns] < 0])
        place[outside] = torch.arange(len(outside), device=users.device) + n_candidates
        items = torch.cat([candidates, outside])
    positives = Positives(rows.indptr, place[rows.columns], n_candidates, all_are_candidates)
    return Batch(users, items, positives)
