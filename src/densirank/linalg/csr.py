"""Compressed sparse rows on any device."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from densirank.data.interactions import Interactions

# The functions used here have been stable since torch 2.0, and users cannot act on the warning.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")

KEPT = 200
"""Scores of unseen items kept per user in a sparse part: the highest ones."""


def sparse_matrix(indptr: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor, without checks: the arguments are known to be consistent."""
    return torch.sparse_csr_tensor(indptr, columns, values, size=size, check_invariants=False)


@dataclass(frozen=True)
class Rows:
    """Row ``r`` holds the columns ``columns[indptr[r]:indptr[r + 1]]``.

    >>> rows = Rows(torch.tensor([0, 2, 3]), torch.tensor([5, 7, 6]))
    >>> rows.take(torch.tensor([1, 0])).columns.tolist()
    [6, 5, 7]
    """

    indptr: Tensor  # (rows + 1,) int64
    columns: Tensor  # (entries,) int64

    @classmethod
    def of(cls, data: Interactions, device: torch.device) -> Rows:
        """Each user's items."""
        indptr = torch.from_numpy(data.indptr.copy()).to(device)
        return Rows(indptr, torch.from_numpy(data.items.copy()).to(device, torch.int64))

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @cached_property
    def counts(self) -> Tensor:
        """The number of entries of each row."""
        return self.indptr.diff()

    @cached_property
    def row_of_entry(self) -> Tensor:
        """The row number of every entry, parallel to ``columns``."""
        rows = torch.arange(len(self), device=self.indptr.device)
        return rows.repeat_interleave(self.counts, output_size=len(self.columns))

    def entries_of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """(indptr, entries): the positions of the entries of these rows, row by row."""
        starts, counts = self.indptr[rows], self.counts[rows]
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        total = int(indptr[-1])
        shift = (starts - indptr[:-1]).repeat_interleave(counts, output_size=total)
        return indptr, torch.arange(total, device=rows.device) + shift

    def take(self, rows: Tensor) -> Rows:
        """These rows, in this order, as a new matrix."""
        indptr, entries = self.entries_of(rows)
        return Rows(indptr, self.columns[entries])


class RowSource(Protocol):
    """A source of rows."""

    def take(self, rows: Tensor) -> Rows: ...


@dataclass(frozen=True)
class RowsOnDemand:
    """Each user's items, looked up on demand, so that a single request does not copy the log."""

    data: Interactions
    device: torch.device

    def take(self, users: Tensor) -> Rows:
        """The items of these users, in this order."""
        wanted = users.cpu().numpy()
        starts, ends = self.data.indptr[wanted], self.data.indptr[wanted + 1]
        parts = [self.data.items[start:end] for start, end in zip(starts, ends, strict=True)]
        indptr = np.concatenate(([0], np.cumsum(ends - starts)))
        items = np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        return Rows(
            torch.from_numpy(indptr).to(self.device),
            torch.from_numpy(items.astype(np.int64)).to(self.device),
        )


@dataclass(frozen=True)
class SparsePart:
    """Scores of some user–item pairs that are added to the dot product (item–item filters)."""

    rows: Rows
    values: Tensor  # (entries,) parallel to rows.columns

    @classmethod
    def of(cls, matrix: Any, device: torch.device) -> SparsePart:
        """The entries of a SciPy CSR array."""
        rows = Rows(
            torch.from_numpy(matrix.indptr.astype(np.int64)).to(device),
            torch.from_numpy(matrix.indices.astype(np.int64)).to(device),
        )
        return cls(rows, torch.from_numpy(matrix.data.astype(np.float32)).to(device))

    @classmethod
    def joined(cls, parts: Iterable[SparsePart]) -> SparsePart:
        """Concatenate parts by user."""
        parts = list(parts)
        counts = torch.cat([part.rows.counts for part in parts])
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        columns = torch.cat([part.rows.columns for part in parts])
        return cls(Rows(indptr, columns), torch.cat([part.values for part in parts]))

    def to_scipy(self, n_columns: int) -> Any:
        """The same entries as a SciPy CSR array."""
        entries = (self.values, self.rows.columns, self.rows.indptr)
        shape = (len(self.rows), n_columns)
        return sparse.csr_array(tuple(part.cpu().numpy() for part in entries), shape=shape)

    def take(self, users: Tensor) -> SparsePart:
        """The parts of these users, in this order, as a new part."""
        indptr, entries = self.rows.entries_of(users)
        return SparsePart(Rows(indptr, self.rows.columns[entries]), self.values[entries])

    def kept(self, users: Tensor) -> SparsePart:
        """The stored parts of these users."""
        return self.take(users)

    def write(self, scores: Tensor, users: Tensor) -> None:
        """Set ``scores``, (users, items), to the users' parts, and to 0 where there is no entry."""
        own = self.take(users)
        scores.zero_()
        scores[own.rows.row_of_entry, own.rows.columns] = own.values


class PartSource(Protocol):
    """A source of scores that are added to the dot product: stored, or computed on demand."""

    def take(self, users: Tensor) -> SparsePart: ...

    def kept(self, users: Tensor) -> SparsePart:
        """As a table: the :data:`KEPT` highest scores of unseen items, and all of seen items."""
        ...

    def write(self, scores: Tensor, users: Tensor) -> None: ...
