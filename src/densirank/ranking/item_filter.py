"""A one-hop item–item filter beside the vectors: what people with the same items went on to.

Two items are near by the rows in which they stand together, N_ij = n_i^-½ n_j^-0.4 Σ_r n_r^-½, and
user u's filter scores are g_u = R_u N: no training, and of full rank, so they know of rare items
what d dimensions cannot hold. The rows are everybody's histories and, where nearness in time
counts, also the stretches of some items in a row that these are made of. Each item keeps its
nearest neighbours and each user the best items not had, so memory grows with users and items and
not with their product.

The powers were chosen on held-out items of three public sets (docs/method.md); with n_j^-½ and
n_r^-1 this would be the filter of the graph that LightGCN is propagated over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from densirank.csr import KEPT, Rows, SparsePart
from densirank.data.interactions import Interactions
from densirank.data.recency import recency_weights, stretches
from densirank.dense_products import best_of_product
from densirank.sparse_products import Matrix, best_entries, by_row_blocks

NEIGHBOURS = 200
"""Entries of N that an item keeps."""
ROW_POWER, HAD_POWER, WANTED_POWER = 0.5, 0.5, 0.4
"""How far a long row, a popular item had and a popular item wanted are held back."""


@dataclass(frozen=True)
class ItemFilter:
    """Each user's highest filter scores among the items not had, in units of σ_u(g)."""

    scores: SparsePart
    near: Matrix  # N, (items, items), as far as items keep it: it says the scores of anybody

    @classmethod
    def of(
        cls, data: Interactions, device: torch.device, recency: float = 0.0, span: int = 0
    ) -> ItemFilter:
        """The filter of some interactions, for the people in them.

        Recent items may count more, and items of the same ``span`` items in a row be nearer.
        """
        return cls.for_histories(data, nearness(data, device, span), device, recency)

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


def nearness(data: Interactions, device: torch.device, span: int = 0) -> Matrix:
    """N, (items, items): each item's nearest ones, and how near they are."""
    had, wanted = _factors(data, span)
    if device.type == "cuda":
        return best_of_product(had, wanted, NEIGHBOURS, device)
    return by_row_blocks(had, wanted, lambda _, block: best_entries(block, NEIGHBOURS))


def _factors(data: Interactions, span: int) -> tuple[Matrix, Matrix]:
    """N as a product, (items, rows) times (rows, items)."""
    rows, items = data.users, data.items
    if span > 0:
        rows = np.concatenate([rows, data.n_users + stretches(data, span)])
        items = np.concatenate([items, items])
    lengths = np.bincount(rows)
    popularity = np.maximum(data.item_counts, 1).astype(np.float64)

    def scaled(power: float) -> Matrix:
        values = lengths[rows] ** (-ROW_POWER / 2) * popularity[items] ** -power
        shape = (len(lengths), data.n_items)
        return sparse.csr_array((values.astype(np.float32), (rows, items)), shape=shape)

    return scaled(HAD_POWER).T.tocsr(), scaled(WANTED_POWER)


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
