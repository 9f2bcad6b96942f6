"""Hard candidates: items similar to those of a batch's users, from precomputed neighbours.

A density risk learns most from items that the ranker confuses with a user's own. A uniform sample
I_B of a large catalogue contains few of them. Drawing from the nearest neighbours of the user's
items, which are computed before training, finds them directly (the paper leaves such samplers to
future work). Like every batch, a draw depends on the seed only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densirank.linalg.csr import Rows
from densirank.linalg.sparse import Matrix, best_entries, column_table

NEAREST = 10
"""Neighbours per item from which candidates are drawn."""


@dataclass(frozen=True)
class HardCandidates:
    """Draws, for each user of a batch, some neighbours of the user's items."""

    histories: Rows
    nearest: Tensor  # (items, NEAREST), padded with the item itself
    count: int

    @classmethod
    def of(cls, histories: Rows, near: Matrix, count: int) -> HardCandidates:
        """Create a sampler of ``count`` items per user from the item–item filter's matrix N."""
        nearest, _ = column_table(best_entries(near, NEAREST), NEAREST)
        return cls(histories, torch.from_numpy(nearest).to(histories.columns.device), count)

    def __call__(self, users: Tensor, chance: torch.Generator) -> Tensor:
        """The sampled items, (users · count,), possibly repeated."""
        size = (len(users), self.count)
        item, place = (torch.rand(size, generator=chance).to(users.device) for _ in range(2))
        starts, counts = self.histories.indptr[users], self.histories.counts[users]
        entries = starts.unsqueeze(1) + (item * counts.unsqueeze(1)).long()
        return self.nearest[self.histories.columns[entries], (place * NEAREST).long()].flatten()
