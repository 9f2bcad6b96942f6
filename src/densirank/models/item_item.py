"""Models without vectors: a score is what the user's items say of an item, added up."""

from __future__ import annotations

from typing import Self

import torch

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.linalg.csr import KEPT, SparsePart
from densirank.linalg.sparse import Matrix, best_besides, by_row_blocks
from densirank.models.base import Made, NewUsers, Trained


class ItemItem(Made):
    """f_u(i) = Σ w_ji over the user's items j, for items had and the best others; 0 elsewhere.

    The vectors have no dimensions, so that the sparse part is all there is of a score.
    """

    takes_filters = False  # it is such a filter itself
    folds_in = True

    def __init__(self, data: Interactions) -> None:
        super().__init__(torch.zeros(data.n_users, 0), torch.zeros(data.n_items, 0))
        self.data = data
        self._scores: SparsePart | None = None
        self._neighbours: SparsePart | None = None

    def solve(self, device: torch.device) -> tuple[SparsePart, SparsePart]:
        """(each user's own and best scores, each item's neighbours and their weights)."""
        raise NotImplementedError

    @staticmethod
    def weights(near: Matrix) -> Matrix:
        """W of the scores R_u W, made of the neighbours that each item keeps."""
        return near

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """Vectors without dimensions."""
        nothing = trained.item_vectors.new_zeros(histories.n_users, 0)
        return NewUsers(nothing, nothing)

    @classmethod
    def fold_in_sparse(cls, trained: Trained, histories: Interactions) -> SparsePart:
        """The scores of items had, and the best of others."""
        scorer, had = trained.scorer, histories.matrix()
        assert scorer.neighbours is not None, "a model of items by items keeps its neighbours"
        weights = cls.weights(scorer.neighbours.to_scipy(scorer.n_items))
        best = by_row_blocks(
            had, weights, lambda users, block: best_besides(block, KEPT, had[users])
        )
        return SparsePart.of(best, scorer.device)

    def prepare(self, hardware: Hardware) -> Self:
        """Find the scores: how depends on where."""
        self._scores, self._neighbours = self.solve(hardware.device)
        return super().prepare(hardware)

    def sparse_part(self) -> SparsePart | None:
        return self._scores

    def neighbours(self) -> SparsePart | None:
        return self._neighbours
