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
    seed: int = 0  # of what a risk draws
    n_batch_entries: int | None = None  # positives of the whole batch, where this is a part of one

    def some(self, start: int, stop: int) -> Positives:
        """Those of the users ``start`` to ``stop``, for a risk that takes a batch in parts."""
        first, last = self.indptr[[start, stop]].tolist()
        return Positives(
            self.indptr[start : stop + 1] - first,
            self.columns[first:last],
            self.n_candidates,
            self.all_are_candidates,
            self.seed + start,
            self.batch_entries,
        )

    @property
    def batch_entries(self) -> int:
        """How many positives the batch has, also where this is a part of it."""
        return len(self.columns) if self.n_batch_entries is None else self.n_batch_entries

    def are_own(self, items: Tensor) -> Tensor:
        """Whether items (users, count) are positives of the user in whose row they stand."""
        width = int(torch.maximum(self.columns.max(), items.max())) + 1
        own = (self.row_of_entry * width + self.columns).sort().values
        rows = torch.arange(len(self), device=items.device).unsqueeze(1)
        wanted = rows * width + items
        places = torch.searchsorted(own, wanted).clamp_(max=len(own) - 1)
        return own[places] == wanted

    def among_candidates(self) -> tuple[Tensor, Tensor]:
        """(rows, columns) of the positives that are candidates: I_B ∩ I_u⁺, in order of rows."""
        if self.all_are_candidates:
            return self.row_of_entry, self.columns
        inside = self.columns < self.n_candidates
        return self.row_of_entry[inside], self.columns[inside]

    def scores(self, user_vectors: Tensor, item_vectors: Tensor) -> Tensor:
        """f_u(i) of every positive, (entries,)."""
        return (user_vectors[self.row_of_entry] * item_vectors[self.columns]).sum(dim=1)

    def mean(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Ê₊ of values of the entries, (users,); with weights, normalised by their sum."""
        zeros = values.new_zeros(len(self))
        if weights is None:
            return zeros.index_add(0, self.row_of_entry, values) / self.counts
        sums = zeros.index_add(0, self.row_of_entry, weights * values)
        return sums / zeros.index_add(0, self.row_of_entry, weights)

    def averaging(self, n_items: int, dtype: torch.dtype) -> Tensor:
        """The sparse (users, items) matrix that takes Ê₊: 1 / |I_u⁺| at each positive."""
        share = self.counts.to(dtype).reciprocal()[self.row_of_entry]
        return sparse_matrix(self.indptr, self.columns, share, (len(self), n_items))
