"""From interactions to a fitted scorer: a model, a risk and a sampler put together and trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.errors import InputError
from densirank.evaluation.held_out import HeldOut
from densirank.filters.combine import Beside
from densirank.filters.similarity import nearness
from densirank.linalg.csr import SparsePart
from densirank.methods import Method
from densirank.models import MODELS, Model
from densirank.ranking.fold_in import ITEM_ITEM, ItemSide
from densirank.risks import risk_for
from densirank.risks.fused import FORMS
from densirank.risks.weighting import Weighting
from densirank.scores import VectorScorer
from densirank.settings import FILTERS, WEIGHTINGS, Settings
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
    check_weightings(method, settings)
    check_candidates(settings)
    check_filter(method, settings)
    generator = torch.Generator().manual_seed(task.seed)
    model = MODELS[method.model](data, settings, generator).prepare(hardware)
    beside = Beside.of(data, settings, hardware.device)
    if method.risk is None:
        return Fitted(_scorer_as_made(model, beside), ItemSide(data.item_counts, near=beside.near))
    if start is not None:
        start(model)
    outcome = train(
        model,
        risk_for(hardware, method.risk, settings),
        BatchSampler(
            data,
            settings.users_per_batch,
            settings.candidates,
            task.seed,
            hardware.device,
            Weighting.of(data, settings, hardware.device),
            hard=_hard_candidates(data, settings, beside, hardware.device),
        ),
        settings,
        hardware,
        _validator(task, beside),
        task.callbacks,
        task.checkpoint,
        task.snapshots,
    )
    with torch.no_grad():
        messages = model.messages()
    return Fitted(
        beside(outcome.user_vectors, outcome.item_vectors),
        ItemSide(data.item_counts, messages, beside.near),
        outcome.parameters,
        training_record(outcome),
    )


def check_weightings(method: Method, settings: Settings) -> None:
    """Refuse weights that a method's risk would not look at."""
    asked = [key for key in WEIGHTINGS if getattr(settings, key) != 0]
    if asked and method.risk not in FORMS:
        raise InputError(
            f"{asked[0]} is for the density risks ({', '.join(FORMS)}); {method.name} has none"
        )


def check_candidates(settings: Settings) -> None:
    """Refuse hard candidates where they would change nothing, or their chance is not known."""
    if settings.hard_candidates and settings.candidates == "all":
        raise InputError("hard_candidates has no use where all items are candidates")
    if settings.hard_candidates and settings.candidate_correction != 0:
        raise InputError("candidate_correction knows no chance of hard_candidates; choose one")


def check_filter(method: Method, settings: Settings) -> None:
    """Refuse a filter beside a model that is itself one of items by items."""
    for key in FILTERS:
        if getattr(settings, key) != 0 and method.model in ITEM_ITEM:
            raise InputError(f"{key} has no use in {method.name}: it is such a filter itself")


def _hard_candidates(
    data: Interactions, settings: Settings, beside: Beside, device: torch.device
) -> HardCandidates | None:
    if settings.hard_candidates == 0:
        return None
    near = beside.near
    if near is None:
        near = nearness(data, device, settings.filter_span, settings.filter_kind)
    return HardCandidates.of(beside.histories, near, settings.hard_candidates)


def _scorer_as_made(model: Model, beside: Beside) -> VectorScorer:
    """How a model scores that is made, not trained; beside a filter, items are alike by it."""
    with torch.no_grad():
        users, items = model.vectors()
    if beside.item_filter is None and beside.low_pass is None:
        return VectorScorer(users, items, model.sparse_part(), model.neighbours())
    scorer = beside(users, items)
    if beside.near is None:
        return scorer
    return replace(scorer, neighbours=SparsePart.of(beside.near, users.device))


def _validator(task: FitTask, beside: Beside) -> Validate | None:
    """What the trainer calls to learn how well an iterate ranks the held-out items, if any are."""
    if task.held_out is None:
        return None
    validation = HeldOut(task.held_out, task.data, task.hardware.device)

    def ndcg(user_vectors: Tensor, item_vectors: Tensor) -> float:
        result = validation.evaluate(beside(user_vectors, item_vectors), VALIDATION_K)
        return float(result.per_user["ndcg"].mean())

    return ndcg


def training_record(outcome: Outcome) -> dict[str, Any]:
    """What is kept of the training beside the vectors: a curve to look at, and how it ended."""
    return {
        "iterations": outcome.iterations,
        "best_iteration": outcome.best_iteration,
        "best_validation_ndcg@20": outcome.best_validation,
        "interrupted": outcome.interrupted,
        "seconds": outcome.reports[-1].seconds if outcome.reports else 0.0,
        "reports": [asdict(report) for report in outcome.reports],
    }
