"""Each process's part of a batch that all of them draw alike."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from densirank.distributed.group import World
from densirank.distributed.shares import Share
from densirank.risks import Risk
from densirank.risks.positives import Positives
from densirank.risks.weighting import Weighting
from densirank.settings import TrainingSettings
from densirank.training.batches import Batch, BatchSampler, Draw


class SplitBatchSampler(BatchSampler):
    """Draws what one process would draw, and arranges this process's users of it.

    The candidates are those of the whole batch: their ids are gathered before the risk, so that
    all processes together minimise the estimator that one would.
    """

    def __init__(self, world: World, share: Share, settings: TrainingSettings, seed: int) -> None:
        super().__init__(
            share.own,
            settings.users_per_batch,
            settings.candidates,
            seed,
            world.device,
            Weighting.of(share.own, settings, world.device, share.user_counts, share.item_counts),
            torch.from_numpy(share.user_counts).to(world.device),
        )
        self._world = world
        self._first_user, self._n_own = share.first_user, share.own.n_users

    def arrange(self, draw: Draw) -> Batch:
        own = draw.users - self._first_user
        return super().arrange(replace(draw, users=own[(own >= 0) & (own < self._n_own)]))

    def _unique(self, items: Tensor) -> Tensor:
        own = super()._unique(items).to(torch.int32)
        return super()._unique(torch.cat(self._world.gathered(own)).long())


def part_of(risk: Risk, users_per_batch: int) -> Risk:
    """The part that a process's users have in a risk, which is a mean over all users of a batch."""

    def part(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
        if len(positives) == 0:  # none of its users came: others still wait for its vectors
            return 0 * (user_vectors.sum() + item_vectors.sum())
        return risk(user_vectors, item_vectors, positives) * (len(positives) / users_per_batch)

    return part
