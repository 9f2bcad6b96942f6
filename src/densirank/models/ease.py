"""EASE (Steck 2019): item–item weights that reconstruct each user's items from their other items.

With X the binary users × items matrix, B minimises ‖X − XB‖² + λ‖B‖² subject to diag B = 0. The
closed form is B_ij = −P_ij / P_jj off the diagonal, with P = (XᵀX + λI)^-1. B is a dense (items,
items) matrix, so it is freed as soon as the scores are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.device import memory_bytes
from densirank.dimensions import Range, Space
from densirank.errors import InputError
from densirank.linalg.csr import KEPT, Rows, SparsePart, sparse_matrix
from densirank.linalg.products import BLOCK_BYTES, use_rows_of_product
from densirank.models.item_item import ItemItem
from densirank.settings import Number, Settings, Whole, setting


@dataclass(frozen=True)
class EaseSettings(Settings):
    """EASE."""

    searched: ClassVar[Space] = {"l2": Range(10.0, 5000.0, log=True)}

    l2: float = setting(500.0, Number(), "Weight λ of the squared weights.")
    neighbours: int = setting(200, Whole(1), "Number of similar items kept for each item.")


class Ease(ItemItem):
    """EASE: f_u(i) = Σ B_ji over the user's items j."""

    name = "ease"
    settings = EaseSettings

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        assert isinstance(settings, EaseSettings)
        return cls(data, settings.l2, settings.neighbours)

    def __init__(self, data: Interactions, l2: float, neighbours: int) -> None:
        super().__init__(data)
        self.l2 = l2
        self.count = neighbours

    def solve(self, device: torch.device) -> tuple[SparsePart, SparsePart]:
        weights = item_weights(self.data, self.l2, device)
        own: list[Tensor] = []
        best = _highest(_scores_not_had(self.data, weights, own), KEPT).to_scipy(self.data.n_items)
        had = self.data.matrix()
        had.data = torch.cat(own).cpu().numpy()
        near = _highest(torch.split(weights, _rows_at_once(self.data)), self.count)
        return SparsePart.of(best + had, device), near


def item_weights(data: Interactions, l2: float, device: torch.device) -> Tensor:
    """B, (items, items), computed in the memory of XᵀX."""
    _require_memory(data.n_items, device)
    matrix = _gram(data, device)
    matrix.diagonal().add_(l2)
    in_lapack_order = matrix.mT  # symmetric, so the values are the same
    failure = torch.zeros((), dtype=torch.int32, device=device)
    torch.linalg.cholesky_ex(in_lapack_order, out=(in_lapack_order, failure))
    if failure:
        raise InputError(f"XᵀX + l2 · I has no inverse with l2 = {l2:g}; choose a larger l2")
    torch.cholesky_inverse(in_lapack_order, out=in_lapack_order)
    matrix.div_(-matrix.diagonal().clone())
    return matrix.fill_diagonal_(0)


def _require_memory(n_items: int, device: torch.device) -> None:
    """Raise if the matrix does not fit: a GPU inverts into a second matrix, a CPU in place."""
    needed = (1 if device.type == "cpu" else 2) * 4 * n_items**2
    there = memory_bytes(device)
    if needed > there:
        raise InputError(
            f"EASE needs {needed:,} bytes of memory on {device.type} for {n_items:,} items, and "
            f"there are {there:,}; choose another method, such as itemknn, or fewer items"
        )


def _gram(data: Interactions, device: torch.device) -> Tensor:
    """XᵀX, (items, items): the number of users who have both items."""
    owned = data.matrix()
    gram = torch.empty(data.n_items, data.n_items, device=device)

    def write(items: slice, rows: Tensor) -> None:
        gram[items] = rows

    use_rows_of_product(owned.T.tocsr(), owned, device, write)
    return gram


def _scores_not_had(data: Interactions, weights: Tensor, had_: list[Tensor]) -> Iterator[Tensor]:
    """Blocks of XB with 0 for the user's own items, whose scores are appended to ``had_``."""
    had = Rows.of(data, weights.device)
    everybody = torch.arange(data.n_users, device=weights.device)
    for users in torch.split(everybody, _rows_at_once(data)):
        own = had.take(users)
        ones = weights.new_ones(len(own.columns))
        scores = sparse_matrix(own.indptr, own.columns, ones, (len(users), len(weights))) @ weights
        had_.append(scores[own.row_of_entry, own.columns])
        scores[own.row_of_entry, own.columns] = 0
        yield scores


def _highest(blocks: Iterable[Tensor], count: int) -> SparsePart:
    """The ``count`` highest positive entries of each row.

    All other entries count as 0, so a negative entry that was kept would rank below them.
    """
    counts, columns, values = [], [], []
    for block in blocks:
        best, where = block.topk(min(count, block.shape[1]), dim=1)
        above = best > 0
        counts.append(above.sum(dim=1))
        columns.append(where[above])
        values.append(best[above])
    indptr = torch.nn.functional.pad(torch.cat(counts).cumsum(0), (1, 0))
    return SparsePart(Rows(indptr, torch.cat(columns)), torch.cat(values))


def _rows_at_once(data: Interactions) -> int:
    return max(1, BLOCK_BYTES // (4 * data.n_items))
