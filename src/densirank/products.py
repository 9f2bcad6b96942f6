"""Products of sparse matrices that are too large to keep, the way that a device makes them best."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from densirank.dense_products import best_of_product, on_device
from densirank.sparse_products import Matrix, best_entries, by_row_blocks, in_row_blocks, narrow

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
