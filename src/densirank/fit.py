"""From interactions to a fitted scorer: a model, a risk and a sampler put together and trained.

One process and several make the same fit: each process trains the rows of its own users and items,
which for one process are all there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.share import Share
from densirank.device import Hardware
from densirank.errors import InputError, warn
from densirank.evaluation.held_out import NONE_KNOWN, HeldOut
from densirank.filters.combine import Filters, FilterSettings
from densirank.filters.similarity import nearness
from densirank.linalg.csr import SparsePart
from densirank.methods import METHODS, Method
from densirank.models.base import ItemSide, Model
from densirank.ranking.untrained import with_fallbacks
from densirank.risks import Risk
from densirank.risks.positives import Positives
from densirank.risks.weighting import DensitySettings
from densirank.scores import VectorScorer
from densirank.settings import Settings, TrainingSettings
from densirank.training.batches import BatchSampler
from densirank.training.callbacks import Callback, Snapshots
from densirank.training.candidates import HardCandidates
from densirank.training.checkpoint import Checkpoint
from densirank.training.loop import Outcome, Validate, train
from densirank.world import ONE_PROCESS, World

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


Start = Callable[[Model], None]
"""Says where the training of a model starts from, if not from chance."""


def fit_scorer(task: FitTask, start: Start | None = None) -> Fitted:
    """The fit of one process."""
    fitted = fit_over(ONE_PROCESS, task, start)
    assert fitted is not None, "the first process has the result"
    return fitted


def fit_over(world: World, task: FitTask, start: Start | None = None) -> Fitted | None:
    """A model of these interactions, trained; the first process gets it, all others None.

    Every process has the same data and takes its share of them, or has read its part alone.
    """
    if world.sharded:
        _check_sharded(world, task)
    method, settings, hardware, data = task.method, task.settings, task.hardware, task.data
    if world.first:
        _tell_of_ignored_weights(method, settings, data)
    generator = torch.Generator().manual_seed(task.seed)
    filters = Filters.of(data, settings, hardware.device)
    if method.risk_spec is None:
        made = method.model_type.of(data, settings, generator).prepare(hardware)
        side = ItemSide(data.item_counts, near=filters.near)
        return Fitted(_scorer_as_made(made, filters), side, made.kept())
    assert isinstance(settings, TrainingSettings), "what has a risk has the settings of training"
    share = Share.of(world, data)
    hard = _hard_candidates(data, settings, filters, hardware.device)
    batches = BatchSampler.of(share, settings, task.seed, hardware.device, hard)
    risk, checkpoint = method.risk_spec.on(hardware, settings), task.checkpoint
    if world.sharded:
        assert method.model_type.sharded is not None
        model: Model = method.model_type.sharded(share, settings, generator, batches.size)
        risk = part_of(risk, batches.size)
        if checkpoint is not None:  # what it imports takes a second, and only several need it
            from densirank.training.sharded_checkpoint import ShardedCheckpoint

            checkpoint = ShardedCheckpoint(checkpoint, share, model)
    else:
        model = method.model_type.of(data, settings, generator)
    model = model.prepare(hardware)
    if start is not None:
        start(model)
    outcome = train(
        model,
        risk,
        batches,
        settings,
        hardware,
        _validator(task, share, filters),
        task.callbacks if world.first else (),
        checkpoint,
        task.snapshots,
        world,
    )
    with torch.no_grad():
        messages = model.messages()
    users, items = world.collected(outcome.user_vectors), world.collected(outcome.item_vectors)
    parameters = {name: world.collected(rows) for name, rows in outcome.parameters.items()}
    messages = None if messages is None else world.collected(messages)
    if users is None or items is None:
        return None
    return Fitted(
        filters(users, items),
        ItemSide(share.item_counts, messages, filters.near),
        {name: rows for name, rows in parameters.items() if rows is not None},
        training_record(outcome) | ({"processes": world.size} if world.sharded else {}),
    )


def _tell_of_ignored_weights(method: Method, settings: Settings, data: Interactions) -> None:
    """Warn where pairs have different weights and the method counts every pair alike."""
    if method.uses_weights or data.weights is None or np.ptp(data.weights) == 0:
        return
    what = "the weights of the interactions are ignored"
    if FilterSettings.of(settings).asked:
        what = "only its filters use the weights of the interactions"
    warn(f"{method.name} counts every pair alike: {what}")


def part_of(risk: Risk, users_per_batch: int) -> Risk:
    """The part that a process's users have in a risk, which is a mean over all users of a batch."""

    def part(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
        if len(positives) == 0:  # none of its users came: others still wait for its vectors
            return 0 * (user_vectors.sum() + item_vectors.sum())
        return risk(user_vectors, item_vectors, positives) * (len(positives) / users_per_batch)

    return part


def _check_sharded(world: World, task: FitTask) -> None:
    """Refuse what several processes cannot fit, or were not all given."""
    method, data, filters = task.method, task.data, FilterSettings.of(task.settings).asked
    if not _can_be_sharded(method):
        able = [other.name for other in METHODS.values() if _can_be_sharded(other)]
        raise InputError(
            f"{method.name} cannot be trained by several processes; those that can are "
            f"{', '.join(able)}"
        )
    if data.partial and filters:
        raise InputError(
            "a filter needs the rows of all users, and processes that share a partition hold only "
            f"their own: set {filters[0]}=0, or fit the log itself if every process can hold it"
        )
    if isinstance(task.settings, DensitySettings) and task.settings.hard_candidates:
        raise InputError("hard_candidates are drawn by one process alone: set hard_candidates=0")
    run = {} if task.checkpoint is None else task.checkpoint.run
    users, items, _ = data.totals
    world.require_same({"data": data.fingerprint, **run, "users": users, "items": items})


def _can_be_sharded(method: Method) -> bool:
    risk = method.risk_spec
    return method.model_type.sharded is not None and risk is not None and risk.is_density


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


def _validator(task: FitTask, share: Share, filters: Filters) -> Validate | None:
    """What the trainer calls to learn how well an iterate ranks the held-out items, if any are.

    A process looks at its own users. They are in the order of ranks, so their numbers come together
    as one process has them, and the mean is the same to the last digit.
    """
    if task.held_out is None:
        return None
    world, device = share.world, task.hardware.device
    own: HeldOut | None = None
    with suppress(InputError):  # held-out users may all be other processes'
        own = HeldOut(task.held_out, share.own, device, share.item_counts)
    if not world.any(own is not None):
        raise InputError(NONE_KNOWN)
    if world.sharded:
        filters = filters.for_histories(share.own)

    def ndcg(user_vectors: Tensor, item_vectors: Tensor) -> float:
        all_items, values = world.gathered(item_vectors), np.empty(0)
        if own is not None:
            scorer = filters(user_vectors, all_items)
            scorer = with_fallbacks(scorer, share.own.user_counts, share.item_counts)
            values = own.evaluate(scorer, VALIDATION_K).per_user["ndcg"]
        return float(world.gathered(torch.from_numpy(values).to(device)).cpu().numpy().mean())

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
