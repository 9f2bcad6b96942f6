"""A one-hop item–item filter beside the vectors: what people with the same items went on to.

With R̂ = D_u^-½ R D_i^-½, user u's filter scores are g_u = R̂_u R̂ᵀR̂: no training, and of full rank,
so they know of rare items what d dimensions cannot hold. Each item keeps its nearest neighbours and
each user the best items not had, so memory grows with users and items and not with their product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from densirank.csr import Rows, SparsePart
from densirank.data.interactions import Interactions

NEIGHBOURS = 200
"""Entries of R̂ᵀR̂ that an item keeps."""

KEPT = 200
"""Filter scores that a user keeps."""

BLOCK_PRODUCTS = 1 << 25
"""Multiplications of sparse rows that are made at once: they bound the memory on the way."""

Matrix = Any  # a SciPy CSR array: SciPy has no types


@dataclass(frozen=True)
class ItemFilter:
    """Each user's highest filter scores among the items not had, in units of σ_u(g)."""

    rows: Rows
    values: Tensor  # (entries,) parallel to rows.columns

    @classmethod
    def of(cls, data: Interactions, device: torch.device) -> ItemFilter:
        """The filter of some interactions."""
        normalised = _normalised(data)
        near = _by_row_blocks(
            normalised.T.tocsr(), normalised, lambda first, block: _best(block, NEIGHBOURS)
        )
        kept = _by_row_blocks(
            normalised,
            near,
            lambda first, block: _best_standardised(
                block, barred=normalised[first : first + block.shape[0]]
            ),
        )
        rows = Rows(
            torch.from_numpy(kept.indptr.astype(np.int64)).to(device),
            torch.from_numpy(kept.indices.astype(np.int64)).to(device),
        )
        return cls(rows, torch.from_numpy(kept.data.astype(np.float32)).to(device))

    def beside(self, user_vectors: Tensor, item_vectors: Tensor, weight: float) -> SparsePart:
        """The part that makes f + weight · σ_u(f) · g / σ_u(g) of the dot products f.

        σ_u(f) over all items is √(e_uᵀ C e_u), C being the items' covariance.
        """
        centred = item_vectors - item_vectors.mean(dim=0)
        covariance = centred.T @ centred / len(item_vectors)
        spread = ((user_vectors @ covariance) * user_vectors).sum(dim=1).clamp(min=0).sqrt()
        return SparsePart(self.rows, weight * spread[self.rows.row_of_entry] * self.values)


def _normalised(data: Interactions) -> Matrix:
    """R̂ as a sparse matrix."""
    by_user = 1 / np.sqrt(np.maximum(data.user_counts, 1))
    by_item = 1 / np.sqrt(np.maximum(data.item_counts, 1))
    values = np.repeat(by_user, data.user_counts) * by_item[data.items]
    shape = (data.n_users, data.n_items)
    return sparse.csr_array((values.astype(np.float32), data.items, data.indptr), shape=shape)


def _by_row_blocks(left: Matrix, right: Matrix, keep: Callable[[int, Matrix], Matrix]) -> Matrix:
    """What ``keep`` leaves of left @ right, given (first row, some rows) as memory allows.

    SciPy's products hold no lock, so that threads make several blocks at the same time.
    """

    def kept(rows: tuple[int, int]) -> Matrix:
        first, stop = rows
        return keep(first, left[first:stop] @ right)

    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        return sparse.vstack(list(threads.map(kept, _row_blocks(left, right))), format="csr")


def _row_blocks(left: Matrix, right: Matrix) -> Iterator[tuple[int, int]]:
    """(first, stop) of the rows of left @ right that a block may hold."""
    work = np.concatenate(([0], np.cumsum(np.diff(right.indptr)[left.indices])))[left.indptr]
    first = 0
    while first < left.shape[0]:
        stop = int(np.searchsorted(work, work[first] + BLOCK_PRODUCTS, side="right")) - 1
        stop = max(stop, first + 1)
        yield first, stop
        first = stop


def _best_standardised(block: Matrix, barred: Matrix) -> Matrix:
    """The scores that some users keep, g / σ_u(g) with σ over all items."""
    n_items = block.shape[1]
    ones = np.ones(n_items)
    mean = block @ ones / n_items
    square = sparse.csr_array((block.data**2, block.indices, block.indptr), block.shape) @ ones
    spread = np.sqrt(np.maximum(square / n_items - mean**2, np.finfo(np.float32).tiny))
    best = _best(block, KEPT, barred)
    best.data = (best.data / np.repeat(spread, np.diff(best.indptr))).astype(np.float32)
    return best


def _best(block: Matrix, count: int, barred: Matrix | None = None) -> Matrix:
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
