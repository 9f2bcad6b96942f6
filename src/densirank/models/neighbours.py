"""Neighbour sums of a graph on a GPU: one pass over the edges, without reading edge values.

Â = S A S with S = D^-½, so a layer is x + S A (S h): vectors are scaled once when they are written
instead of once per edge when they are read. Between layers they are stored in half precision.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 16
"""Neighbours that one warp reads at a time: the fastest value on an H200."""


class NeighbourSums:
    """P of :mod:`densirank.models.lightgcn` with bfloat16 between the layers and float32 sums.

    bfloat16 has the range of float32, which gradients need in the backward pass.
    """

    def __init__(self, indptr: Tensor, columns: Tensor, layers: int) -> None:
        degrees = indptr.diff()
        self._indptr, self._columns, self.layers = indptr, columns, layers
        self._scale = degrees.clamp(min=1).float().rsqrt()
        self._busiest_first = degrees.argsort(descending=True, stable=True).to(torch.int32)

    def __call__(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """P applied to (user vectors, item vectors), by Horner's rule: x + Â(x + Â(x + …))."""
        users, items = users.contiguous(), items.contiguous()
        n_users = len(users)
        shape = (n_users + len(items), users.shape[1])
        if self.layers == 0:
            return users, items
        source = users.new_empty(shape, dtype=torch.bfloat16)
        torch.mul(users, self._scale[:n_users, None], out=source[:n_users])
        torch.mul(items, self._scale[n_users:, None], out=source[n_users:])
        for layer in range(1, self.layers + 1):
            last = layer == self.layers
            out = users.new_empty(shape, dtype=torch.float32 if last else torch.bfloat16)
            _add_neighbours[(shape[0],)](
                self._busiest_first, self._indptr, self._columns, self._scale,
                source, users, items, out, n_users, 1 / (self.layers + 1),
                DIM=shape[1], WIDTH=triton.next_power_of_2(shape[1]), CHUNK=CHUNK, LAST=last,
                num_warps=1,
            )  # fmt: skip
            source = out
        return source[:n_users], source[n_users:]


@triton.jit
def _add_neighbours(
    order, indptr, columns, scale, source, users, items, out, n_users, share,
    DIM: tl.constexpr, WIDTH: tl.constexpr, CHUNK: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """One node: h = x + S A source, written as S h, or as share · h in the last layer."""
    node = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(indptr + node), tl.load(indptr + node + 1)
    along = tl.arange(0, WIDTH)
    there = along < DIM
    total = tl.zeros([CHUNK, WIDTH], tl.float32)
    for first in range(start, stop, CHUNK):
        entries = first + tl.arange(0, CHUNK)
        near = tl.load(columns + entries, mask=entries < stop, other=0).to(tl.int64)
        total += tl.load(
            source + near[:, None] * DIM + along[None, :],
            mask=(entries < stop)[:, None] & there[None, :],
            other=0.0,
        ).to(tl.float32)
    if node < n_users:
        own = tl.load(users + node * DIM + along, mask=there, other=0.0)
    else:
        own = tl.load(items + (node - n_users) * DIM + along, mask=there, other=0.0)
    own_scale = tl.load(scale + node)
    vector = (own + own_scale * tl.sum(total, 0)) * (share if LAST else own_scale)
    tl.store(out + node * DIM + along, vector.to(out.dtype.element_ty), mask=there)
