"""Which items of a batch are whose positives: the only thing a risk knows besides vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densirank.csr import Rows, sparse_matrix


@dataclass(frozen=True)
class Positives(Rows):
    """The sets I_u⁺ and I_B of one batch, as row numbers of its user and item vectors.

    User row ``u`` has the positive items ``columns[indptr[u]:indptr[u + 1]]`` (at least one). The
    first ``n_candidates`` item rows are the candidates I_B; rows behind them are positives that
    are no candidates, which happens when the candidates are sampled.

    A padded batch has sizes that do not depend on what was drawn, so that a GPU can replay it:
    its ``n_candidates`` is a tensor there, ``columns`` has unused entries behind ``indptr[-1]``
    and the item vectors have unused rows at the end. The risks of
    :mod:`densirank.risks.tensor_cores` take such batches.
    """

    n_candidates: int | Tensor
    all_are_candidates: bool = False  # promised by who knows, so that a GPU need not be asked

    def among_candidates(self) -> tuple[Tensor, Tensor]:
        """(rows, columns) of the positives that are candidates: I_B ∩ I_u⁺, in order of rows."""
        if self.all_are_candidates:
            return self.row_of_entry, self.columns
        inside = self.columns < self.n_candidates
        return self.row_of_entry[inside], self.columns[inside]

    def averaging(self, n_items: int, dtype: torch.dtype) -> Tensor:
        """The sparse (users, items) matrix that takes Ê₊: 1 / |I_u⁺| at each positive."""
        share = self.counts.to(dtype).reciprocal()[self.row_of_entry]
        return sparse_matrix(self.indptr, self.columns, share, (len(self), n_items))
