"""Optimisers and the schedule of the step size: Adam, and momentum whitened across the dimensions.

The gradients of all vectors share a few strong directions, and Adam, which rescales every number
by itself, cannot tell a direction from a number. Here the gradient G of a table (one row a vector)
is multiplied by (GᵀG/n + damping)^-½: the strong directions of the d-dimensional space then move
at the same pace, and a rotation of it changes nothing. It is Shampoo's right-hand preconditioner
(Gupta et al. 2018) taken afresh at each step, close to Muon (Jordan et al. 2024), and keeps one
number a parameter where Adam keeps two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from densirank.device import Hardware
from densirank.errors import InputError
from densirank.models.base import Model
from densirank.settings import TrainingSettings
from densirank.world import ONE_PROCESS, World


def optimiser_for(
    model: Model, settings: TrainingSettings, hardware: Hardware, world: World = ONE_PROCESS
) -> torch.optim.Optimizer:
    """The optimiser; its rate is a tensor on a GPU, where a recording must be able to read it."""
    on_gpu = hardware.device.type == "cuda"
    rate: float | Tensor = settings.learning_rate
    if on_gpu:
        rate = torch.tensor(settings.learning_rate, device=hardware.device)
    if settings.optimiser == "whitened":
        shapes = {table.shape[1:] for table in model.parameters()}
        if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            raise InputError(
                f"{type(model).__name__} has parameters that are not vectors of one length, which "
                "optimiser whitened needs; choose adam"
            )
        return Whitened(model.parameters(), rate, world)
    return torch.optim.Adam(model.parameters(), lr=rate, fused=True, capturable=on_gpu)


def rate_at(iteration: int, settings: TrainingSettings) -> float:
    """The step size: a linear rise, a plateau, and a linear fall to zero at the end."""
    rise = min(1.0, (iteration + 1) / (settings.warmup + 1))
    falling = settings.decay * settings.iterations
    fall = min(1.0, (settings.iterations - iteration) / (falling + 1))
    return settings.learning_rate * min(rise, fall)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Change the step size, in place where it is a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


MOMENTUM = 0.9

DAMPING = 0.1
"""δ, times ‖GᵀG/n‖: a direction of strength λ moves with the strength λ / (λ + δ ‖GᵀG/n‖)."""

ITERATIONS = 10
"""Of Newton–Schulz: the error is below 1e-6 for eigenvalues from DAMPING to 1."""


class Whitened(torch.optim.Optimizer):
    """Nesterov momentum, each table of vectors whitened before it is subtracted.

    GᵀG of a sharded table is the sum of what each process has.
    """

    def __init__(self, tables: Any, lr: float | Tensor, world: World = ONE_PROCESS) -> None:
        super().__init__(tables, {"lr": lr})
        self._world = world
        self._n_rows = {
            table: int(world.sum_(torch.tensor(len(table), device=table.device)))
            for group in self.param_groups
            for table in group["params"]
        }

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every table; the length of a step is ``lr`` a number, in the mean square."""
        for group in self.param_groups:
            tables = [table for table in group["params"] if table.grad is not None]
            if not tables:
                continue
            ahead = [self._look_ahead(table, table.grad) for table in tables]
            shares = [g.T @ g / self._n_rows[t] for t, g in zip(tables, ahead, strict=True)]
            covariances = self._world.sum_(torch.stack(shares))
            whitening = inverse_root(covariances) * group["lr"]
            for table, g, by in zip(tables, ahead, whitening, strict=True):
                table.addmm_(g, by, alpha=-1)

    def _look_ahead(self, table: Tensor, gradient: Tensor) -> Tensor:
        """Take the gradient into the momentum, and add what momentum will do next to it."""
        if "momentum" not in self.state[table]:
            self.state[table]["momentum"] = torch.zeros_like(table)
        momentum: Tensor = self.state[table]["momentum"]
        momentum.mul_(MOMENTUM).add_(gradient)
        return torch.add(gradient, momentum, alpha=MOMENTUM)


def inverse_root(matrices: Tensor) -> Tensor:
    """(A + damping · ‖A‖ · I)^-½ of symmetric positive matrices, (count, d, d).

    By Newton–Schulz iteration: only products, which any device does without being waited for.
    """
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)
    norms: Tensor = torch.linalg.matrix_norm(matrices, keepdim=True)
    norms = norms.clamp(min=torch.finfo(matrices.dtype).tiny)  # a gradient of zero stays zero
    root = (matrices / norms + DAMPING * identity) / (1 + DAMPING)
    inverse = identity.expand_as(root)
    for _ in range(ITERATIONS):
        towards = torch.baddbmm(identity, inverse, root, beta=1.5, alpha=-0.5)
        root, inverse = root @ towards, towards @ inverse
    return inverse * (norms * (1 + DAMPING)).rsqrt()
