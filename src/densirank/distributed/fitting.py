"""A fit by several processes: the one of :mod:`densirank.fit`, with everything split."""

from __future__ import annotations

import json

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.distributed.batches import SplitBatchSampler, part_of
from densirank.distributed.checkpoint import SplitCheckpoint
from densirank.distributed.group import World
from densirank.distributed.models import SPLIT, Split
from densirank.distributed.portions import refuse_filters
from densirank.distributed.shares import Share
from densirank.distributed.validation import validator
from densirank.errors import InputError
from densirank.filters.combine import Filters
from densirank.fit import FitTask, Fitted, training_record
from densirank.methods import METHODS, Method
from densirank.models.base import ItemSide
from densirank.risks.weighting import DensitySettings
from densirank.settings import TrainingSettings
from densirank.training.loop import train


def fit_together(world: World, task: FitTask) -> Fitted | None:
    """The fit that one process would make; the first process gets it, all others None.

    Every process has the same data and takes its share of them, or has read its portion alone.
    """
    method, settings, data, checkpoint = task.method, task.settings, task.data, task.checkpoint
    _check_method(method)
    risk = method.risk_spec
    assert risk is not None
    assert isinstance(settings, TrainingSettings)
    refuse_filters(data, settings)
    if isinstance(settings, DensitySettings) and settings.hard_candidates:
        raise InputError("hard_candidates are drawn by one process alone: set hard_candidates=0")
    require_same(world, data, {} if checkpoint is None else checkpoint.run)
    on_device = Hardware(world.device)  # in single precision: what has no split kernels
    share = Share.of(world, data)
    batches = SplitBatchSampler(world, share, settings, task.seed)
    generator = torch.Generator().manual_seed(task.seed)
    model = SPLIT[method.model](world, share, settings, generator, batches.size).prepare(on_device)
    filters = Filters.of(data, settings, world.device)
    outcome = train(
        model,
        part_of(risk.on(on_device, settings), batches.size),
        batches,
        settings,
        on_device,
        validator(world, share, task.held_out, filters),
        task.callbacks if world.first else (),
        None if checkpoint is None else SplitCheckpoint(world, checkpoint, model),
        task.snapshots,
        world,
    )
    users, items = world.collected(outcome.user_vectors), world.collected(outcome.item_vectors)
    parameters = {name: world.collected(rows) for name, rows in outcome.parameters.items()}
    messages = _messages(world, model)
    if users is None or items is None:
        return None
    return Fitted(
        filters(users, items),
        ItemSide(share.item_counts, messages, filters.near),
        {name: rows for name, rows in parameters.items() if rows is not None},
        training_record(outcome) | {"processes": world.size},
    )


def require_same(world: World, data: Interactions, run: dict[str, object]) -> None:
    """Refuse to begin where processes have been given different data or options."""
    users, items, _ = data.totals
    about = {"data": data.fingerprint, **run, "users": users, "items": items}
    runs = [json.loads(text) for text in world.texts("run", json.dumps(about))]
    for rank, other in enumerate(runs):
        for key, value in runs[0].items():
            if other[key] != value:
                raise InputError(
                    f"process {rank} was given another run than process 0: its {key} is "
                    f"{other[key]!r}, not {value!r}; give all the same data and options"
                )


def _messages(world: World, model: Split) -> Tensor | None:
    """What the items say to those who have them, all of it on the first process."""
    with torch.no_grad():
        own = model.messages()
    return None if own is None else world.collected(own)


def _check_method(method: Method) -> None:
    """Refuse what cannot be split."""
    if not _can_be_split(method):
        able = [other.name for other in METHODS.values() if _can_be_split(other)]
        raise InputError(
            f"{method.name} cannot be trained by several processes; those that can are "
            f"{', '.join(able)}"
        )


def _can_be_split(method: Method) -> bool:
    risk = method.risk_spec
    return method.model in SPLIT and risk is not None and risk.is_density
