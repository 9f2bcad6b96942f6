"""Matrix factorisation: the trainable vectors are used directly."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.models.base import Factorisation, NewUsers, Trained, VectorSettings
from densirank.models.sharded import Sharded
from densirank.settings import Settings


class MatrixFactorisation(Factorisation):
    """Matrix factorisation: f_u(i) = e_u · e_i."""

    name = "mf"
    folds_in = True

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        assert isinstance(settings, VectorSettings)
        return cls(data.n_users, data.n_items, settings.dim, generator)

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """The vector that minimises the user's part of the risk."""
        items = trained.item_vectors
        nothing = items.new_zeros(histories.n_users, items.shape[1])
        own = trained.least_own_risk(histories, nothing, 1)
        return NewUsers(own, own)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.user_table, self.item_table


class ShardedMatrixFactorisation(Sharded, MatrixFactorisation):
    """Matrix factorisation sharded by row: the rows of one process."""


MatrixFactorisation.sharded = ShardedMatrixFactorisation
