"""What a risk is, and computing one in bounded memory with its gradient on the way forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from densirank.device import Hardware
from densirank.risks.positives import Positives
from densirank.settings import TrainingSettings

Risk = Callable[[Tensor, Tensor, Positives], Tensor]
"""(user vectors, item vectors, positives) → the empirical risk, a differentiable scalar."""


@dataclass(frozen=True)
class RiskSpec:
    """A risk as methods refer to it: how it is made, and which settings it has."""

    name: str
    make: Callable[[Any], Risk]
    """Settings → the risk, with memory of its own."""
    settings: type[TrainingSettings] = TrainingSettings
    on_tensor_cores: Callable[[], Risk] | None = None
    """The same for the tensor cores of a GPU, of risks that draw nothing, so that steps can be
    replayed."""
    is_density: bool = False
    """Whether it is one of the paper's density risks, whose positives, users and base density can
    have weights; all others count every pair alike."""

    def on(self, hardware: Hardware, settings: TrainingSettings) -> Risk:
        """The risk in the form that is fastest there."""
        if hardware.half and self.on_tensor_cores is not None:
            return self.on_tensor_cores()
        return self.make(settings)


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


BLOCK_BYTES = {"cpu": 32 << 20, "cuda": 512 << 20}
"""Bytes of the scores of one part; a dense risk holds about ten tensors of that size."""


def in_blocks(risk: Risk) -> Risk:
    """The same risk, a part of the users at a time.

    Written densely, as a mean over users, it makes something of size users × candidates. Taken over
    a part of the users and differentiated there and then, it never holds more than the part.
    """

    def blocked(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
        def compute(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            loss = users.new_zeros(())
            user_gradients, item_gradient = [], torch.zeros_like(items)
            rows = _rows_per_block(positives, users)
            for start in range(0, len(users), rows):
                part = positives.some(start, min(start + rows, len(users)))
                own = users[start : start + rows].detach().requires_grad_()
                all_items = items.detach().requires_grad_()
                with torch.enable_grad():
                    share = risk(own, all_items, part) * (len(part) / len(users))
                by_user, by_item = torch.autograd.grad(share, (own, all_items))
                loss += share.detach()
                user_gradients.append(by_user)
                item_gradient += by_item
            return loss, torch.cat(user_gradients), item_gradient

        return differentiable(compute, user_vectors, item_vectors)

    return blocked


def _rows_per_block(positives: Positives, like: Tensor) -> int:
    row_bytes = max(1, int(positives.n_candidates)) * like.element_size()
    return max(1, BLOCK_BYTES[like.device.type] // row_bytes)
