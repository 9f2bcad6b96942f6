"""What stands beside the vectors in a score: filters of a closed form, which need no training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.filters.item_filter import ItemFilter
from densirank.filters.low_pass import LowPass
from densirank.linalg.csr import Rows
from densirank.linalg.sparse import Matrix
from densirank.scores import VectorScorer
from densirank.settings import Settings


@dataclass(frozen=True)
class Beside:
    """The filters that some settings ask for, the same at every step of training."""

    item_filter: ItemFilter | None
    low_pass: LowPass | None
    data: Interactions  # what those had whose scores are made
    settings: Settings
    device: torch.device

    @classmethod
    def of(cls, data: Interactions, settings: Settings, device: torch.device) -> Beside:
        """What the settings give a weight, made of all these interactions."""
        item_filter = low_pass = None
        if settings.filter_weight != 0:
            recency, span = settings.filter_recency, settings.filter_span
            item_filter = ItemFilter.of(data, device, recency, span, settings.filter_kind)
        if settings.low_pass_weight != 0:
            low_pass = LowPass.of(data, settings.low_pass_rank, device)
        return cls(item_filter, low_pass, data, settings, device)

    def for_histories(self, data: Interactions) -> Beside:
        """The same for some people, by what they had."""
        item_filter = self.item_filter
        if item_filter is not None:
            recency = self.settings.filter_recency
            item_filter = ItemFilter.for_histories(data, item_filter.near, self.device, recency)
        return replace(self, item_filter=item_filter, data=data)

    @cached_property
    def histories(self) -> Rows:
        """What they had, on the device: a copy that is made where somebody asks for it."""
        return Rows.of(self.data, self.device)

    @property
    def near(self) -> Matrix | None:
        """Each item's nearest ones, where there is a filter that says them."""
        return None if self.item_filter is None else self.item_filter.near

    def __call__(self, users: Tensor, items: Tensor) -> VectorScorer:
        """How these vectors score."""
        part = None
        if self.item_filter is not None:
            part = self.item_filter.beside(users, items, self.settings.filter_weight)
        if self.low_pass is not None:
            weight = self.settings.low_pass_weight
            low_pass = self.low_pass.in_units_of(items, weight)
            users, items = low_pass.beside(self.histories, users, items, weight)
        return VectorScorer(users, items, part)
