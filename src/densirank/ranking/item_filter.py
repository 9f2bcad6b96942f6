"""A one-hop item–item filter beside the vectors: what people with the same items went on to.

User u's filter scores are g_u = R_u N, N saying how near items are: no training, and of full rank,
so they know of rare items what d dimensions cannot hold. The scores of a user are made when they
are asked for, so memory grows with users and items and not with their product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from densirank.csr import PartSource, SparsePart
from densirank.data.interactions import Interactions
from densirank.data.recency import recency_weights
from densirank.ranking.filter_part import FilterPart, FilterPartOnGPU
from densirank.ranking.nearness import nearness
from densirank.ranking.scores import score_spreads
from densirank.settings import FilterKind
from densirank.sparse_products import Matrix, narrow


@dataclass(frozen=True)
class ItemFilter:
    """What the filter scores of some people follow from: g_u = R_u N."""

    had: Matrix  # R, (users, items): what each one had, and how much it counts
    near: Matrix  # N, (items, items), as far as items keep it: it says the scores of anybody
    device: torch.device

    @classmethod
    def of(
        cls,
        data: Interactions,
        device: torch.device,
        recency: float = 0.0,
        span: int = 0,
        kind: FilterKind = "mild",
    ) -> ItemFilter:
        """The filter of some interactions, for the people in them.

        Recent items may count more, and items of the same ``span`` items in a row be nearer.
        """
        return cls.for_histories(data, nearness(data, device, span, kind), device, recency)

    @classmethod
    def for_histories(
        cls, data: Interactions, near: Matrix, device: torch.device, recency: float = 0.0
    ) -> ItemFilter:
        """The filter for people who had no part in making it, by what they had."""
        had = data.matrix()
        had.data = recency_weights(data, recency).astype(np.float32)
        return cls(narrow(had), near, device)

    def beside(self, user_vectors: Tensor, item_vectors: Tensor, weight: float) -> PartSource:
        """The part that makes f + weight · σ_u(f) · g / σ_u(g) of the dot products f."""
        return self.part(weight * score_spreads(user_vectors, item_vectors))

    def part(self, scale: Tensor) -> PartSource:
        """scale_u · g / σ_u(g), the way this device makes it."""
        if self.device.type == "cuda":
            return FilterPartOnGPU(*self._on_device, scale)
        return FilterPart(self.had, self.near, scale)

    @cached_property
    def _on_device(self) -> tuple[SparsePart, SparsePart]:
        return SparsePart.of(self.had, self.device), SparsePart.of(self.near, self.device)
