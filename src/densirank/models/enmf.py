"""ENMF (Chen et al. 2020): matrix factorisation with a weight for every dimension."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from densirank.models.base import Factorisation, dropped


class ENMF(Factorisation):
    """f_u(i) = hᵀ(e_u ⊙ e_i), which is (h ⊙ e_u) · e_i; parts of e_u drop out while training."""

    def __init__(
        self, n_users: int, n_items: int, dim: int, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__(n_users, n_items, dim, generator)
        self._dropout = dropout
        self.dimension_weights = nn.Parameter(torch.ones(dim))

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.user_table * self.dimension_weights, self.item_table

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        chance = torch.Generator(users.device).manual_seed(seed)
        user_vectors, item_vectors = super().batch_vectors(users, items, seed)
        return dropped(user_vectors, self._dropout, chance), item_vectors
