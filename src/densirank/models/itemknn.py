"""ItemKNN (Sarwar et al. 2001): recommend the items most similar to the user's items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from scipy import sparse

from densirank.data.interactions import Interactions
from densirank.dimensions import Range, Space
from densirank.filters.similarity import standing_together
from densirank.linalg.csr import KEPT, SparsePart
from densirank.linalg.sparse import Matrix, best_besides, best_entries, by_row_blocks
from densirank.models.item_item import ItemItem
from densirank.settings import Number, Settings, Whole, setting


@dataclass(frozen=True)
class ItemKNNSettings(Settings):
    """ItemKNN."""

    searched: ClassVar[Space] = {
        "l2": Range(1.0, 500.0, log=True),
        "neighbours": Range(10, 1000, log=True),
    }

    l2: float = setting(50.0, Number(), "Shrinkage of similarities that are based on few users.")
    neighbours: int = setting(200, Whole(1), "Number of similar items kept for each item.")


class ItemKNN(ItemItem):
    """f_u(i) = Σ s_ij over the user's items j that are among the most similar ones to i."""

    name = "itemknn"
    settings = ItemKNNSettings

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        assert isinstance(settings, ItemKNNSettings)
        return cls(data, settings.neighbours, settings.l2)

    @staticmethod
    def weights(near: Matrix) -> Matrix:
        return near.T.tocsr()

    def __init__(self, data: Interactions, neighbours: int, shrinkage: float) -> None:
        super().__init__(data)
        self.count = neighbours
        self.shrinkage = shrinkage

    def solve(self, device: torch.device) -> tuple[SparsePart, SparsePart]:
        owned = self.data.matrix()
        near = nearest_items(self.data, self.count, self.shrinkage)
        scores = by_row_blocks(
            owned, near.T.tocsr(), lambda users, block: best_besides(block, KEPT, owned[users])
        )
        return SparsePart.of(scores, device), SparsePart.of(near, device)


def nearest_items(data: Interactions, count: int, shrinkage: float) -> Matrix:
    """Each item's ``count`` most similar others, s_ij = n_ij / (√(n_i n_j) + shrinkage).

    n_i users have item i and n_ij have both: a cosine, shrunk where it is based on few users. Of a
    very long history, only some items are counted in n_ij.
    """
    kept = standing_together(data)
    owned = (data if isinstance(kept, slice) else data.select(kept)).matrix()
    lengths = np.sqrt(data.item_counts).astype(np.float32)
    itself = sparse.eye_array(data.n_items, format="csr")

    def nearest(items: slice, shared: Matrix) -> Matrix:
        own_lengths = np.repeat(lengths[items], np.diff(shared.indptr))
        shared.data /= own_lengths * lengths[shared.indices] + np.float32(shrinkage)
        return best_entries(shared, count, barred=itself[items])

    return by_row_blocks(owned.T.tocsr(), owned, nearest)
