"""User-based mini-batches: users U_B, all their positive items, and the candidate items I_B."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.share import Share
from densirank.linalg.csr import Rows
from densirank.risks.positives import Positives
from densirank.risks.weighting import PLAIN, Weighting
from densirank.settings import Candidates, TrainingSettings
from densirank.training.candidates import HardCandidates

MODEL_STREAM = 1 << 31
"""Offset between the seeds of models and of risks, which count up from theirs; a CPU generator
uses 32 bits of a seed."""


@dataclass(frozen=True)
class Draw:
    """The random part of a batch, which determines everything else."""

    users: Tensor  # (users,) indices of U_B
    sample: Tensor | None  # sampled items of I_B (indices), possibly repeated
    seed: int  # for the random numbers of a model or a risk


@dataclass(frozen=True)
class Batch:
    """The users and items whose vectors a step needs, and the positives among them."""

    users: Tensor  # (users,) indices of U_B
    items: Tensor  # (items,) indices: the candidates I_B first, then positives outside of them
    positives: Positives

    @property
    def candidates(self) -> Tensor:
        """The indices of I_B."""
        return self.items[: self.positives.n_candidates]

    @property
    def seed(self) -> int:
        """Seed of the model's random numbers, independent of those of the risk."""
        return (self.positives.seed + MODEL_STREAM) % 2**63


