"""Matrix factorisation: the trainable vectors are the vectors."""

from __future__ import annotations

from torch import Tensor

from densirank.models.base import Factorisation


class MatrixFactorisation(Factorisation):
    """f_u(i) = e_u · e_i with free vectors."""

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.user_table, self.item_table
