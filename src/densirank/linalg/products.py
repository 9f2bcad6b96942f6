"""Products of sparse matrices that are too large to store, with an algorithm for each device.

A GPU is slow for sparse × sparse products and fast if one side is dense. There, a block of columns
of the right side is made dense and multiplied, and each row keeps the highest entries seen so far.
A CPU computes a block of rows at a time, sparse × sparse.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from densirank.linalg.csr import SparsePart, sparse_matrix
from densirank.linalg.sparse import Matrix, best_entries, by_row_blocks, in_row_blocks, narrow

COLUMN_BYTES = 2 << 30
"""Bytes of the product's columns computed at a time; peak memory is about four times that."""

BLOCK_TERMS = 1 << 24
"""Multiplications of sparse rows done at a time; each takes about 64 bytes."""


def best_of_product(left: Matrix, right: Matrix, count: int, device: torch.device) -> Matrix:
    """The ``count`` highest positive entries of each row of left @ right."""
    rows, by_column = on_device(left, device), right.T.tocsr()
    n_rows, n_columns = left.shape[0], right.shape[1]
    best = torch.zeros(n_rows, 0, device=device)
    columns = torch.zeros(n_rows, 0, dtype=torch.int64, device=device)
    width = max(1, COLUMN_BYTES // (4 * max(1, n_rows)))
    for start in range(0, n_columns, width):
        block = by_column[start : start + width]
        product = rows @ on_device(block, device).to_dense().T  # (rows, some columns)
        here = torch.arange(start, start + block.shape[0], device=device).expand_as(product)
        best, places = torch.cat([best, product], dim=1).topk(min(count, start + block.shape[0]))
        columns = torch.cat([columns, here], dim=1).gather(1, places)
    return _to_scipy(best, columns, n_columns)


def write_product(left: SparsePart, right: SparsePart, out: Tensor) -> None:
    """Write left @ right to a dense table, (rows of left, columns of right).

    The order of the sums is fixed, so the result is deterministic.
    """
    out.zero_()
    n_columns = out.shape[1]
    longest = max(1, int(right.rows.counts.max()))
    every_entry = torch.arange(len(left.values), device=out.device)
    for entries in torch.split(every_entry, max(1, BLOCK_TERMS // longest)):
        terms = right.take(left.rows.columns[entries])
        of_entry = entries[terms.rows.row_of_entry]
        places = left.rows.row_of_entry[of_entry] * n_columns + terms.rows.columns
        out.view(-1).index_put_((places,), left.values[of_entry] * terms.values, accumulate=True)


def on_device(matrix: Matrix, device: torch.device) -> Tensor:
    """A SciPy CSR array as a sparse tensor on a device."""
    indptr, indices, values = (
        torch.from_numpy(part.astype(kind)).to(device)
        for part, kind in (
            (matrix.indptr, np.int64),
            (matrix.indices, np.int64),
            (matrix.data, np.float32),
        )
    )
    return sparse_matrix(indptr, indices, values, matrix.shape)


def _to_scipy(best: Tensor, columns: Tensor, n_columns: int) -> Matrix:
    """The positive entries of each row, sorted by column."""
    columns, order = columns.sort(dim=1)
    best = best.gather(1, order).float()
    there = best > 0
    indptr = np.concatenate(([0], there.sum(dim=1).cumsum(0).cpu().numpy()))
    entries = (best[there].cpu().numpy(), columns[there].cpu().numpy(), indptr)
    return sparse.csr_array(entries, shape=(len(best), n_columns))


BLOCK_BYTES = 256 << 20
"""Memory for the dense rows of a product that each thread computes at a time."""


def highest_of_product(left: Matrix, right: Matrix, count: int, device: torch.device) -> Matrix:
    """The ``count`` highest entries of each row of left @ right, which must not be negative."""
    if device.type == "cuda":
        return narrow(best_of_product(left, right, count, device))
    return narrow(by_row_blocks(left, right, lambda _, block: best_entries(block, count)))


def use_rows_of_product(
    left: Matrix, right: Matrix, device: torch.device, use: Callable[[slice, Tensor], None]
) -> None:
    """Call ``use`` with (row slice, dense rows) for blocks that cover left @ right once.

    On a CPU, several threads call it concurrently, in any order.
    """
    at_once = max(1, BLOCK_BYTES // (4 * max(1, right.shape[1])))

    def use_written(rows: slice, block: Matrix) -> None:
        for first in range(rows.start, rows.stop, at_once):
            some = slice(first, min(first + at_once, rows.stop))
            part = block[some.start - rows.start : some.stop - rows.start]
            use(some, torch.from_numpy(part.toarray()))

    if device.type == "cpu":
        in_row_blocks(left, right, use_written)
        return
    columns = on_device(right.T.tocsr(), device)
    for first in range(0, left.shape[0], at_once):  # fast where one side is dense
        some = left[first : first + at_once]
        rows = (columns @ on_device(some, device).to_dense().T).T
        use(slice(first, first + some.shape[0]), rows)
