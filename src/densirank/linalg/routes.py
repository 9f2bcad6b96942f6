"""Row exchange of sharded tables: fetch rows from their owners, and return gradients to them.

The two operations are adjoint, so each is the backward pass of the other. Together they send as
much as an all-reduce of the gradients of a replicated table (an all-reduce is a reduce-scatter and
an all-gather), but only for the rows that are used. No table is replicated: a process stores, clips
and updates its own rows, in 1/N of the memory.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from densirank.world import World


class Route:
    """The rows of a sharded table that this process reads, and its rows that others read."""

    def __init__(self, world: World, n_rows: int, wanted: Tensor) -> None:
        """``wanted`` are distinct rows of the table, in any order."""
        self._world = world
        ordered, self._order = wanted.sort()
        bounds = torch.tensor(world.bounds(n_rows), device=wanted.device)
        counts = torch.searchsorted(ordered, bounds).diff()
        one_each = [1] * world.size
        self._from_each: list[int] = counts.tolist()
        self._to_each: list[int] = world.exchange(counts, one_each, one_each).tolist()
        own = world.own(n_rows)
        self._n_own = len(own)
        self._asked_for = world.exchange(ordered, self._from_each, self._to_each) - own.start

    def fetch(self, own_rows: Tensor) -> Tensor:
        """The wanted rows, (wanted, dim); every process passes the rows that it owns."""
        asked_for = own_rows.index_select(0, self._asked_for)
        came = self._world.exchange(asked_for, self._to_each, self._from_each)
        return torch.empty_like(came).index_copy_(0, self._order, came)

    def bring_back(self, rows: Tensor) -> Tensor:
        """The sum over all processes for every own row, in a fixed order."""
        ordered = rows.index_select(0, self._order)
        came = self._world.exchange(ordered, self._from_each, self._to_each)
        own_rows = came.new_zeros(self._n_own, came.shape[1])
        for start, stop in pairwise(accumulate(self._to_each, initial=0)):
            own_rows.index_add_(0, self._asked_for[start:stop], came[start:stop])
        return own_rows


def fetched(own_rows: Tensor, route: Route) -> Tensor:
    """Differentiable :meth:`Route.fetch`."""
    rows: Tensor = _Fetched.apply(own_rows, route)  # type: ignore[no-untyped-call]
    return rows


class _Fetched(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own_rows: Tensor, route: Route) -> Tensor:
        ctx.route = route
        return route.fetch(own_rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.route.bring_back(gradients[0]), None
