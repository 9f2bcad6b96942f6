"""Items told by their nearest ones: what one of them says that the others do not say already.

Of the rows X in which items stand together, item j's column is regressed on those of its nearest
items S: b_j = (X_Sᵀ X_S + λI)^-1 X_Sᵀ x_j. That is EASE (Steck 2019) with the weights of all other
items held at zero. So what is kept grows with the items, not with their pairs, and a rare item, of
which a regression on everything would learn noise, is told by few.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from densirank.linalg.products import highest_of_product, use_rows_of_product
from densirank.linalg.sparse import Matrix, column_table, scaled, without

TOLD_BY = 25
"""Items that an item is told by: |S|, or one less."""
PENALTY = 50.0
"""λ, where an interaction counts 1 on average."""
SHRINKAGE = 10.0
"""People that no two items share, added to each one's before they are compared."""
SYSTEMS_AT_ONCE = 1 << 14
"""Regressions that are solved together: they bound the memory on the way."""


def ridge_weights(rows: Matrix, counts: NDArray[np.int64], device: torch.device) -> Matrix:
    """B, (items, items): column j says how far item j is told by each of its nearest ones.

    ``counts`` are the items' people, by which items are compared.
    """
    rows = rows * np.float32(np.mean(rows.data**2) ** -0.5)
    nearest = _nearest(rows, counts, device)
    told_by, there = (torch.from_numpy(part).to(device) for part in column_table(nearest, TOLD_BY))
    gram, shared = _systems(rows, told_by, device)
    some = torch.split(torch.arange(len(there), device=device), SYSTEMS_AT_ONCE)
    weights = torch.cat([_solved(gram[j], shared[j], there[j]) for j in some])
    nearest.data = weights[there].cpu().numpy()
    return nearest.T.tocsr()


def _nearest(rows: Matrix, counts: NDArray[np.int64], device: torch.device) -> Matrix:
    """The items that each one is told by: those with which it shares most, for their people."""
    held_back = (counts + SHRINKAGE) ** -0.5
    left, right = scaled(rows.T.tocsr(), by_row=held_back), scaled(rows, by_column=held_back)
    nearest = highest_of_product(left, right, TOLD_BY, device)
    return without(nearest, sparse.eye_array(nearest.shape[0], format="csr")).tocsr()


def _systems(rows: Matrix, told_by: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """(X_Sᵀ X_S, X_Sᵀ x_j) of every item j, of XᵀX of which some rows at a time are there."""
    n_items, size = told_by.shape
    source, entry = told_by.view(-1).sort(stable=True)
    gram = torch.empty(n_items * size, size, device=device)
    shared = torch.empty(n_items, size, device=device)

    def look_up(items: slice, block: Tensor) -> None:
        bounds = torch.tensor([items.start, items.stop], device=device)
        first, last = torch.searchsorted(source, bounds).tolist()
        here = entry[first:last]
        gram[here] = block[(source[first:last] - items.start).unsqueeze(1), told_by[here // size]]
        shared[items] = block.gather(1, told_by[items])

    use_rows_of_product(rows.T.tocsr(), rows, device, look_up)
    return gram.view(n_items, size, size), shared


def _solved(gram: Tensor, shared: Tensor, there: Tensor) -> Tensor:
    """(X_Sᵀ X_S + λI)^-1 X_Sᵀ x_j, where padding is told apart: it has nothing to do with j."""
    gram = gram * (there.unsqueeze(1) & there.unsqueeze(2))
    gram.diagonal(dim1=1, dim2=2).add_(PENALTY)
    root = torch.linalg.cholesky(gram)
    return torch.cholesky_solve((shared * there).unsqueeze(2), root).squeeze(2)
