"""From interactions to a fitted scorer: a model, a risk and a sampler put together and trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.evaluation.held_out import HeldOut
from densirank.filters.combine import Filters, FilterSettings
from densirank.filters.similarity import nearness
from densirank.linalg.csr import SparsePart
from densirank.methods import Method
from densirank.models.base import ItemSide, Model
from densirank.risks.weighting import DensitySettings, Weighting
from densirank.scores import VectorScorer
from densirank.settings import Settings, TrainingSettings
from densirank.training.batches import BatchSampler
from densirank.training.callbacks import Callback, Snapshots
from densirank.training.candidates import HardCandidates
from densirank.training.checkpoint import Checkpoint
from densirank.training.loop import Outcome, Validate, train

VALIDATION_K = 20
"""Early stopping looks at nDCG at this depth."""


@dataclass(frozen=True)
class Fitted:
    """What a fit leaves."""

    scorer: VectorScorer
    items: ItemSide
    parameters: dict[str, Tensor] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FitTask:
    """What is to be fitted, to what, and who looks on."""

    method: Method
    settings: Settings
    seed: int
    hardware: Hardware
    data: Interactions
    held_out: Interactions | None = None  # to stop early by
    callbacks: Sequence[Callback] = ()
    checkpoint: Checkpoint | None = None
    snapshots: Snapshots | None = None


Engine = Callable[[FitTask], Fitted | None]
"""What makes a fit: :func:`fit_scorer`, or several processes; None where another has it."""


def fit_scorer(task: FitTask, start: Callable[[Model], None] | None = None) -> Fitted:
    """A model of these interactions, trained; ``start`` says where from, if not from chance."""
    method, settings, hardware, data = task.method, task.settings, task.hardware, task.data
    generator = torch.Generator().manual_seed(task.seed)
    model = method.model_type.of(data, settings, generator).prepare(hardware)
    filters = Filters.of(data, settings, hardware.device)
    risk = method.risk_spec
    if risk is None:
        items = ItemSide(data.item_counts, near=filters.near)
        return Fitted(_scorer_as_made(model, filters), items)
    assert isinstance(settings, TrainingSettings), "what has a risk has the settings of training"
    if start is not None:
        start(model)
    outcome = train(
        model,
        risk.on(hardware, settings),
        BatchSampler(
            data,
            settings.users_per_batch,
            settings.candidates,
            task.seed,
            hardware.device,
            Weighting.of(data, settings, hardware.device),
            hard=_hard_candidates(data, settings, filters, hardware.device),
        ),
        settings,
        hardware,
        _validator(task, filters),
        task.callbacks,
        task.checkpoint,
        task.snapshots,
    )
    with torch.no_grad():
        messages = model.messages()
    return Fitted(
        filters(outcome.user_vectors, outcome.item_vectors),
        ItemSide(data.item_counts, messages, filters.near),
        outcome.parameters,
        training_record(outcome),
    )


def _hard_candidates(
    data: Interactions, settings: Settings, filters: Filters, device: torch.device
) -> HardCandidates | None:
    if not isinstance(settings, DensitySettings) or settings.hard_candidates == 0:
        return None
    near, own = filters.near, FilterSettings.of(settings)
    if near is None:
        near = nearness(data, device, own.filter_span, own.filter_kind)
    return HardCandidates.of(filters.histories, near, settings.hard_candidates)


def _scorer_as_made(model: Model, filters: Filters) -> VectorScorer:
    """How a model scores that is made, not trained; with a filter, items are alike by that."""
    with torch.no_grad():
        users, items = model.vectors()
    scorer = filters(users, items)
    if model.sparse_part() is not None:
        return replace(scorer, sparse_part=model.sparse_part(), neighbours=model.neighbours())
    if filters.near is None:
        return scorer
    return replace(scorer, neighbours=SparsePart.of(filters.near, users.device))


def _validator(task: FitTask, filters: Filters) -> Validate | None:
    """What the trainer calls to learn how well an iterate ranks the held-out items, if any are."""
    if task.held_out is None:
        return None
    validation = HeldOut(task.held_out, task.data, task.hardware.device)

    def ndcg(user_vectors: Tensor, item_vectors: Tensor) -> float:
        result = validation.evaluate(filters(user_vectors, item_vectors), VALIDATION_K)
        return float(result.per_user["ndcg"].mean())

    return ndcg


def training_record(outcome: Outcome) -> dict[str, Any]:
    """What is kept of the training besides the vectors: a curve to look at, and how it ended."""
    return {
        "iterations": outcome.iterations,
        "best_iteration": outcome.best_iteration,
        "best_validation_ndcg@20": outcome.best_validation,
        "interrupted": outcome.interrupted,
        "seconds": outcome.reports[-1].seconds if outcome.reports else 0.0,
        "reports": [asdict(report) for report in outcome.reports],
    }
