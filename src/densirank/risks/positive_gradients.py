"""What weighted positives add to their items' gradient, on a GPU and always in the same order.

Atomic additions would be simpler and would give another last digit in every run. So the positives
are sorted by item, and each item adds up its own.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from densirank.risks.positives import Positives


def subtract_positives(
    positives: Positives,
    user_vectors: Tensor,
    weights: Tensor,
    user_shares: Tensor,
    item_gradient: Tensor,
) -> None:
    """Take Σ_u (share of u) · weight · e_u off every item's gradient, always in the same order."""
    n_items, dim = item_gradient.shape
    entries = torch.arange(len(positives.columns), device=item_gradient.device)
    rows = torch.searchsorted(positives.indptr[1:], entries, right=True)
    items = torch.where(entries < positives.indptr[-1], positives.columns, n_items)  # padding last
    items, order = items.sort(stable=True)
    starts = torch.searchsorted(items, torch.arange(n_items + 1, device=items.device))
    _subtract[(n_items,)](
        starts, order, rows, weights, user_shares, user_vectors, item_gradient,
        DIM=dim, WIDTH=max(16, triton.next_power_of_2(dim)), CHUNK=16, num_warps=1,
    )  # fmt: skip


@triton.jit
def _subtract(
    starts, order, rows, weights, user_shares, users, item_gradient,
    DIM: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One item: its positives' part of the gradient, −Σ_u (share of u) · weight · e_u."""
    item = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(starts + item), tl.load(starts + item + 1)
    along = tl.arange(0, WIDTH)
    inside = along < DIM
    total = tl.zeros([CHUNK, WIDTH], tl.float32)
    for first in range(start, stop, CHUNK):
        places = first + tl.arange(0, CHUNK)
        there = places < stop
        entries = tl.load(order + places, mask=there, other=0)
        user = tl.load(rows + entries, mask=there, other=0)
        weight = tl.load(weights + entries, mask=there, other=0.0)
        weight *= tl.load(user_shares + user, mask=there, other=0.0)
        total += weight[:, None] * tl.load(
            users + user[:, None] * DIM + along[None, :],
            mask=there[:, None] & inside[None, :],
            other=0.0,
        )
    place = item_gradient + item * DIM + along
    tl.store(place, tl.load(place, mask=inside, other=0.0) - tl.sum(total, 0), mask=inside)
