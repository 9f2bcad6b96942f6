"""The training step, executed eagerly or replayed as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from densirank.device import Hardware
from densirank.models.base import Model
from densirank.risks import Risk
from densirank.settings import TrainingSettings
from densirank.training.batches import Batch, BatchSampler, Draw
from densirank.training.optim import rate_at, set_rate

WARM_UP = 3
"""Steps before the graph is captured; they initialise kernels, moments and workspaces."""

Steps = Callable[[int], Tensor]
"""Takes the step of an iteration and returns its loss."""


def steps_on(
    hardware: Hardware,
    model: Model,
    risk: Risk,
    batches: BatchSampler,
    optimiser: torch.optim.Optimizer,
    settings: TrainingSettings,
) -> Steps:
    """The fastest implementation of steps on this hardware."""
    if hardware.half:
        return ReplayedSteps(model, risk, batches, optimiser, settings)

    def one_by_one(iteration: int) -> Tensor:
        set_rate(optimiser, rate_at(iteration, settings))
        return step(model, risk, batches(iteration), optimiser, settings)

    return one_by_one


def step(
    model: Model,
    risk: Risk,
    batch: Batch,
    optimiser: torch.optim.Optimizer,
    settings: TrainingSettings,
) -> Tensor:
    """One update, Eq. (pde-obj), and the clipping of Section 3.4 after it."""
    optimiser.zero_grad()
    user_vectors, item_vectors = model.batch_vectors(batch.users, batch.items, batch.seed)
    loss = risk(user_vectors, item_vectors, batch.positives)
    penalty = model.regularised(batch.users, batch.items, batch.positives.n_candidates)
    loss = loss + settings.l2 * penalty
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    if settings.max_norm is not None:
        model.clip_(settings.max_norm)
    return loss.detach()


class ReplayedSteps:
    """Steps captured once as a CUDA graph; after that, a step is a single launch.

    A graph reads its inputs from fixed addresses. The random part of each batch is therefore copied
    to fixed tensors, and everything else, from the positives to the clipping, runs on the device.
    Models and risks that draw random numbers would repeat the same ones at each replay.
    """

    def __init__(
        self,
        model: Model,
        risk: Risk,
        batches: BatchSampler,
        optimiser: torch.optim.Optimizer,
        settings: TrainingSettings,
    ) -> None:
        self._model, self._risk, self._batches = model, risk, batches
        self._optimiser, self._settings = optimiser, settings
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm_ups = 0
        drawn = batches.draw(0)
        self._draw = Draw(
            drawn.users.clone(), None if drawn.sample is None else drawn.sample.clone(), drawn.seed
        )
        self._loss = torch.zeros((), device=drawn.users.device)

    def __call__(self, iteration: int) -> Tensor:
        drawn = self._batches.draw(iteration)
        self._draw.users.copy_(drawn.users)
        if self._draw.sample is not None and drawn.sample is not None:
            self._draw.sample.copy_(drawn.sample)
        set_rate(self._optimiser, rate_at(iteration, self._settings))
        if self._warm_ups < WARM_UP:
            return self._warm_up()
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=self._stream):
                self._loss = self._step()
        self._graph.replay()
        return self._loss

    def _warm_up(self) -> Tensor:
        """A regular step, on the stream that will be captured."""
        self._warm_ups += 1
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            loss = self._step()
        torch.cuda.current_stream().wait_stream(self._stream)
        return loss

    def _step(self) -> Tensor:
        batch = self._batches.arrange_padded(self._draw)
        return step(self._model, self._risk, batch, self._optimiser, self._settings)
