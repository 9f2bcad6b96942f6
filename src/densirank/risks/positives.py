"""Which items of a batch are whose positives: the only thing a risk knows besides vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from densirank.linalg.csr import Rows, sparse_matrix


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
    batch_columns: Tensor | None = None  # of the whole batch, where this is a part of one
    weights: Tensor | None = None  # (entries,) of Ê₊, a user's summing to one; None: all alike
    user_weights: Tensor | None = None  # (users,) in E_u, one on average; None: all alike
    log_base: Tensor | None = None  # (items,) log p0 of the item rows; None: uniform

    def some(self, start: int, stop: int) -> Positives:
        """Those of the users ``start`` to ``stop``, for a risk that takes a batch in parts."""
        first, last = self.indptr[[start, stop]].tolist()
        return Positives(
            self.indptr[start : stop + 1] - first,
            self.columns[first:last],
            self.n_candidates,
            self.all_are_candidates,
            self.seed + start,
            self.everybodys,
            None if self.weights is None else self.weights[first:last],
            None if self.user_weights is None else self.user_weights[start:stop],
            self.log_base,
        )

    @property
    def everybodys(self) -> Tensor:
        """The positives of all the batch's users, also where this is a part of it."""
        return self.columns if self.batch_columns is None else self.batch_columns

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
        """f_u(i) of every positive, (entries,).

        ``index_select`` adds its gradients up as they come; an index in brackets sorts them first.
        """
        users = user_vectors.index_select(0, self.row_of_entry)
        return (users * item_vectors.index_select(0, self.columns)).sum(dim=1)

    def mean(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """Ê₊ of values of the entries, (users,); with weights, normalised by their sum."""
        zeros = values.new_zeros(len(self))
        if weights is None:
            return zeros.index_add(0, self.row_of_entry, self.shares(values.dtype) * values)
        sums = zeros.index_add(0, self.row_of_entry, weights * values)
        return sums / zeros.index_add(0, self.row_of_entry, weights)

    def shares(self, dtype: torch.dtype) -> Tensor:
        """What each positive counts in Ê₊, (entries,): 1 / |I_u⁺| unless they have weights."""
        if self.weights is not None:
            return self.weights.to(dtype)
        return self.counts.to(dtype).reciprocal()[self.row_of_entry]

    def averaging(self, n_items: int, dtype: torch.dtype) -> Tensor:
        """The sparse (users, items) matrix that takes Ê₊: each positive's share."""
        return sparse_matrix(self.indptr, self.columns, self.shares(dtype), (len(self), n_items))

    def user_mean(self, values: Tensor) -> Tensor:
        """E_u of values of the users: their mean, weighted where users have weights."""
        if self.user_weights is None:
            return values.mean()
        return (self.user_weights.to(values.dtype) * values).mean()
