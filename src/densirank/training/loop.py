"""The training loop: draw a batch, take a step, clip, validate periodically."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from densirank.device import Hardware
from densirank.errors import TrainingError
from densirank.models.base import Model
from densirank.risks import Risk
from densirank.settings import TrainingSettings
from densirank.training.batches import BatchSampler
from densirank.training.callbacks import Callback, Interruption, Report, Snapshots
from densirank.training.checkpoint import Checkpoint, TrainingState
from densirank.training.optim import optimiser_for
from densirank.training.step import steps_on
from densirank.world import ONE_PROCESS, World

REPORT_EVERY = 10
"""Iterations between reports of the loss: reading it at every step would slow down a GPU."""

Validate = Callable[[Tensor, Tensor], float]
"""(user vectors, item vectors) → the metric that decides which iterate is kept."""


@dataclass(frozen=True)
class Outcome:
    """The result of training: the vectors to rank with, and the course of training."""

    user_vectors: Tensor
    item_vectors: Tensor
    parameters: dict[str, Tensor]  # from which the vectors are computed
    iterations: int
    best_iteration: int
    best_validation: float | None
    interrupted: bool
    reports: list[Report] = field(default_factory=list)


def train(
    model: Model,
    risk: Risk,
    batches: BatchSampler,
    settings: TrainingSettings,
    hardware: Hardware,
    validate: Validate | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    snapshots: Snapshots | None = None,
    world: World = ONE_PROCESS,
) -> Outcome:
    """Minimise R̂ + λ·L2 subject to ‖e‖ ≤ n̄; with validation, keep the best iterate.

    If the checkpoint holds an earlier state of the same run, training resumes from it, with the
    same result as an uninterrupted run. Several processes each compute their part of every step,
    and all save and stop after the same step.
    """
    optimiser = optimiser_for(model, settings, hardware, world)
    state = TrainingState()
    if checkpoint is not None and checkpoint.exists():
        state = checkpoint.restore(model, optimiser)
    interrupted = False
    take_step = steps_on(hardware, model, risk, batches, optimiser, settings)
    started = time.perf_counter() - state.seconds

    with Interruption() as interruption:
        while state.iteration < settings.iterations and not _exhausted(state, settings):
            loss = take_step(state.iteration)
            state.iteration += 1
            if snapshots is not None and state.iteration in snapshots.after:
                started += _look(model, snapshots, state.iteration, loss, started)
            last = state.iteration == settings.iterations
            interrupted = world.any(interruption.requested)
            metric = None
            if validate is not None and (last or state.iteration % settings.validate_every == 0):
                metric = _consider(model, validate, state)
            if last or interrupted or metric is not None or state.iteration % REPORT_EVERY == 0:
                loss = world.sum_(loss)
                _require_finite(state.iteration, loss)  # synchronises; read the clock after
                state.seconds = time.perf_counter() - started
                _report(state, settings, float(loss), metric, callbacks)
            interrupted = interrupted or world.any(interruption.requested)
            if checkpoint is not None and (interrupted or world.any(checkpoint.due())):
                state.seconds = time.perf_counter() - started
                _require_finite(state.iteration, *model.parameters())
                checkpoint.save(model, optimiser, state)
            if interrupted:
                break

    if state.best_parameters is not None:
        model.load_state_dict(state.best_parameters)
    with torch.no_grad():
        user_vectors, item_vectors = model.final_vectors()
    _require_finite(state.iteration, user_vectors, item_vectors)
    return Outcome(
        user_vectors=user_vectors.detach(),
        item_vectors=item_vectors.detach(),
        parameters=model.state_dict(),
        iterations=state.iteration,
        best_iteration=state.best_iteration or state.iteration,
        best_validation=state.best_validation,
        interrupted=interrupted and state.iteration < settings.iterations,
        reports=state.reports,
    )


def _consider(model: Model, validate: Validate, state: TrainingState) -> float:
    """Validate the current iterate and keep its parameters if they are the best so far."""
    with torch.no_grad():
        user_vectors, item_vectors = model.final_vectors()
        _require_finite(state.iteration, user_vectors, item_vectors)
        metric = validate(user_vectors, item_vectors)
        if state.best_validation is None or metric > state.best_validation:
            state.best_validation, state.best_iteration = metric, state.iteration
            state.best_parameters = {k: v.clone() for k, v in model.state_dict().items()}
            state.validations_since_best = 0
        else:
            state.validations_since_best += 1
    return metric


def _look(
    model: Model, snapshots: Snapshots, iteration: int, loss: Tensor, started: float
) -> float:
    """Pass the current iterate to the observer; returns the seconds to subtract."""
    _require_finite(iteration, loss)  # synchronises with the device
    paused = time.perf_counter()
    with torch.no_grad():
        snapshots.look(iteration, paused - started, *model.final_vectors())
    return time.perf_counter() - paused


def _report(
    state: TrainingState,
    settings: TrainingSettings,
    loss: float,
    metric: float | None,
    callbacks: Sequence[Callback],
) -> None:
    report = Report(state.iteration, settings.iterations, state.seconds, loss, metric)
    state.reports.append(report)
    for callback in callbacks:
        callback(report)


def _exhausted(state: TrainingState, settings: TrainingSettings) -> bool:
    return state.validations_since_best >= settings.patience


def _require_finite(iteration: int, *values: Tensor) -> None:
    """Raise before a non-finite value is reported, kept or saved."""
    if not all(bool(torch.isfinite(value).all()) for value in values):
        raise TrainingError(
            f"the loss or the vectors are no longer finite at iteration {iteration}: lower "
            "learning_rate or max_norm (norm clipping)"
        )
