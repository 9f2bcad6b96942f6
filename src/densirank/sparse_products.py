"""Products of sparse matrices of which every row keeps its highest entries alone.

What items have to do with each other, and so with people, is such a product. Whole, it would be far
larger than its factors; it is made some rows at a time, and memory grows with the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse

BLOCK_PRODUCTS = 1 << 25
"""Multiplications of sparse rows that are made at once: they bound the memory on the way."""

Matrix = Any  # a SciPy CSR array: SciPy has no types


def by_row_blocks(left: Matrix, right: Matrix, keep: Callable[[slice, Matrix], Matrix]) -> Matrix:
    """What ``keep`` leaves of left @ right, given (which rows, these rows) as memory allows.

    SciPy's products hold no lock, so that threads make several blocks at the same time.
    """
    left, right = _narrow(left), _narrow(right)

    def kept(rows: slice) -> Matrix:
        return keep(rows, left[rows] @ right)

    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        return sparse.vstack(list(threads.map(kept, _row_blocks(left, right))), format="csr")


def best_entries(block: Matrix, count: int, barred: Matrix | None = None) -> Matrix:
    """The ``count`` highest entries of each row, in order of columns; none that are ``barred``."""
    is_barred = np.zeros(block.shape[1], dtype=bool)
    pieces = []
    for row, (start, stop) in enumerate(pairwise(block.indptr)):
        chosen = np.arange(start, stop)
        if barred is not None:
            out = barred.indices[barred.indptr[row] : barred.indptr[row + 1]]
            is_barred[out] = True
            chosen = chosen[~is_barred[block.indices[start:stop]]]
            is_barred[out] = False
        if len(chosen) > count:
            chosen = chosen[np.argpartition(-block.data[chosen], count - 1)[:count]]
        pieces.append(chosen)
    places = np.concatenate(pieces)
    indptr = np.concatenate(([0], np.cumsum([len(piece) for piece in pieces])))
    best = sparse.csr_array((block.data[places], block.indices[places], indptr), block.shape)
    best.sort_indices()
    return best


def _narrow(matrix: Matrix) -> Matrix:
    """The same with 32-bit indices where they suffice: a product is bound by the bytes it reads."""
    if max(matrix.nnz, *matrix.shape) >= 2**31:
        return matrix
    indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sparse.csr_array((matrix.data, indices, indptr), shape=matrix.shape)


def _row_blocks(left: Matrix, right: Matrix) -> Iterator[slice]:
    """The rows of left @ right that a block may hold."""
    work = np.concatenate(([0], np.cumsum(np.diff(right.indptr)[left.indices])))[left.indptr]
    first = 0
    while first < left.shape[0]:
        stop = int(np.searchsorted(work, work[first] + BLOCK_PRODUCTS, side="right")) - 1
        stop = max(stop, first + 1)
        yield slice(first, stop)
        first = stop
