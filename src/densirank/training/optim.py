"""Optimisers and step size schedule: Adam, and momentum whitened across the dimensions.

The gradients of all vectors share a few strong directions, which Adam cannot correct because it
rescales each parameter separately. Whitening multiplies the gradient G of a table (one vector per
row) by (GᵀG/n + damping)^-½: all strong directions of the d-dimensional space then move at the same
rate, and the update is invariant to rotations of the space. This is Shampoo's right preconditioner
(Gupta et al. 2018) recomputed at each step, close to Muon (Jordan et al. 2024). It stores one
number per parameter, where Adam stores two.
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
    """The optimiser; on a GPU its learning rate is a tensor, so that a CUDA graph can read it."""
    on_gpu = hardware.device.type == "cuda"
    rate: float | Tensor = settings.learning_rate
    if on_gpu:
        rate = torch.tensor(settings.learning_rate, device=hardware.device)
    if settings.optimiser == "whitened":
        shapes = {table.shape[1:] for table in model.parameters()}
        if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
            raise InputError(
                f"{type(model).__name__} has parameters that are not vectors of one length, so it "
                "cannot be trained with optimiser=whitened; use optimiser=adam"
            )
        return Whitened(model.parameters(), rate, world)
    return torch.optim.Adam(model.parameters(), lr=rate, fused=True, capturable=on_gpu)


def rate_at(iteration: int, settings: TrainingSettings) -> float:
    """The step size: linear warmup, a plateau, and linear decay to zero."""
    rise = min(1.0, (iteration + 1) / (settings.warmup + 1))
    falling = settings.decay * settings.iterations
    fall = min(1.0, (settings.iterations - iteration) / (falling + 1))
    return settings.learning_rate * min(rise, fall)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the step size, in place if it is a tensor."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


MOMENTUM = 0.9

DAMPING = 0.1
"""δ, in units of ‖GᵀG/n‖: a direction of strength λ is scaled to λ / (λ + δ ‖GᵀG/n‖)."""

ITERATIONS = 10
"""Newton–Schulz iterations: the error is below 1e-6 for eigenvalues from DAMPING to 1."""


class Whitened(torch.optim.Optimizer):
    """Nesterov momentum with whitened updates of each table of vectors.

    For a sharded table, GᵀG is summed over the processes.
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
        """Update every table; the root mean square of an update is about ``lr`` per number."""
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
        """Update the momentum, and return the Nesterov look-ahead gradient."""
        if "momentum" not in self.state[table]:
            self.state[table]["momentum"] = torch.zeros_like(table)
        momentum: Tensor = self.state[table]["momentum"]
        momentum.mul_(MOMENTUM).add_(gradient)
        return torch.add(gradient, momentum, alpha=MOMENTUM)


def inverse_root(matrices: Tensor) -> Tensor:
    """(A + damping · ‖A‖ · I)^-½ of symmetric positive matrices, (count, d, d).

    Computed by Newton–Schulz iteration: matrix products only, without device synchronisation.
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
