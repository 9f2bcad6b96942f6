"""Vectors and filters together: what is added to a score in closed form, without training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.recency import pair_weights
from densirank.filters.item_filter import ItemFilter
from densirank.filters.low_pass import LowPass
from densirank.filters.similarity import FILTER_KINDS, FilterKind
from densirank.linalg.csr import Rows
from densirank.linalg.sparse import Matrix
from densirank.scores import VectorScorer
from densirank.settings import Number, OneOf, Settings, Whole, setting


@dataclass(frozen=True)
class FilterSettings(Settings):
    """Filters: what is added to the scores of the vectors, and how much of it."""

    filter_weight: float = setting(
        0.0, Number(), "How much of the one-hop item–item filter is added to the scores; 0: none."
    )
    filter_recency: float = setting(0.0, Number(), "δ of the user's items in the item–item filter.")
    filter_span: int = setting(
        0,
        Whole(0),
        "Consecutive items that count as close in time in the filter; 0: time does not count.",
    )
    filter_kind: FilterKind = setting(
        "mild",
        OneOf(FILTER_KINDS),
        "N of the filter: mild or the graph's way with popular items, or by ridge.",
    )
    low_pass_weight: float = setting(
        0.0, Number(), "How much of the low-pass filter is added to the scores; 0: none."
    )
    low_pass_rank: int = setting(
        256, Whole(1), "Numbers that the low-pass filter adds to each vector."
    )

    @classmethod
    def of(cls, settings: Settings) -> FilterSettings:
        """The part of a method's settings that is about filters; no filter where it has none."""
        return settings if isinstance(settings, FilterSettings) else FilterSettings()

    @property
    def asked(self) -> list[str]:
        """The settings that give a filter a weight."""
        return [key for key in ("filter_weight", "low_pass_weight") if getattr(self, key) != 0]


@dataclass(frozen=True)
class Filters:
    """The filters that some settings ask for, and how vectors score with them.

    This is the one place where vectors and filters come together: a fit, its validation, people
    who are folded in and what explains an item all call it.
    """

    settings: FilterSettings
    data: Interactions  # what those had whose scores are made
    device: torch.device
    item_filter: ItemFilter | None = None
    low_pass: LowPass | None = None

    @classmethod
    def of(cls, data: Interactions, settings: Settings, device: torch.device) -> Filters:
        """The filters that are given a weight, made from all these interactions."""
        own = FilterSettings.of(settings)
        item_filter = low_pass = None
        if own.filter_weight != 0:
            recency, span = own.filter_recency, own.filter_span
            item_filter = ItemFilter.of(data, device, recency, span, own.filter_kind)
        if own.low_pass_weight != 0:
            low_pass = LowPass.of(data, own.low_pass_rank, device)
        return cls(own, data, device, item_filter, low_pass)

    def for_histories(self, data: Interactions) -> Filters:
        """The same filters for other people, by what they had."""
        if self.item_filter is None:
            return replace(self, data=data)
        near, recency = self.item_filter.near, self.settings.filter_recency
        item_filter = ItemFilter.for_histories(data, near, self.device, recency)
        return replace(self, item_filter=item_filter, data=data)

    @cached_property
    def histories(self) -> Rows:
        """What they had, on the device: a copy that is made when it is first needed."""
        return Rows.of(self.data, self.device)

    @cached_property
    def pair_weights(self) -> Tensor | None:
        """How much each of their items counts to them, on the device; None: all alike."""
        weights = pair_weights(self.data)
        if weights is None:
            return None
        return torch.from_numpy(weights.astype(np.float32)).to(self.device)

    @property
    def near(self) -> Matrix | None:
        """Each item's nearest ones, where there is a filter that says them."""
        return None if self.item_filter is None else self.item_filter.near

    def __call__(self, users: Tensor, items: Tensor) -> VectorScorer:
        """How these vectors score."""
        part = None
        if self.item_filter is not None:
            part = self.item_filter.added_to(users, items, self.settings.filter_weight)
        if self.low_pass is not None:
            weight = self.settings.low_pass_weight
            low_pass = self.low_pass.scaled_to(items, weight)
            users, items = low_pass.added_to(
                self.histories, users, items, weight, self.pair_weights
            )
        return VectorScorer(users, items, part)
