"""A one-hop item–item filter: what people with the same items went on to.

User u's filter scores are g_u = R_u N, N saying how near items are: no training, and of full rank,
so they know of rare items what d dimensions cannot hold. The scores of a user are made when they
are asked for, so memory grows with users and items and not with their product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.recency import pair_weights
from densirank.filters.similarity import FilterKind, nearness
from densirank.linalg.csr import KEPT, PartSource, Rows, SparsePart
from densirank.linalg.products import write_product
from densirank.linalg.sparse import Matrix, best_besides, by_row_blocks, in_row_blocks, narrow
from densirank.scores import score_spreads


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

        Items of a higher weight count more. Recent items may, and items of the same ``span`` items
        in a row be nearer.
        """
        return cls.for_histories(data, nearness(data, device, span, kind), device, recency)

    @classmethod
    def for_histories(
        cls, data: Interactions, near: Matrix, device: torch.device, recency: float = 0.0
    ) -> ItemFilter:
        """The filter for people who had no part in making it, by what they had."""
        had = data.matrix()
        weights = pair_weights(data, recency)
        if weights is not None:
            had.data = weights.astype(np.float32)
        return cls(narrow(had), near, device)

    def added_to(self, user_vectors: Tensor, item_vectors: Tensor, weight: float) -> PartSource:
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


FLAT = 1e-6
"""Share of the mean square that the variance of a user's scores must exceed. What lies below is
rounding: the scores are the same for all items, and there is nothing to standardise."""


@dataclass(frozen=True)
class FilterPart:
    """scale_u · g_u / σ_u(g), σ over all items; on a CPU.

    It follows from what the user had and from each item's nearest ones. So those are kept, and not
    the scores of everybody: what is ranked is exact, and nothing is made before the first list.
    """

    had: Matrix  # R, (users, items)
    near: Matrix  # N, (items, items)
    scale: Tensor  # (users,)

    def to_keep(self) -> tuple[SparsePart, Tensor]:
        """What has to be kept to make it again, besides N: (R, the scale)."""
        return SparsePart.of(self.had, self.scale.device), self.scale

    def take(self, users: Tensor) -> SparsePart:
        """All that these users' parts are made of, in this order."""
        had = self.had[users.numpy()]
        scale = self.scale[users].numpy()
        part = by_row_blocks(had, self.near, lambda rows, g: _scaled(g, scale[rows]))
        return SparsePart.of(part, users.device)

    def kept(self, users: Tensor) -> SparsePart:
        """The highest of what is not had, and all of what is."""
        part, had = self.take(users), self.had[users.numpy()]
        kept = best_besides(part.to_scipy(self.near.shape[0]), KEPT, had)
        return SparsePart.of(kept, users.device)

    def write(self, scores: Tensor, users: Tensor) -> None:
        """Set scores, (users, items), to the users' parts and to 0 where there is none."""
        had = self.had[users.numpy()]
        scale, table = self.scale[users].numpy(), scores.numpy()

        def fill(rows: slice, g: Matrix) -> None:
            _scaled(g, scale[rows]).toarray(out=table[rows])

        in_row_blocks(had, self.near, fill)


@dataclass(frozen=True)
class FilterPartOnGPU:
    """The same where sums over sparse rows are best written out."""

    had: SparsePart
    near: SparsePart
    scale: Tensor

    def to_keep(self) -> tuple[SparsePart, Tensor]:
        """What has to be kept to make it again, besides N: (R, the scale)."""
        return self.had, self.scale

    def take(self, users: Tensor) -> SparsePart:
        """All that these users' parts are made of, in this order."""
        table = self.scale.new_empty(len(users), len(self.near.rows))
        self.write(table, users)
        row, column = table.nonzero(as_tuple=True)
        ends = row.bincount(minlength=len(users)).cumsum(0)
        indptr = torch.cat([ends.new_zeros(1), ends])
        return SparsePart(Rows(indptr, column), table[row, column])

    def kept(self, users: Tensor) -> SparsePart:
        """The highest of what is not had, and all of what is."""
        n_items = len(self.near.rows)
        part, had = (some.to_scipy(n_items) for some in (self.take(users), self.had.take(users)))
        return SparsePart.of(best_besides(part, KEPT, had), users.device)

    def write(self, scores: Tensor, users: Tensor) -> None:
        """Set scores, (users, items), to the users' parts and to 0 where there is none."""
        own = self.had.take(users)
        write_product(own, self.near, scores)
        variance = scores.var(dim=1, correction=0)
        flat = variance <= FLAT * scores.square().mean(dim=1)
        factors = self.scale[users] / variance.masked_fill(flat, torch.inf).sqrt()
        scores *= factors.unsqueeze(1)


def _scaled(g: Matrix, scale: NDArray[np.float32]) -> Matrix:
    """scale · g / σ(g) of each row, in place."""
    counts, n_items = np.diff(g.indptr), g.shape[1]
    some = counts > 0
    starts = g.indptr[:-1][some]

    def mean(values: NDArray[np.float32]) -> NDArray[np.float64]:
        means: NDArray[np.float64] = np.add.reduceat(values, starts, dtype=np.float64) / n_items
        return means

    if some.any():
        square = mean(g.data**2)
        variance = square - mean(g.data) ** 2
        flat = variance <= FLAT * square
        factors = np.where(flat, 0, scale[some] / np.sqrt(np.where(flat, 1, variance)))
        g.data *= np.repeat(factors.astype(np.float32), counts[some])
    return g
