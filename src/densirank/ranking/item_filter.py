"""A one-hop item–item filter beside the vectors: what people with the same items went on to.

With R̂ = D_u^-½ R D_i^-½, user u's filter scores are g_u = R_u R̂ᵀR̂: no training, and of full rank,
so they know of rare items what d dimensions cannot hold. The user's own row stays as it is: scaled
like R̂, popular items of one's own would hardly count. Each item keeps its nearest neighbours and
each user the best items not had, so memory grows with users and items and not with their product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from densirank.csr import KEPT, Rows, SparsePart
from densirank.data.interactions import Interactions
from densirank.data.recency import recency_weights
from densirank.dense_products import best_of_product
from densirank.sparse_products import Matrix, best_entries, by_row_blocks

NEIGHBOURS = 200
"""Entries of R̂ᵀR̂ that an item keeps."""


@dataclass(frozen=True)
class ItemFilter:
    """Each user's highest filter scores among the items not had, in units of σ_u(g)."""

    scores: SparsePart
    near: Matrix  # R̂ᵀR̂, (items, items), as far as items keep it: it says the scores of anybody

    @classmethod
    def of(cls, data: Interactions, device: torch.device, recency: float = 0.0) -> ItemFilter:
        """The filter of some interactions, for the people in them; recent items may count more."""
        normalised = _normalised(data)
        by_item = normalised.T.tocsr()
        if device.type == "cuda":
            near = best_of_product(by_item, normalised, NEIGHBOURS, device)
        else:
            near = by_row_blocks(
                by_item, normalised, lambda _, block: best_entries(block, NEIGHBOURS)
            )
        return cls.for_histories(data, near, device, recency)

    @classmethod
    def for_histories(
        cls, data: Interactions, near: Matrix, device: torch.device, recency: float = 0.0
    ) -> ItemFilter:
        """The filter for people who had no part in making it, by what they had."""
        had = data.matrix()
        had.data = recency_weights(data, recency).astype(np.float32)
        if device.type == "cuda":
            own = Rows.of(data, device)
            best = best_of_product(had, near, KEPT, device, barred=own, standardised=True)
        else:
            best = by_row_blocks(
                had, near, lambda users, block: _best_standardised(block, barred=had[users])
            )
        return cls(SparsePart.of(best, device), near)

    def beside(self, user_vectors: Tensor, item_vectors: Tensor, weight: float) -> SparsePart:
        """The part that makes f + weight · σ_u(f) · g / σ_u(g) of the dot products f.

        σ_u(f) over all items is √(e_uᵀ C e_u), C being the items' covariance.
        """
        centred = item_vectors - item_vectors.mean(dim=0)
        covariance = centred.T @ centred / len(item_vectors)
        spread = ((user_vectors @ covariance) * user_vectors).sum(dim=1).clamp(min=0).sqrt()
        rows = self.scores.rows
        return SparsePart(rows, weight * spread[rows.row_of_entry] * self.scores.values)


def _normalised(data: Interactions) -> Matrix:
    """R̂ as a sparse matrix."""
    by_user = 1 / np.sqrt(np.maximum(data.user_counts, 1))
    by_item = 1 / np.sqrt(np.maximum(data.item_counts, 1))
    values = np.repeat(by_user, data.user_counts) * by_item[data.items]
    shape = (data.n_users, data.n_items)
    return sparse.csr_array((values.astype(np.float32), data.items, data.indptr), shape=shape)


def _best_standardised(block: Matrix, barred: Matrix) -> Matrix:
    """The scores that some users keep, g / σ_u(g) with σ over all items."""
    n_items = block.shape[1]
    ones = np.ones(n_items)
    mean = block @ ones / n_items
    square = sparse.csr_array((block.data**2, block.indices, block.indptr), block.shape) @ ones
    spread = np.sqrt(np.maximum(square / n_items - mean**2, np.finfo(np.float32).tiny))
    best = best_entries(block, KEPT, barred)
    best.data = (best.data / np.repeat(spread, np.diff(best.indptr))).astype(np.float32)
    return best
