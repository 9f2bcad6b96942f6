"""Item–item models: a score is a sum of weights between the user's items and the scored item."""

from __future__ import annotations

from typing import Self

import torch

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.linalg.csr import KEPT, SparsePart
from densirank.linalg.sparse import Matrix, best_besides, by_row_blocks
from densirank.models.base import Made, NewUsers, Trained


class ItemItem(Made):
    """f_u(i) = Σ w_ji over the user's items j, kept for these and the highest other items.

    All other scores are 0. The vectors have zero dimensions: scores come from the sparse part only.
    """

    takes_filters = False  # the model is an item–item filter itself
    folds_in = True

    def __init__(self, data: Interactions) -> None:
        super().__init__(torch.zeros(data.n_users, 0), torch.zeros(data.n_items, 0))
        self.data = data
        self._scores: SparsePart | None = None
        self._neighbours: SparsePart | None = None

    def solve(self, device: torch.device) -> tuple[SparsePart, SparsePart]:
        """(scores of own and best other items per user, neighbours and weights per item)."""
        raise NotImplementedError

    @staticmethod
    def weights(near: Matrix) -> Matrix:
        """W of the scores R_u W, from the neighbours kept for each item."""
        return near

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """Vectors of zero dimensions."""
        nothing = trained.item_vectors.new_zeros(histories.n_users, 0)
        return NewUsers(nothing, nothing)

    @classmethod
    def fold_in_sparse(cls, trained: Trained, histories: Interactions) -> SparsePart:
        """The scores of the user's items and the highest scores of other items."""
        scorer, had = trained.scorer, histories.matrix()
        assert scorer.neighbours is not None, "a model of items by items keeps its neighbours"
        weights = cls.weights(scorer.neighbours.to_scipy(scorer.n_items))
        best = by_row_blocks(
            had, weights, lambda users, block: best_besides(block, KEPT, had[users])
        )
        return SparsePart.of(best, scorer.device)

    def prepare(self, hardware: Hardware) -> Self:
        """Compute the scores; the algorithm depends on the device."""
        self._scores, self._neighbours = self.solve(hardware.device)
        return super().prepare(hardware)

    def sparse_part(self) -> SparsePart | None:
        return self._scores

    def neighbours(self) -> SparsePart | None:
        return self._neighbours
