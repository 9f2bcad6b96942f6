"""Products of sparse matrices that are too large to keep, the way each device computes them best.

A GPU is slow where sparse meets sparse and fast where one side is dense. So some columns of the
right side are written out, the product's columns are made of them, and each row keeps the highest
entries it has seen so far. A CPU computes some rows at a time, sparse.
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
"""Bytes of the product's columns that are made at once; about four times as much is in use."""

BLOCK_TERMS = 1 << 24
"""Multiplications of sparse rows that are made at once; about 64 bytes each are in use."""


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
    """left @ right, all of it, in a table of (rows of left, columns of right).

    The sums are put together in a fixed order, so that they are the same each time.
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
    """A SciPy CSR array as a sparse tensor there."""
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
    """The positive entries of each row, in order of columns."""
    columns, order = columns.sort(dim=1)
    best = best.gather(1, order).float()
    there = best > 0
    indptr = np.concatenate(([0], there.sum(dim=1).cumsum(0).cpu().numpy()))
    entries = (best[there].cpu().numpy(), columns[there].cpu().numpy(), indptr)
    return sparse.csr_array(entries, shape=(len(best), n_columns))


BLOCK_BYTES = 256 << 20
"""Memory for rows of a product that are written out at once, for each thread that does."""


def highest_of_product(left: Matrix, right: Matrix, count: int, device: torch.device) -> Matrix:
    """The ``count`` highest entries of each row of left @ right, which has none below 0."""
    if device.type == "cuda":
        return narrow(best_of_product(left, right, count, device))
    return narrow(by_row_blocks(left, right, lambda _, block: best_entries(block, count)))


def use_rows_of_product(
    left: Matrix, right: Matrix, device: torch.device, use: Callable[[slice, Tensor], None]
) -> None:
    """Give ``use`` all of left @ right written out, as (which rows, these rows), each row once.

    On a CPU threads do so at the same time, in no order.
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
