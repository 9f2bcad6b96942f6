"""A loss whose gradient is found on the way forward; going backward only scales it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LossAndGradients = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
"""(user vectors, item vectors) → (loss, its gradient by the users, by the items)."""


def differentiable(compute: LossAndGradients, user_vectors: Tensor, item_vectors: Tensor) -> Tensor:
    """The loss as autograd wants it."""
    loss: Tensor = _GradientOnTheWay.apply(  # type: ignore[no-untyped-call]
        user_vectors, item_vectors, compute
    )
    return loss


class _GradientOnTheWay(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, user_vectors: Tensor, item_vectors: Tensor, compute: LossAndGradients
    ) -> Tensor:
        loss, *gradients = compute(user_vectors, item_vectors)
        ctx.save_for_backward(*gradients)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, Tensor, None]:
        user_gradient, item_gradient = ctx.saved_tensors
        return user_gradient * grad_output, item_gradient * grad_output, None
