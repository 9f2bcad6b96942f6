"""From interactions to a fitted scorer: a model, a risk and a sampler put together and trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from densirank.csr import SparsePart
from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.evaluation.held_out import HeldOut
from densirank.hardware import Hardware
from densirank.methods import Method
from densirank.models import MODELS, Model
from densirank.new_data.folding import ITEM_ITEM, ItemSide
from densirank.ranking.item_filter import ItemFilter
from densirank.ranking.scores import VectorScorer
from densirank.risks import risk_for
from densirank.risks.fused import FORMS
from densirank.settings import WEIGHTINGS, Settings
from densirank.training.batches import BatchSampler
from densirank.training.callbacks import Callback, Snapshots
from densirank.training.checkpoint import Checkpoint
from densirank.training.trainer import Outcome, Validate, train
from densirank.training.weighting import Weighting

VALIDATION_K = 20
"""Early stopping looks at nDCG at this depth."""

MakeScorer = Callable[[Tensor, Tensor], VectorScorer]
"""(user vectors, item vectors) → how they score."""


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
    check_filter(method, settings)
    generator = torch.Generator().manual_seed(task.seed)
    model = MODELS[method.model](data, settings, generator).prepare(hardware)
    item_filter = filter_for(data, settings, hardware.device)
    near = None if item_filter is None else item_filter.near
    make_scorer = scorer_with_filter(item_filter, settings.filter_weight)
    if method.risk is None:
        scorer = _scorer_as_made(model, item_filter, settings.filter_weight)
        return Fitted(scorer, ItemSide(data.item_counts, near=near))
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
        ),
        settings,
        hardware,
        _validator(task, make_scorer),
        task.callbacks,
        task.checkpoint,
        task.snapshots,
    )
    with torch.no_grad():
        messages = model.messages()
    return Fitted(
        make_scorer(outcome.user_vectors, outcome.item_vectors),
        ItemSide(data.item_counts, messages, near),
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


def check_filter(method: Method, settings: Settings) -> None:
    """Refuse a filter beside a model that is itself one of items by items."""
    if settings.filter_weight != 0 and method.model in ITEM_ITEM:
        raise InputError(f"filter_weight has no use in {method.name}: it is such a filter itself")


def filter_for(data: Interactions, settings: Settings, device: torch.device) -> ItemFilter | None:
    """The item–item filter, where the settings give it a weight."""
    if settings.filter_weight == 0:
        return None
    return ItemFilter.of(data, device, settings.filter_recency, settings.filter_span)


def scorer_with_filter(item_filter: ItemFilter | None, weight: float) -> MakeScorer:
    """How vectors score, with the item–item filter beside them where there is one."""
    if item_filter is None:
        return VectorScorer
    return lambda users, items: VectorScorer(users, items, item_filter.beside(users, items, weight))


def _scorer_as_made(model: Model, item_filter: ItemFilter | None, weight: float) -> VectorScorer:
    """How a model scores that is made, not trained; beside a filter, items are alike by it."""
    with torch.no_grad():
        users, items = model.vectors()
    if item_filter is None:
        return VectorScorer(users, items, model.sparse_part(), model.neighbours())
    near = SparsePart.of(item_filter.near, users.device)
    return VectorScorer(users, items, item_filter.beside(users, items, weight), near)


def _validator(task: FitTask, scorer: MakeScorer) -> Validate | None:
    """What the trainer calls to learn how well an iterate ranks the held-out items, if any are."""
    if task.held_out is None:
        return None
    validation = HeldOut(task.held_out, task.data, task.hardware.device)

    def ndcg(user_vectors: Tensor, item_vectors: Tensor) -> float:
        result = validation.evaluate(scorer(user_vectors, item_vectors), VALIDATION_K)
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
