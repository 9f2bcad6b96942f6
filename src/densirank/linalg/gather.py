"""Differentiable selection of distinct rows of a table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def distinct_rows(table: Tensor, rows: Tensor) -> Tensor:
    """``table[rows]`` for distinct ``rows``: the gradient is assigned to rows, not accumulated.

    >>> table = torch.ones(3, 2, requires_grad=True)
    >>> distinct_rows(table, torch.tensor([2, 0])).sum().backward()
    >>> table.grad
    tensor([[1., 1.],
            [0., 0.],
            [1., 1.]])
    """
    taken: Tensor = _DistinctRows.apply(table, rows)  # type: ignore[no-untyped-call]
    return taken


class _DistinctRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = table.shape
        return table.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,), (rows,) = gradients, ctx.saved_tensors
        whole = gradient.new_zeros(ctx.shape)
        whole[rows] = gradient
        return whole, None
