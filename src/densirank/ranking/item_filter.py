"""A one-hop item–item filter beside the vectors: what people with the same items went on to.

Two items are near by the rows in which they stand together, N_ij = n_i^-a n_j^-b Σ_r n_r^-c, and
user u's filter scores are g_u = R_u N: no training, and of full rank, so they know of rare items
what d dimensions cannot hold. The rows are everybody's histories and, where nearness in time
counts, also the stretches of some items in a row that these are made of. Each item keeps its
nearest neighbours, so memory grows with users and items and not with their product, and the scores
of a user are made when they are asked for.

With the powers of the graph that LightGCN is propagated over, R̃ = D_U^-½ R D_I^-½, the scores are
those of R̃ R̃ᵀ R̃, the linear filter of GF-CF (Shen et al. 2021). Mild ones hold popular items and
long rows back less: better alone, and where data are few (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from densirank.csr import PartSource, SparsePart
from densirank.data.interactions import Interactions
from densirank.data.recency import recency_weights, stretches
from densirank.dense_products import best_of_product
from densirank.ranking.filter_part import FilterPart, FilterPartOnGPU
from densirank.ranking.scores import score_spreads
from densirank.settings import FilterPowers
from densirank.sparse_products import Matrix, best_entries, by_row_blocks, narrow

NEIGHBOURS = 200
"""Entries of N that an item keeps."""


class Powers(NamedTuple):
    """How far a popular item had, a popular item wanted and a long row are held back."""

    had: float
    wanted: float
    row: float


POWERS: Mapping[FilterPowers, Powers] = {
    "mild": Powers(had=0.5, wanted=0.4, row=0.5),
    "graph": Powers(had=1.0, wanted=0.5, row=1.0),
}


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
        powers: FilterPowers = "mild",
    ) -> ItemFilter:
        """The filter of some interactions, for the people in them.

        Recent items may count more, and items of the same ``span`` items in a row be nearer.
        """
        return cls.for_histories(data, nearness(data, device, span, powers), device, recency)

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


def nearness(
    data: Interactions, device: torch.device, span: int = 0, powers: FilterPowers = "mild"
) -> Matrix:
    """N, (items, items): each item's nearest ones, and how near they are."""
    had, wanted = _factors(data, span, POWERS[powers])
    if device.type == "cuda":
        return narrow(best_of_product(had, wanted, NEIGHBOURS, device))
    return narrow(by_row_blocks(had, wanted, lambda _, block: best_entries(block, NEIGHBOURS)))


def _factors(data: Interactions, span: int, powers: Powers) -> tuple[Matrix, Matrix]:
    """N as a product, (items, rows) times (rows, items)."""
    rows, items = data.users, data.items
    if span > 0:
        rows = np.concatenate([rows, data.n_users + stretches(data, span)])
        items = np.concatenate([items, items])
    lengths = np.bincount(rows)
    weights = (lengths[rows] ** (-powers.row / 2)).astype(np.float32)
    shape = (len(lengths), data.n_items)
    wanted = narrow(sparse.csr_array((weights, (rows, items)), shape=shape))
    had = wanted.T.tocsr()
    popularity = np.maximum(data.item_counts, 1)
    had.data *= np.repeat(popularity**-powers.had, np.diff(had.indptr)).astype(np.float32)
    wanted.data *= (popularity**-powers.wanted).astype(np.float32)[wanted.indices]
    return had, wanted
