"""Products of sparse matrices that keep only the highest entries of each row.

Item–item similarities and the scores derived from them are such products. The full product would be
far larger than its factors, so it is computed in blocks of rows with bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

BLOCK_PRODUCTS = 1 << 20
"""Multiplications of sparse rows per block: a bound on memory, small enough that blocks reuse the
same memory, which is faster than allocating new memory."""

Matrix = Any  # a SciPy CSR array: SciPy has no types
T = TypeVar("T")


def in_row_blocks(left: Matrix, right: Matrix, use: Callable[[slice, Matrix], T]) -> list[T]:
    """Call ``use`` with (row slice, rows) for blocks of left @ right; return its results.

    SciPy's products release the GIL, so threads compute several blocks at the same time.
    """
    left, right = narrow(left), narrow(right)

    blocks = list(_row_blocks(left, right))
    if len(blocks) == 1:
        return [use(blocks[0], left @ right)]

    def used(rows: slice) -> T:
        return use(rows, left[rows] @ right)

    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        return list(threads.map(used, blocks))


def by_row_blocks(left: Matrix, right: Matrix, keep: Callable[[slice, Matrix], Matrix]) -> Matrix:
    """left @ right reduced by ``keep`` block by block, as one matrix."""
    return sparse.vstack(in_row_blocks(left, right, keep), format="csr")


def best_entries(block: Matrix, count: int, barred: Matrix | None = None) -> Matrix:
    """The ``count`` highest entries of each row, sorted by column, without ``barred`` entries."""
    if barred is not None:
        block = without(block, barred)
    counts = np.diff(block.indptr)
    least = np.full(len(counts), -np.inf, dtype=block.dtype)
    for row in np.flatnonzero(counts > count):
        entries = block.data[block.indptr[row] : block.indptr[row + 1]]
        place = len(entries) - count
        least[row] = np.partition(entries, place)[place]
    places = np.flatnonzero(block.data >= np.repeat(least, counts))
    places, indptr = _so_many(places, block, least, count)
    best = sparse.csr_array((block.data[places], block.indices[places], indptr), block.shape)
    best.sort_indices()
    return best


def best_besides(block: Matrix, count: int, had: Matrix) -> Matrix:
    """All entries at the positions of ``had``, and the ``count`` highest others of each row."""
    ones = sparse.csr_array(
        (np.ones_like(had.data, block.dtype), had.indices, had.indptr), had.shape
    )
    return best_entries(block, count, barred=had) + block.multiply(ones).tocsr()


def without(block: Matrix, barred: Matrix) -> Matrix:
    """The entries of a matrix at positions where ``barred`` has none."""
    ones = np.ones(barred.nnz, dtype=block.dtype)
    there = sparse.csr_array((ones, barred.indices, barred.indptr), shape=barred.shape)
    return block - block.multiply(there)  # SciPy drops the zeros of a difference


def scaled(
    matrix: Matrix,
    *,
    by_row: NDArray[np.floating[Any]] | None = None,
    by_column: NDArray[np.floating[Any]] | None = None,
) -> Matrix:
    """The matrix with each row or column multiplied by a factor."""
    values = matrix.data
    if by_row is not None:
        values = values * np.repeat(by_row, np.diff(matrix.indptr)).astype(values.dtype)
    if by_column is not None:
        values = values * by_column.astype(values.dtype)[matrix.indices]
    return sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def column_table(matrix: Matrix, width: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(columns, mask), each (rows, width): the columns of each row's entries.

    Rows with fewer entries are padded with their own row number.
    """
    there = np.arange(width) < np.diff(matrix.indptr)[:, None]
    columns = np.repeat(np.arange(len(there))[:, None], width, axis=1)
    columns[there] = matrix.indices
    return columns, there


def narrow(matrix: Matrix) -> Matrix:
    """The matrix with 32-bit indices if they suffice: products are bound by memory reads."""
    if matrix.indices.dtype == np.int32 or max(matrix.nnz, *matrix.shape) >= 2**31:
        return matrix
    indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sparse.csr_array((matrix.data, indices, indptr), shape=matrix.shape)


def _so_many(
    places: NDArray[np.int64], block: Matrix, least: NDArray[Any], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(positions, row pointers): of the entries equal to the least, only as many as fit."""
    row = np.searchsorted(block.indptr, places, side="right") - 1
    n_rows = len(least)
    is_least = block.data[places] == least[row]
    room = count - np.bincount(row[~is_least], minlength=n_rows)
    before = np.concatenate(([0], np.cumsum(np.bincount(row[is_least], minlength=n_rows))[:-1]))
    kept = ~is_least
    kept[is_least] = np.arange(is_least.sum()) - before[row[is_least]] < room[row[is_least]]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(row[kept], minlength=n_rows))))
    return places[kept], indptr


def _row_blocks(left: Matrix, right: Matrix) -> Iterator[slice]:
    """Slices of rows of left @ right, one per block."""
    lengths = right.indptr[left.indices + 1] - right.indptr[left.indices]
    work = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))[left.indptr]
    first = 0
    while first < left.shape[0]:
        stop = int(np.searchsorted(work, work[first] + BLOCK_PRODUCTS, side="right")) - 1
        stop = max(stop, first + 1)
        yield slice(first, stop)
        first = stop