class BatchSampler:
    """Draws the batch of any iteration from the seed only, so a resumed run needs no state.

    Users are shuffled once per epoch. Each user with positives appears once per epoch, except for
    a remainder smaller than a batch; users without positives are skipped.
    """

    def __init__(
        self,
        data: Interactions,
        users_per_batch: int,
        candidates: Candidates,
        seed: int,
        device: torch.device,
        weighting: Weighting = PLAIN,
        hard: HardCandidates | None = None,
        share: Share | None = None,
    ) -> None:
        """``share`` describes this process's data if several processes draw the same batches.

        Each process then arranges its own users of a batch. The candidates are those of the global
        batch, so all processes together minimise the same estimator as a single process.
        """
        self._rows = Rows.of(data, device)
        self._weighting = weighting
        self._share = share
        counts = self._rows.counts
        if share is not None:
            counts = torch.from_numpy(share.user_counts).to(device)
        self._active = (counts > 0).nonzero().squeeze(1)
        self._size = min(users_per_batch, len(self._active))
        self._batches_per_epoch = len(self._active) // self._size
        self._n_items = data.n_items
        self._sample_size: int | None = None
        if isinstance(candidates, int) and candidates < data.n_items:
            self._sample_size = candidates
        self._unique_positives = candidates == "batch"
        self._hard = hard
        self._seed = seed
        self._device = device
        self._epoch, self._shuffled = -1, self._active

    @classmethod
    def of(
        cls,
        share: Share,
        settings: TrainingSettings,
        seed: int,
        device: torch.device,
        hard: HardCandidates | None = None,
    ) -> BatchSampler:
        """The sampler of a fit with these settings, for this process's users."""
        counts = share.user_counts, share.item_counts
        weighting = Weighting.of(share.own, settings, device, *counts)
        size, candidates = settings.users_per_batch, settings.candidates
        return cls(share.own, size, candidates, seed, device, weighting, hard, share)

    @property
    def size(self) -> int:
        """|U_B| of every batch, over all processes."""
        return self._size

    def __call__(self, iteration: int) -> Batch:
        """The batch of this iteration (counted from 0)."""
        return self.arrange(self.draw(iteration))

    def draw(self, iteration: int) -> Draw:
        """The random part of the batch of this iteration."""
        epoch, turn = divmod(iteration, self._batches_per_epoch)
        if epoch != self._epoch:
            order = torch.randperm(len(self._active), generator=self._generator(0, epoch))
            self._epoch, self._shuffled = epoch, self._active[order.to(self._device)]
        users = self._shuffled[turn * self._size : (turn + 1) * self._size]
        return Draw(users, self._sample(users, iteration), self._mixed(2, iteration))

    def _sample(self, users: Tensor, iteration: int) -> Tensor | None:
        """The sampled candidates: uniform, hard, both, or None."""
        parts = []
        if self._sample_size is not None:
            order = torch.randperm(self._n_items, generator=self._generator(1, iteration))
            parts.append(order[: self._sample_size].to(self._device))
        if self._hard is not None:
            parts.append(self._hard(users, self._generator(3, iteration)))
        return torch.cat(parts) if parts else None

    def arrange(self, draw: Draw) -> Batch:
        """Number the items of the batch, candidates first, and look up each user's positives."""
        if self._share is not None:
            draw = replace(draw, users=self._share.own_users(draw.users))
        indptr, entries = self._rows.entries_of(draw.users)
        columns = self._rows.columns[entries]
        place = torch.full((self._n_items,), -1, device=self._device)
        if self._unique_positives:
            own = columns if draw.sample is None else torch.cat([columns, draw.sample])
            candidates = self._unique(own)
        elif draw.sample is None:
            candidates = torch.arange(self._n_items, device=self._device)
        else:
            candidates = draw.sample if self._hard is None else self._unique(draw.sample)
        n_candidates = len(candidates)
        items = candidates
        place[candidates] = torch.arange(n_candidates, device=self._device)
        certain = self._unique_positives or draw.sample is None
        all_are_candidates = certain or bool((place[columns] >= 0).all())
        if not all_are_candidates:
            outside = torch.unique(columns[place[columns] < 0])
            place[outside] = torch.arange(len(outside), device=self._device) + n_candidates
            items = torch.cat([candidates, outside])
        positives = Positives(indptr, place[columns], n_candidates, all_are_candidates, draw.seed)
        return self._weighted(Batch(draw.users, items, positives), entries)

    def arrange_padded(self, draw: Draw) -> Batch:
        """:meth:`arrange` with sizes that do not depend on the draw, without device syncs.

        Items are padded with unused ones at the end.
        """
        starts, counts = self._rows.indptr[draw.users], self._rows.counts[draw.users]
        indptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        entries = self._entry_numbers
        row = torch.searchsorted(indptr[1:], entries, right=True).clamp_(max=len(starts) - 1)
        used = entries < indptr[-1]
        sources = torch.where(used, (starts - indptr[:-1])[row] + entries, 0)
        columns = self._rows.columns[sources]
        if draw.sample is None and not self._unique_positives:
            positives = Positives(indptr, columns, self._n_all, True)
            return self._weighted(Batch(draw.users, self._all_items, positives), sources)

        nothing = torch.zeros(self._n_items + 1, dtype=torch.bool, device=self._device)
        positive = nothing.index_fill(0, torch.where(used, columns, self._n_items), True)[:-1]
        candidate = positive if self._unique_positives else nothing[:-1]
        if draw.sample is not None:
            candidate = candidate | nothing.index_fill(0, draw.sample, True)[:-1]
        place, n_candidates = _in_groups(candidate, positive & ~candidate)
        n_drawn = 0 if draw.sample is None else len(draw.sample)
        capacity = min(self._n_items, len(entries) + n_drawn)
        items = torch.empty_like(self._all_items).scatter_(0, place, self._all_items)
        positives = Positives(indptr, place[columns], n_candidates)
        return self._weighted(Batch(draw.users, items[:capacity], positives), sources)

    def _unique(self, items: Tensor) -> Tensor:
        """The distinct items over all processes, in ascending order."""
        if self._share is not None and self._share.world.size > 1:
            own = self._distinct(items).to(torch.int32)
            items = self._share.world.gathered(own).long()
        return self._distinct(items)

    def _distinct(self, items: Tensor) -> Tensor:
        there = torch.zeros(self._n_items, dtype=torch.bool, device=self._device)
        there[items] = True
        return there.nonzero().squeeze(1)

    def _weighted(self, batch: Batch, entries: Tensor) -> Batch:
        """The batch with the weights of its users, items and pairs (``entries`` of the data)."""
        weighting = self._weighting
        positives = replace(
            batch.positives,
            weights=None if weighting.pairs is None else weighting.pairs[entries],
            user_weights=None if weighting.users is None else weighting.users[batch.users],
            log_base=None if weighting.log_base is None else weighting.log_base[batch.items],
        )
        return replace(batch, positives=positives)

    @cached_property
    def _entry_numbers(self) -> Tensor:
        """0, 1, … below the largest number of positives of a batch (its most active users)."""
        busiest = self._rows.counts.sort(descending=True).values[: self._size]
        return torch.arange(int(busiest.sum()), device=self._device)

    @cached_property
    def _all_items(self) -> Tensor:
        return torch.arange(self._n_items, device=self._device)

    @cached_property
    def _n_all(self) -> Tensor:
        return torch.tensor(self._n_items, dtype=torch.int32, device=self._device)

    def _generator(self, stream: int, number: int) -> torch.Generator:
        return torch.Generator().manual_seed(self._mixed(stream, number))

    def _mixed(self, stream: int, number: int) -> int:
        """A seed derived from the sampler's seed, a stream and a number in that stream."""
        mixed = np.random.SeedSequence((self._seed, stream, number)).generate_state(1, np.uint64)
        return int(mixed[0] >> 1)


def _in_groups(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """(positions that sort the first group first, then the second; size of the first group)."""
    n_first, n_second = first.sum(), second.sum()
    third = ~(first | second)
    place = torch.where(first, first.cumsum(0), n_first + second.cumsum(0))
    place = torch.where(third, n_first + n_second + third.cumsum(0), place) - 1
    return place, n_first.to(torch.int32)
