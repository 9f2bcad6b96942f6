"""A low-pass filter: what the broadest tastes in the data make of a history.

R̃ = D_U^-½ R D_I^-½ is the graph that LightGCN is propagated over, and its leading right singular
vectors V are the smoothest signals there are on items. g_u = R_u D_I^-½ V Vᵀ D_I^½ is what they
can say of a user's items: the ideal low-pass filter of GF-CF (Shen et al. 2021). It needs no
training. Its rank is that of V, so it is a dot product, and vectors with its numbers appended
serve like all others. Where pairs have weights, one on average in each history, R_u has them and
the graph their roots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from densirank.data.interactions import Interactions
from densirank.data.recency import pair_weights
from densirank.filters.item_filter import FLAT
from densirank.linalg.csr import Rows, sparse_matrix
from densirank.linalg.propagation import Propagation
from densirank.scores import score_spreads

PASSES = 8
"""Products with R̃ᵀR̃ that bring a random subspace to the leading singular vectors."""
SPARE = 32
"""Vectors beyond those that are wanted, which the passes need in order to be this few."""


@dataclass(frozen=True)
class LowPass:
    """The filter's side of the items; a user's side follows from the items had."""

    items: Tensor  # (items, rank), n_i^½ v_i, in any unit
    counts: Tensor  # (items,) n_i, how many had each
    scaled: bool = False  # whether its unit is that of the vectors it is appended to

    @classmethod
    def of(cls, data: Interactions, rank: int, device: torch.device) -> LowPass:
        """The filter of some interactions; of a smaller matrix the rest of the rank is zeros."""
        graph = Propagation(data, layers=1)
        graph.to(device)
        counts = torch.from_numpy(data.item_counts).to(device, torch.float32)
        leading = _leading_right_vectors(*_weighted(graph, data), rank)
        return cls(counts.sqrt().unsqueeze(1) * leading, counts)

    def scaled_to(self, item_vectors: Tensor, weight: float) -> LowPass:
        """The same filter, ``weight`` times as long as these vectors: angles depend on it."""
        if self.scaled:
            return self
        length, own = torch.linalg.matrix_norm(item_vectors), torch.linalg.matrix_norm(self.items)
        tiny = torch.finfo(own.dtype).tiny
        return LowPass(self.items * (weight * length / own.clamp(min=tiny)), self.counts, True)

    def users(self, histories: Rows, weights: Tensor | None = None) -> Tensor:
        """Σ w n_i^-½ v_i over the items of each history, in the unit of the items."""
        shares = self.items / self.counts.clamp(min=1).unsqueeze(1)
        if weights is None:
            weights = shares.new_ones(len(histories.columns))
        size = (len(histories), len(shares))
        return sparse_matrix(histories.indptr, histories.columns, weights, size) @ shares

    def added_to(
        self,
        histories: Rows,
        user_vectors: Tensor,
        item_vectors: Tensor,
        weight: float,
        pair_weights: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Longer vectors whose dot products are f + weight · σ_u(f) · g / σ_u(g).

        ``pair_weights`` say how much each item of the histories counts in g; None: all alike.
        """
        users = self.users(histories, pair_weights)
        spreads, level = score_spreads(users, self.items), users @ self.items.mean(dim=0)
        flat = spreads.square() <= FLAT * (spreads.square() + level.square())
        scale = weight * score_spreads(user_vectors, item_vectors)
        scale = scale / spreads.masked_fill(flat, torch.inf)
        return (
            torch.cat([user_vectors, scale.unsqueeze(1) * users], dim=1),
            torch.cat([item_vectors, self.items], dim=1),
        )


def _weighted(graph: Propagation, data: Interactions) -> tuple[Tensor, Tensor]:
    """R̃ and its transpose, each entry times √w where the pairs have weights."""
    weights = pair_weights(data)
    if weights is None:
        return graph.to_users, graph.to_items
    roots = data.matrix()
    roots.data = np.sqrt(weights).astype(np.float32)
    return _times(graph.to_users, roots.data), _times(graph.to_items, roots.tocsc().data)


def _times(matrix: Tensor, factors: NDArray[np.float32]) -> Tensor:
    values = matrix.values() * torch.from_numpy(factors).to(matrix.device)
    rows, columns = matrix.shape
    return sparse_matrix(matrix.crow_indices(), matrix.col_indices(), values, (rows, columns))


def _leading_right_vectors(matrix: Tensor, transposed: Tensor, rank: int) -> Tensor:
    """V, (columns, rank), by subspace iteration from a fixed beginning, the leading ones first."""
    n_columns = matrix.shape[1]
    width = min(n_columns, rank + SPARE)
    chance = torch.Generator().manual_seed(0)
    basis = torch.randn(n_columns, width, generator=chance).to(matrix.device)
    for _ in range(PASSES):
        basis = torch.linalg.qr(transposed @ (matrix @ basis)).Q
    image = matrix @ basis
    small = (image.T @ image).double().cpu()  # where it converges, whatever the device
    rotation = torch.linalg.eigh(small).eigenvectors.to(basis)  # the leading ones last
    leading = (basis @ rotation).flip(1)[:, :rank]
    return pad(leading, (0, rank - leading.shape[1]))
