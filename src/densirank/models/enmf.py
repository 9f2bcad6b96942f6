"""ENMF (Chen et al. 2020): matrix factorisation with a weight for each dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from densirank.data.interactions import Interactions
from densirank.dimensions import Range, Space
from densirank.linalg.csr import Rows
from densirank.models.base import Factorisation, NewUsers, Trained, VectorSettings, dropped
from densirank.risks.pointwise import SquaredSettings
from densirank.settings import Number, Settings, setting
from densirank.solvers.least_squares import least_squares


@dataclass(frozen=True)
class ENMFSettings(VectorSettings):
    """ENMF."""

    searched: ClassVar[Space] = {"dropout": Range(0.0, 0.7)}

    dropout: float = setting(0.3, Number(at_most=0.99), "Dropout rate of e_u in training.")


class ENMF(Factorisation):
    """f_u(i) = hᵀ(e_u ⊙ e_i) = (h ⊙ e_u) · e_i, with dropout on e_u in training."""

    name = "enmf"
    settings = ENMFSettings
    folds_in = True

    def __init__(
        self, n_users: int, n_items: int, dim: int, dropout: float, generator: torch.Generator
    ) -> None:
        super().__init__(n_users, n_items, dim, generator)
        self._dropout = dropout
        self.dimension_weights = nn.Parameter(torch.ones(dim))

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        assert isinstance(settings, ENMFSettings)
        return cls(data.n_users, data.n_items, settings.dim, settings.dropout, generator)

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """Solve a linear system for each user if the risk is the squared one."""
        settings, items = trained.settings, trained.item_vectors
        if not isinstance(settings, SquaredSettings):
            return super().fold_in(trained, histories)
        own = least_squares(
            items,
            Rows.of(histories, items.device),
            observed=1.0,
            unobserved=settings.unobserved_weight,
            l2=settings.l2 / 2,
        )
        return NewUsers(own, own)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.user_table * self.dimension_weights, self.item_table

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        chance = torch.Generator(users.device).manual_seed(seed)
        user_vectors, item_vectors = super().batch_vectors(users, items, seed)
        return dropped(user_vectors, self._dropout, chance), item_vectors
