"""Hard candidates: items near to what a batch's users have, found by an index of neighbours.

What a density risk learns from are items that the ranker could take for a user's own. Of a large
catalogue a uniform sample I_B holds few of those. Each item's nearest ones, which are known before
training, say them at once (the paper leaves such samplers to future work). A draw depends on the
seed alone, as that of any batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densirank.linalg.csr import Rows
from densirank.linalg.sparse import Matrix, best_entries, column_table

NEAREST = 10
"""Neighbours of an item that a draw is from."""


@dataclass(frozen=True)
class HardCandidates:
    """Draws, for each user of a batch, some neighbours of the user's items."""

    histories: Rows
    nearest: Tensor  # (items, NEAREST), an item with fewer neighbours having itself for the rest
    count: int

    @classmethod
    def of(cls, histories: Rows, near: Matrix, count: int) -> HardCandidates:
        """So many for each user, by N of the item–item filter."""
        nearest, _ = column_table(best_entries(near, NEAREST), NEAREST)
        return cls(histories, torch.from_numpy(nearest).to(histories.columns.device), count)

    def __call__(self, users: Tensor, chance: torch.Generator) -> Tensor:
        """Items, (users · count,), some of them perhaps more than once."""
        size = (len(users), self.count)
        item, place = (torch.rand(size, generator=chance).to(users.device) for _ in range(2))
        starts, counts = self.histories.indptr[users], self.histories.counts[users]
        entries = starts.unsqueeze(1) + (item * counts.unsqueeze(1)).long()
        return self.nearest[self.histories.columns[entries], (place * NEAREST).long()].flatten()
