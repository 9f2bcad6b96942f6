"""Models without vectors: a score is what the user's items say of an item, added up."""

from __future__ import annotations

from typing import Self

import torch

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.linalg.csr import SparsePart
from densirank.models.base import Made


class ItemItem(Made):
    """f_u(i) = Σ w_ji over the user's items j, for the best items not had; 0 for all others.

    The vectors have no dimensions, so that the sparse part is all there is of a score.
    """

    def __init__(self, data: Interactions) -> None:
        super().__init__(torch.zeros(data.n_users, 0), torch.zeros(data.n_items, 0))
        self.data = data
        self._scores: SparsePart | None = None
        self._neighbours: SparsePart | None = None

    def solve(self, device: torch.device) -> tuple[SparsePart, SparsePart]:
        """(each user's best scores, each item's neighbours and their weights)."""
        raise NotImplementedError

    def prepare(self, hardware: Hardware) -> Self:
        """Find the scores: how depends on where."""
        self._scores, self._neighbours = self.solve(hardware.device)
        return super().prepare(hardware)

    def sparse_part(self) -> SparsePart | None:
        return self._scores

    def neighbours(self) -> SparsePart | None:
        return self._neighbours
